"""Threads of numerical libraries: their number must not change a result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from domaincover.terminal.processes import n_cores


@contextmanager
def one_thread() -> Iterator[None]:
    """Run numpy's linear algebra, and torch if it is loaded, in one thread: rounding may depend on the number."""
    torch: Any = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    if torch is not None:
        torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)


def n_threads() -> int:
    """Return how many threads to use: as many as there are cores, or OMP_NUM_THREADS, as for other libraries."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else n_cores()


def in_threads(act: Callable[[int], None], starts: Sequence[int], threads: int) -> None:
    """Call a function that releases Python's lock, as numpy does, for each of several numbers."""
    if min(threads, len(starts)) < 2:
        for start in starts:
            act(start)
        return
    from concurrent.futures import ThreadPoolExecutor

    with one_blas_thread(), ThreadPoolExecutor(min(threads, len(starts))) as pool:
        for _ in pool.map(act, starts):  # raises what a call has raised
            pass


def one_blas_thread() -> Any:
    """Return a context in which numpy's linear algebra runs in one thread."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
