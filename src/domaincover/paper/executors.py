"""Run jobs in this process, in several processes through joblib, or on the workers of a dask scheduler.

Each executor yields a job and its outcome as soon as the job has ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from domaincover.errors import InputError
from domaincover.paper.job import Job
from domaincover.paper.work import Done, Work

Ended = Iterator[tuple[Job, Done]]
ATTEMPTS = 3  # for remaining jobs after a process was killed
PATIENCE = 10  # seconds to wait for a scheduler
KILLED = "its process was killed, possibly out of memory; run the same command again with fewer --jobs"
LOST = "its workers died, possibly out of memory; run the same command again"


def in_turn(jobs: Sequence[Job], work: Work) -> Ended:
    """Run jobs one after the other in this process."""
    for job in jobs:
        yield job, work(job)


def in_processes(jobs: Sequence[Job], work: Work, n_processes: int) -> Ended:
    """Run jobs in joblib processes; if one is killed, restart the processes with the remaining jobs."""
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    work, left = replace(work, parent=os.getpid()), dict(enumerate(jobs))
    try:
        for _ in range(ATTEMPTS):
            try:
                parallel = Parallel(n_jobs=n_processes, backend="loky", return_as="generator_unordered", batch_size=1)
                for number, done in parallel(
                    delayed(_numbered)(number, job, work) for number, job in tuple(left.items())
                ):
                    yield left.pop(number), done
                return
            except TerminatedWorkerError:
                n_processes = max(2, n_processes // 2)  # with one, joblib would work in this process
        for job in left.values():
            yield job, Done(reason=KILLED)
    finally:
        with _ignoring_interrupts():
            get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _numbered(number: int, job: Job, work: Callable[[Job], Done]) -> tuple[int, Done]:
    return number, work(job)


def on_cluster(jobs: Sequence[Job], work: Work, scheduler: str) -> Ended:
    """Run jobs on the workers of a dask scheduler, which must have access to the study's directory."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError("a cluster needs the package distributed: pip install 'domaincover[dask]'.") from None
    try:
        client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"no dask scheduler answers at {scheduler}: {reason}") from None
    with client:
        n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
        if n_workers == 0:
            raise InputError(f"the scheduler at {scheduler} has no workers; start some: dask worker {scheduler}")
        futures = {client.submit(work, job, pure=False, retries=0): job for job in jobs}
        try:
            for future in as_completed(futures, loop=client.loop):
                yield futures[future], _result(future)
        finally:
            client.cancel(list(futures))


def _result(future: Any) -> Done:
    fault = future.exception()
    if fault is None:
        done: Done = future.result()
        return done
    return Done(reason=LOST if type(fault).__name__ == "KilledWorker" else f"{type(fault).__name__}: {fault}")


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C until the processes have ended."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread, which receives signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
