"""What the terminal shows of a study: the plan, progress bars, and the outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from domaincover.terminal.messages import say

if TYPE_CHECKING:
    from domaincover.paper.runner import OnProgress, Outcome, StudyPlan, Workers

MOST_SHOWN = 8  # running jobs, on a large cluster
MOST_FAILURES = 20


def print_plan(plan: StudyPlan, workers: Workers) -> None:
    """Print what is to be done, and how long it took in past runs."""
    if not plan.jobs:
        return
    here = f"in {workers.n_processes} processes" if workers.n_processes > 1 else "in this process"
    where = here if workers.scheduler is None else f"on the cluster at {workers.scheduler}"
    said = f"{_counted(plan.n_to_do + plan.n_finished, 'run')}: {plan.n_finished} finished, {plan.n_to_do} to do in "
    said += f"{_counted(len(plan.jobs), 'job')} {where}"
    seconds, n_unknown = plan.expected
    if n_unknown == len(plan.jobs):
        said += "; the duration is not known yet"
    elif workers.scheduler is None:
        at_least = "at least " if n_unknown else ""
        said += f"; by past runs {at_least}{duration(seconds / min(workers.n_processes, len(plan.jobs)))}"
    say(f"{said}.")


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


@contextmanager
def progress_bars(plan: StudyPlan) -> Iterator[OnProgress]:
    """Show a bar for the study, with the time left, and one for each running job; nothing without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal or not plan.jobs:
        yield lambda _: None
        return
    length = {job.name: job.epochs for job in plan.jobs}
    weight = {job.name: job.n_networks for job in plan.jobs}  # an epoch of many networks takes longer
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        total = sum(length[name] * weight[name] for name in length)
        whole = bars.add_task(f"all {_counted(len(length), 'job')}", total=total)
        shown: dict[str, TaskID] = {}
        seen: set[str] = set()

        def on_progress(done: Mapping[str, int]) -> None:
            bars.update(whole, completed=sum(n * weight[name] for name, n in done.items()))
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
