"""The processes, threads and cores that a command runs on, and work on items in some of them.

Items are worked on in this process, in several through joblib, or on the workers of a dask scheduler. Each way yields
an item and what came of it as soon as it has ended. `lost` makes a result of the reason why an item has none: its
process was killed, or its cluster is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from domaincover.errors import InputError, check_installed

Item = TypeVar("Item")
Result = TypeVar("Result")
Ended = Iterator[tuple[Item, Result]]
ATTEMPTS = 2  # for all remaining items after a process was killed
PATIENCE = 10  # seconds to wait for a scheduler
KILLED = "its process was killed, possibly out of memory; run the same command again with fewer processes"
DIED = "its workers died, possibly out of memory; run the same command again"
GONE = "the scheduler at {} is gone; start it and run the same command again"


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def on_cluster(
    items: Sequence[Item], work: Callable[[Item], Result], scheduler: str, lost: Callable[[str], Result]
) -> Ended[Item, Result]:
    """Work on the workers of a dask scheduler, which must have access to the files that the work needs."""
    check_installed("distributed", "clusters", "dask")
    import logging

    from distributed import Client, as_completed

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is told in our words
    try:
        client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"no dask scheduler answers at {scheduler}: {reason}") from None
    with client:
        n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
        if n_workers == 0:
            raise InputError(f"the scheduler at {scheduler} has no workers; start some: dask worker {scheduler}")
        futures = {client.submit(work, item, pure=False, retries=0): item for item in items}
        try:
            for future in as_completed(list(futures), loop=client.loop):
                item, done = futures.pop(future), _result(future, scheduler, lost)
                future.release()  # or its worker would keep the result
                yield item, done
        finally:
            with suppress(*_gone_errors()):  # the scheduler may be gone
                client.cancel(list(futures))


def _result(future: Any, scheduler: str, lost: Callable[[str], Result]) -> Result:
    try:
        fault = future.exception()
        if fault is None:
            done: Result = future.result()
            return done
    except _gone_errors():
        return lost(GONE.format(scheduler))
    return lost(DIED if type(fault).__name__ == "KilledWorker" else f"{type(fault).__name__}: {fault}")


def _gone_errors() -> tuple[type[BaseException], ...]:
    """Return what dask raises where a scheduler is gone: it cancels what this one knew."""
    import asyncio
    import concurrent.futures

    return OSError, asyncio.CancelledError, concurrent.futures.CancelledError
