"""The processes, cores and memory that a command runs on, and work on items in some of them.

Items are worked on in this process, or in several through joblib. Both ways yield an item and what came of it as soon
as it has ended. `lost` makes a result of the reason why an item has none: its process was killed.
"""

from __future__ import annotations

import math
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Ended = Iterator[tuple[Item, Result]]
ATTEMPTS = 2  # for all remaining items after a process was killed
KILLED = "its process was killed, possibly out of memory; run the same command again with fewer processes"


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_of_machine() -> float:
    """Return the bytes of the machine's memory; infinitely many where the system does not say."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def handling(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Handle a signal in another way for a while, in the main thread, which receives signals."""
    try:
        before = signal.signal(number, handler)
    except ValueError:  # another thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before)


def in_turn(items: Sequence[Item], work: Callable[[Item], Result]) -> Ended[Item, Result]:
    """Work on items one after the other in this process."""
    for item in items:
        yield item, work(item)


def in_processes(
    items: Sequence[Item], work: Callable[[Item], Result], n_processes: int, lost: Callable[[str], Result]
) -> Ended[Item, Result]:
    """Work in joblib processes; if one is killed, start anew with the remaining items, at last with each alone."""
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # A worker that has grown by 300 MB stops, and a new one takes over its items: none is lost.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
    left = dict(enumerate(items))

    def each(numbers: Sequence[int]) -> Iterator[tuple[Item, Result]]:
        parallel = Parallel(n_jobs=n_processes, backend="loky", return_as="generator_unordered", batch_size=1)
        for number, done in parallel(delayed(_numbered)(number, left[number], work) for number in numbers):
            yield left.pop(number), done

    try:
        for _ in range(ATTEMPTS):
            with suppress(TerminatedWorkerError):
                yield from each(tuple(left))
            n_processes = max(2, n_processes // 2)  # with one, joblib would work in this process
        for number in tuple(left):  # one by one, to find out which of them ends its process
            try:
                yield from each([number])
            except TerminatedWorkerError:
                yield left[number], lost(KILLED)
    finally:
        with handling(signal.SIGINT, signal.SIG_IGN):  # until the processes have ended
            get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _numbered(number: int, item: Item, work: Callable[[Item], Result]) -> tuple[int, Result]:
    return number, work(item)
