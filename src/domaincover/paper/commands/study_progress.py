"""What the terminal shows of a study: the plan, progress bars, and the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from domaincover.terminal.messages import say

if TYPE_CHECKING:
    from domaincover.paper.job import Job
    from domaincover.paper.runner import OnProgress, Outcome, StudyPlan, Workers

MOST_SHOWN = 8  # running jobs, on a large cluster
MOST_FAILURES = 20
LEAST_SHARE = 0.25  # of the work, from which the time left is estimated
SECONDS_BETWEEN_LINES, MOST_SECONDS_BETWEEN_LINES = 10.0, 60.0


def print_plan(plan: StudyPlan, workers: Workers) -> None:
    """Print what is to be done."""
    if not plan.jobs:
        return
    here = f"in {workers.n_processes} processes" if workers.n_processes > 1 else "in this process"
    where = here if workers.scheduler is None else f"on the cluster at {workers.scheduler}"
    runs = f"{_counted(plan.n_to_do + plan.n_finished, 'run')}: {plan.n_finished} finished, {plan.n_to_do} to do"
    say(f"{runs} in {_counted(len(plan.jobs), 'job')} {where}.")


def print_outcome(outcome: Outcome, out: Path) -> None:
    """Print the number of new and of kept runs, and what failed and why."""
    kept = f", {outcome.n_finished_before} were finished before" if outcome.n_finished_before else ""
    say(f"{_counted(outcome.n_new, 'run')} finished in {outcome.seconds:.0f} s{kept}: {out}")
    for failure in outcome.failures[:MOST_FAILURES]:
        say(f"Failed: {failure.job} ({_counted(failure.n_runs, 'run')}): {failure.reason}")
    if len(outcome.failures) > MOST_FAILURES:
        say(f"… and {len(outcome.failures) - MOST_FAILURES} more jobs failed.")


def duration(seconds: float) -> str:
    """Return a duration in a readable unit.

    >>> duration(42), duration(95), duration(5400)
    ('42 s', '2 min', '1.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def time_left(share: float, seconds: float) -> str:
    """Return the time left in words; nothing early on, since first jobs may be much shorter than later ones.

    >>> time_left(0.1, 30), time_left(0.5, 30)
    ('', ', about 30 s left')
    """
    return f", about {duration(seconds * (1 - share) / share)} left" if LEAST_SHARE <= share < 1 else ""


class WorkToDo(NamedTuple):
    """The epochs of each job of a study, and how long one of them takes relative to others.

    Networks of several data sets may differ a hundredfold, so that the time left would be a guess.
    """

    epochs: Mapping[str, int]
    weights: Mapping[str, int]
    is_of_one_dataset: bool = True

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> WorkToDo:
        """Weight jobs by their networks."""
        epochs, weights = ({job.name: getattr(job, name) for job in jobs} for name in ("epochs", "n_networks"))
        return cls(epochs, weights, len({job.dataset for job in jobs}) == 1)

    def share(self, done: Mapping[str, int]) -> float:
        """Return the share of all work that is done, from the epochs done by job."""
        part, whole = (sum(n * self.weights[name] for name, n in epochs.items()) for epochs in (done, self.epochs))
        return part / whole

    def time_left(self, done: Mapping[str, int], seconds: float) -> str:
        """Return the time left in words, after so many seconds; nothing where it would be a guess."""
        return time_left(self.share(done), seconds) if self.is_of_one_dataset else ""

    def n_finished(self, done: Mapping[str, int]) -> int:
        """Return the number of jobs that have done all their epochs."""
        return sum(n >= self.epochs[name] for name, n in done.items())


class PlainLines:
    """Prints a line now and then, where no terminal shows bars: at every tenth of the work, and once a minute."""

    def __init__(self, work: WorkToDo, clock: Callable[[], float]) -> None:
        self._work, self._clock = work, clock
        self._started = self._last = clock()
        self._next_tenth = 1

    def __call__(self, done: Mapping[str, int]) -> None:
        """Print how much is done, if it is time."""
        now, share = self._clock(), self._work.share(done)
        since, is_tenth = now - self._last, 10 * share >= self._next_tenth
        if share < 1 and (since >= MOST_SECONDS_BETWEEN_LINES or (is_tenth and since >= SECONDS_BETWEEN_LINES)):
            self._last, self._next_tenth = now, int(10 * share) + 1
            took = now - self._started
            finished = f"{self._work.n_finished(done)} of {_counted(len(self._work.epochs), 'job')} finished"
            say(f"{100 * share:.0f} % after {duration(took)}, {finished}{self._work.time_left(done, took)}.")


@contextmanager
def shown_progress(plan: StudyPlan, clock: Callable[[], float] = time.monotonic) -> Iterator[OnProgress]:
    """Show a bar for the study, with the time left, and one for each running job; lines without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

    console = Console(stderr=True)
    length = {job.name: job.epochs for job in plan.jobs}
    work, started = WorkToDo.of(plan.jobs), clock()
    if not console.is_terminal or not plan.jobs:
        yield PlainLines(work, clock) if plan.jobs else lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True, get_time=clock) as bars:
        all_jobs = f"all {_counted(len(length), 'job')}"
        whole = bars.add_task(all_jobs, total=1.0)
        shown: dict[str, TaskID] = {}
        seen: set[str] = set()

        def on_progress(done: Mapping[str, int]) -> None:
            share = work.share(done)
            left = work.time_left(done, clock() - started)
            bars.update(whole, completed=share, description=f"{all_jobs}{left}")
            # a job that starts and ends between two calls is shown once
            running = [name for name, n in done.items() if n > 0 and (n < length[name] or name not in seen)]
            running = running[:MOST_SHOWN]
            seen.update(running)
            for name in running:
                if name not in shown:
                    shown[name] = bars.add_task(name, total=length[name])
                bars.update(shown[name], completed=done[name])
            for name in [name for name in shown if name not in running]:
                bars.remove_task(shown.pop(name))
            bars.refresh()

        yield on_progress


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
