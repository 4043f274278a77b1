"""One job in a process or on a cluster's worker: skips finished runs and reports failures."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, sleep

from domaincover.errors import InputError
from domaincover.files import fault, is_full
from domaincover.paper.job import Job, run_job
from domaincover.paper.methods import study_method
from domaincover.paper.plugins import load_plugins
from domaincover.paper.run_directory import is_finished

FAILURES = "failures"
_in_turn = threading.Lock()  # a dask worker may have several threads, but torch's settings belong to the process


class AbandonedError(Exception):
    """The study that started this job has ended."""


@dataclass(frozen=True)
class Done:
    """Duration of a job, or the reason of its failure and whether the input caused it."""

    seconds: float = 0.0
    reason: str | None = None
    is_input: bool = False


@dataclass(frozen=True)
class Work:
    """Settings of a worker: output directory, progress directory, and plug-ins.

    With `parent`, the process exits when that process has died.
    """

    out: str
    progress: str
    plugins: tuple[str, ...] = ()
    parent: int | None = None

    def __call__(self, job: Job) -> Done:
        """Run the unfinished runs of a job."""
        if self.parent not in (None, os.getpid()):
            _prepare_process(self.parent)
        try:
            with _in_turn:
                started = perf_counter()
                self._do(job)
                seconds = perf_counter() - started
        except InputError as error:
            return Done(reason=str(error), is_input=True)
        except AbandonedError:
            return Done(reason="the study was stopped")
        except Exception as error:
            if is_full(error):
                return Done(reason=f"cannot write to {self.out}: {fault(error)}.", is_input=True)
            last_line = " ".join(str(error).split()) or "no message"
            return Done(reason=f"{type(error).__name__}: {last_line} ({self._traceback_in(job)})")
        return Done(seconds)

    def _do(self, job: Job) -> None:
        out = Path(self.out)
        if not out.is_dir():
            raise InputError(f"this worker cannot read {out}: a cluster's workers need the study's directory.")
        load_plugins(self.plugins)
        for name in {run.method for run in job.runs if study_method(run.method).plugin_source != run.plugin_source}:
            raise InputError(f"this worker has another version of the plug-in of {name}.")
        left = tuple(run for run in job.runs if not is_finished(out, run))
        if left:
            run_job(replace(job, runs=left), out, _Teller(Path(self.progress) / job.file))

    def _traceback_in(self, job: Job) -> str:
        """Write the current traceback to a file, and return where it is."""
        file = Path(self.out) / FAILURES / f"{job.file}.txt"
        try:
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{job.name}\n\n{traceback.format_exc()}", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            return f"its traceback could not be written: {fault(error)}"
        return f"traceback in {FAILURES}/{file.name}"


class _Teller:
    """Writes the number of epochs to a file; ends the job if the file's folder is gone."""

    def __init__(self, file: Path) -> None:
        self._file, self._n_done = file, 0

    def __call__(self) -> None:
        self._n_done += 1
        try:
            self._file.write_text(str(self._n_done), encoding="ascii")
        except FileNotFoundError:
            raise AbandonedError from None
        except OSError:  # progress is only for display
            pass


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
        sleep(0.3)
    os._exit(1)
