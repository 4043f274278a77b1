"""Runs a study's unfinished runs: in this process, in several, or on a cluster's workers."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from domaincover.errors import InputError
from domaincover.files import fault, is_full
from domaincover.paper.methods import study_method
from domaincover.paper.plugins import load_plugins
from domaincover.paper.run_directory import at_work, is_finished, open_study
from domaincover.paper.study import Run, Study
from domaincover.terminal.processes import n_cores
from domaincover.training.listeners import duration

if TYPE_CHECKING:
    from domaincover.paper.job import Job

FAILURES = "failures"
UNDER_WAY = ".progress"
_in_turn = threading.Lock()  # a dask worker may have several threads, but torch's settings belong to the process

Say = Callable[[str], object]


class Failure(NamedTuple):
    """Why a job failed, whether the input caused it, the job's name, and the number of its runs that are missing."""

    reason: str
    is_input: bool = False
    job: str = ""
    n_runs: int = 0


class Outcome(NamedTuple):
    """Numbers of earlier and new runs, the duration of the new ones, and failures."""

    n_finished_before: int
    n_new: int
    seconds: float
    failures: tuple[Failure, ...] = ()


class StudyPlan(NamedTuple):
    """The jobs to run, and the number of finished runs."""

    jobs: tuple[Job, ...]
    n_finished: int

    @property
    def n_to_do(self) -> int:
        """Number of runs in the jobs."""
        return sum(len(job.runs) for job in self.jobs)


@dataclass(frozen=True)
class Workers:
    """Where jobs run: in local processes, or on the workers of a dask scheduler; and the plug-ins they need."""

    n_processes: int = 1
    scheduler: str | None = None
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.n_processes < 1:
            raise InputError(f"jobs must be at least 1, got {self.n_processes}.")
        if self.scheduler is not None and "://" not in self.scheduler:
            raise InputError(f"a scheduler's address has the form tcp://host:8786, got {self.scheduler!r}.")


def plan_studies(studies: Sequence[Study], out: Path, say: Say = lambda _: None) -> StudyPlan:
    """Open the studies' directory, find unfinished runs, and prepare their data.

    A run shared by several studies is done once.
    """
    from domaincover.paper.job import plan_jobs, prepare

    check_sources(studies)
    runs = _distinct(run for study in studies for run in study.runs())
    open_study(out)
    to_do: list[Run] = [run for run in runs if not is_finished(out, run)]
    jobs = tuple(prepare(plan_jobs(to_do), say))
    return StudyPlan(jobs, len(runs) - len(to_do))


def check_sources(studies: Sequence[Study]) -> None:
    """Reject folders and networks that cannot be used, before any work."""
    for source, min_cell_size in dict.fromkeys(
        (study.source, study.min_cell_size or study.source.min_cell_size) for study in studies if study.source
    ):
        source.check(min_cell_size)


def run_study(plan: StudyPlan, out: Path, workers: Workers | int = 1, say: Say = lambda _: None) -> Outcome:
    """Run the jobs of a plan; `say` takes a line whenever one has ended.

    A failed job does not stop the others. An integer `workers` is a number of processes.
    """
    workers = Workers(workers) if isinstance(workers, int) else workers
    started = time.perf_counter()
    failures = []
    if plan.jobs:
        with at_work(out), _under_way(out) as folder:
            for n_ended, (job, failure) in enumerate(_ended(plan.jobs, out, folder, workers), start=1):
                after = duration(time.perf_counter() - started)
                say(f"{n_ended} of {len(plan.jobs)} jobs ended after {after}: {job.name}.")
                if failure is not None and (n_missing := sum(not is_finished(out, run) for run in job.runs)):
                    failures.append(failure._replace(job=job.name, n_runs=n_missing))
    n_new = plan.n_to_do - sum(failure.n_runs for failure in failures)
    if failures and n_new == plan.n_finished == 0 and all(failure.is_input for failure in failures):
        raise InputError(failures[0].reason)
    return Outcome(plan.n_finished, n_new, time.perf_counter() - started, tuple(failures))


