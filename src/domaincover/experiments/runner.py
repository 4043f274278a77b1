"""Runs a study's unfinished runs, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError
from domaincover.experiments.run_directory import is_finished, open_study
from domaincover.experiments.study import Run, Study

if TYPE_CHECKING:
    from domaincover.experiments.job import Job

OnEpoch = Callable[[str], object]


@dataclass(frozen=True)
class Outcome:
    """How many runs were there before, how many are new, and how long those took."""

    n_finished_before: int
    n_new: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The jobs to do and the number of runs that are finished."""

    jobs: tuple[Job, ...]
    n_finished: int

    @property
    def n_epochs(self) -> int:
        """How many epochs all jobs train."""
        return sum(job.epochs for job in self.jobs)


def plan_study(study: Study, out: Path, say: Callable[[str], object] = lambda _: None) -> Plan:
    """Open the study's directory, see what is left to do, and make the data of that ready."""
    from domaincover.experiments.job import plan_jobs
    from domaincover.experiments.preparation import prepare

    if study.source is not None:
        study.source.check(study.min_cell_size)
    open_study(out)
    runs = list(study.runs())
    to_do: list[Run] = [run for run in runs if not is_finished(out, run)]
    return Plan(tuple(prepare(plan_jobs(to_do), say)), len(runs) - len(to_do))


def run_study(plan: Plan, out: Path, n_processes: int = 1, on_epoch: OnEpoch = lambda _: None) -> Outcome:
    """Do the plan's jobs; `on_epoch` hears the name of the job whose stack has finished another epoch."""
    if n_processes < 1:
        raise InputError(f"jobs must be at least 1, got {n_processes}.")
    started = time.perf_counter()
    n_processes = min(n_processes, len(plan.jobs))
    if n_processes > 1:
        _run_in_processes(plan, out, n_processes, on_epoch)
    else:
        from domaincover.experiments.job import run_job

        for job in plan.jobs:
            run_job(job, out, lambda name=job.name: on_epoch(name))  # type: ignore[misc]
    return Outcome(plan.n_finished, sum(len(job.runs) for job in plan.jobs), time.perf_counter() - started)


def _run_in_processes(plan: Plan, out: Path, n_processes: int, on_epoch: OnEpoch) -> None:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    stop = context.Semaphore(0)  # not an Event: setting one waits for every sleeper, also for one that was killed
    with (
        _listening(context, on_epoch) as epochs,
        ProcessPoolExecutor(n_processes, context, initializer=_start_worker, initargs=(stop, epochs)) as pool,
    ):
        futures = [pool.submit(_work, job, out) for job in plan.jobs]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BrokenProcessPool:
            raise InputError(
                "a process of the study was killed, perhaps for want of memory; what is finished is kept: "
                "run the same command again, with fewer --jobs."
            ) from None
        except BaseException:
            for _ in range(n_processes):
                stop.release()
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _listening(context: SpawnContext, on_epoch: OnEpoch) -> Iterator[Any]:
    """Give a queue for the names of jobs, and call `on_epoch` for each that comes."""
    epochs: Any = context.Queue()
    listener = threading.Thread(target=lambda: [on_epoch(name) for name in iter(epochs.get, None)], daemon=True)
    listener.start()
    try:
        yield epochs
    finally:
        epochs.put(None)
        listener.join(timeout=5)  # a killed worker may have taken the queue's lock with it
        epochs.cancel_join_thread()


_epochs: Any = None  # the worker process's end of the queue


def _start_worker(stop: Any, epochs: Any) -> None:
    global _epochs
    _epochs = epochs
    warnings.formatwarning = lambda message, *_: f"Note: {message}\n"  # for users, not programmers
    threading.Thread(target=_leave_when_told, args=(stop,), daemon=True).start()


def _leave_when_told(stop: Any) -> None:
    """End this worker when the study is stopped or the parent has died; what it was writing is never read."""
    parent = multiprocessing.parent_process()
    while not stop.acquire(timeout=0.3) and parent is not None and parent.is_alive():
        pass
    os._exit(1)


def _work(job: Job, out: Path) -> None:
    from domaincover.experiments.job import run_job

    run_job(job, out, lambda: _epochs.put(job.name))
