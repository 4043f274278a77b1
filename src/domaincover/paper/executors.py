"""Where jobs run: in this process, in several of this machine by joblib, or on the workers of a dask scheduler.

Each of these yields a job and what came of it as soon as it has ended.
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
ATTEMPTS = 3  # at what was under way, or still to come, when a process was killed
PATIENCE = 10  # seconds to wait for a scheduler
KILLED = "its process was killed, perhaps for want of memory; the same command tries again, with fewer --jobs"
LOST = "the workers that had it died, perhaps for want of memory; the same command tries again"


def in_turn(jobs: Sequence[Job], work: Work) -> Ended:
    """Do one job after the other, here."""
    for job in jobs:
        yield job, work(job)


def in_processes(jobs: Sequence[Job], work: Work, n_processes: int) -> Ended:
    """Do jobs in processes of joblib's; where one is killed, the others are started anew with what is left."""
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
        with _undisturbed():
            get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _numbered(number: int, job: Job, work: Callable[[Job], Done]) -> tuple[int, Done]:
    return number, work(job)


def on_cluster(jobs: Sequence[Job], work: Work, scheduler: str) -> Ended:
    """Do jobs on the workers of a dask scheduler, which see the study's directory as this machine does."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError("a cluster needs the package distributed: pip install 'domaincover[dask]'.") from None
    try:
        client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        told = " ".join(str(error).split())
        raise InputError(f"no dask scheduler answers at {scheduler}: {told}") from None
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
def _undisturbed() -> Iterator[None]:
    """Let a second Ctrl-C wait until the processes are gone."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread, which is where signals arrive
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