def _ended(jobs: Sequence[Job], out: Path, folder: Path, workers: Workers) -> Iterator[tuple[Job, Failure | None]]:
    """Yield each job as soon as it has ended, and why it failed, if it did."""
    from domaincover.terminal.processes import in_processes, in_turn, on_cluster

    work = Work(str(out.absolute()), str(folder.absolute()), workers.plugins)
    n_processes = min(workers.n_processes, len(jobs))
    if workers.scheduler is not None:
        return on_cluster(jobs, work, workers.scheduler, Failure)
    if n_processes > 1:
        own = replace(work, parent=os.getpid(), n_threads=max(1, n_cores() // n_processes))
        return in_processes(jobs, own, n_processes, Failure)
    return in_turn(jobs, work)


@contextmanager
def _under_way(out: Path) -> Iterator[Path]:
    """Create a folder that stands as long as the study is run: a job on a cluster stops when it is gone."""
    shutil.rmtree(out / UNDER_WAY, ignore_errors=True)  # left by a killed study; the directory is locked
    (out / UNDER_WAY).mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=out / UNDER_WAY))
    try:
        yield folder
    finally:
        with suppress(OSError):  # renamed first: a worker may write while the folder is emptied
            folder.rename(folder.with_name(f"{folder.name}.ended"))
        shutil.rmtree(out / UNDER_WAY, ignore_errors=True)


def _distinct(runs: Iterable[Run]) -> list[Run]:
    """Return each run once; reject studies that have the same run with different settings."""
    by_folder: dict[str, Run] = {}
    for run in runs:
        first, second = by_folder.setdefault(run.folder, run).to_dict(), run.to_dict()
        differing = [name for name in first | second if first.get(name) != second.get(name)]
        if differing:
            name = differing[0]
            raise InputError(
                f"two experiments have {run.folder} with {name} {first.get(name)!r} and {second.get(name)!r}; use "
                "separate directories."
            )
    return list(by_folder.values())


@dataclass(frozen=True)
class Work:
    """One job in a process or on a cluster's worker: skips finished runs, and returns why it failed, if it did.

    The job stops when the folder `under_way` is gone. With `parent`, the process exits when that process has died.
    """

    out: str
    under_way: str
    plugins: tuple[str, ...] = ()
    parent: int | None = None
    n_threads: int | None = None  # of large networks; None is torch's default

    def __call__(self, job: Job) -> Failure | None:
        """Run the unfinished runs of a job."""
        if self.parent not in (None, os.getpid()):
            _prepare_process(self.parent)
        try:
            with _in_turn:
                self._do(job)
        except InputError as error:
            return Failure(str(error), is_input=True)
        except Exception as error:
            if is_full(error):
                return Failure(f"cannot write to {self.out}: {fault(error)}.", is_input=True)
            last_line = " ".join(str(error).split()) or "no message"
            return Failure(f"{type(error).__name__}: {last_line} ({self._traceback_in(job)})")
        return None

    def _do(self, job: Job) -> None:
        from domaincover.paper.job import run_job

        out = Path(self.out)
        if not out.is_dir():
            raise InputError(f"this worker cannot read {out}: a cluster's workers need the study's directory.")
        load_plugins(self.plugins)
        for name in {run.method for run in job.runs if study_method(run.method).plugin_source != run.plugin_source}:
            raise InputError(f"this worker has another version of the plug-in of {name}.")
        left = tuple(run for run in job.runs if not is_finished(out, run))
        if left:
            run_job(replace(job, runs=left), out, Path(self.under_way), self.n_threads)

    def _traceback_in(self, job: Job) -> str:
        """Write the current traceback to a file, and return where it is."""
        file = Path(self.out) / FAILURES / f"{job.file}.txt"
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{job.name}\n\n{traceback.format_exc()}", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            return f"its traceback could not be written: {fault(error)}"
        return f"traceback in {FAILURES}/{file.name}"


_watched = False


def _prepare_process(parent: int) -> None:
    """Make warnings readable, and exit when the parent has died; partial files are never read."""
    global _watched
    if _watched:
        return
    _watched = True
    warnings.formatwarning = lambda message, *_: f"Note: {message}\n"  # for users, not programmers
    threading.Thread(target=_leave_without, args=(parent,), daemon=True).start()


def _leave_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.3)
    os._exit(1)
