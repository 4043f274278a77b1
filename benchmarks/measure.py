"""Timings taken in turns, so that a noisy machine disturbs all sides alike."""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple


class Row(NamedTuple):
    """A line of the table."""

    what: str
    measured: str
    wanted: str


def ratio(ours: Callable[[], object], other: Callable[[], object], repeats: int) -> float:
    """Return the median, over turns, of our time divided by the other's."""
    ours(), other()  # first calls pay for imports and caches
    return median(seconds(ours) / seconds(other) for _ in range(repeats))


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
