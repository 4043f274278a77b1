"""Timings taken in turns, so that a noisy machine disturbs all sides alike."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A line of the table."""

    what: str
    measured: str
    wanted: str


def ratio(ours: Callable[[], object], other: Callable[[], object], repeats: int) -> float:
    """Return the median, over turns, of our time divided by the other's."""
    ours(), other()  # first calls pay for imports and caches
    return median(seconds(ours) / seconds(other) for _ in range(repeats))


def timed(call: Callable[..., Any], *arguments: Any, repeats: int = 1) -> tuple[float, Any]:
    """Return the shortest time of some calls, and what the last one returned."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        found = call(*arguments)
        times.append(time.perf_counter() - started)
    return min(times), found


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    return timed(call)[0]
