"""Progress of training: a bar in a terminal, or a line of logging every now and then."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from domaincover.training.listeners import Listener, Step

SECONDS_BETWEEN_LINES = 30.0
logger = logging.getLogger(__name__)


class ProgressBar(Listener):
    """Show epochs, loss, worst recall, set size, examples per second and remaining time; at the end, why it stopped."""

    def __init__(self, name: str, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        columns = (TextColumn("{task.fields[name]}"), BarColumn(), TextColumn("{task.fields[about]}"))
        self._console = console or Console(stderr=True)
        left = TimeRemainingColumn(), TextColumn("left")
        self._bar = Progress(*columns, *left, console=self._console, transient=True, get_time=clock)
        self._name, self._n_examples, self._end, self._clock = name, 0, "", clock

    def start(self, epochs: int, n_batches: int) -> None:
        """Show an empty bar."""
        self._epochs, self._n_batches, self._started = epochs, n_batches, self._clock()
        self._task = self._bar.add_task("", total=epochs * n_batches, name=self._name, about="")
        self._bar.start()

    def batch(self, n_examples: int) -> None:
        """Advance by a batch."""
        self._n_examples += n_examples
        self._bar.advance(self._task)

    def step(self, step: Step) -> None:
        """Update the metrics."""
        rate = self._n_examples / max(self._clock() - self._started, 1e-9)
        about = f"{_figures(step, self._epochs)}, {rate:,.0f} examples/s,"
        self._bar.update(self._task, completed=step.n_batches, about=about)

    def stop(self, n_done: int, epochs: int) -> None:
        """Remember why training stopped."""
        self._end = f"{self._name}: {why_stopped(n_done, epochs)}"

    def finish(self) -> None:
        """Remove the bar, and print why training stopped, if it came to its end."""
        self._bar.stop()
        if self._end:
            self._console.print(self._end, highlight=False, markup=False)


class LoggedProgress(Listener):
    """Log a line every half minute, and why training stopped; at the level DEBUG, a line for every epoch."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock

    def start(self, epochs: int, n_batches: int) -> None:  # noqa: ARG002
        """Note the time."""
        self._epochs, self._last_line, self._last_epoch, self._is_long = epochs, self._clock(), -1, False

    def step(self, step: Step) -> None:
        """Log the metrics if it is time."""
        is_due = self._clock() - self._last_line >= SECONDS_BETWEEN_LINES
        is_new_epoch, self._last_epoch = step.epoch > self._last_epoch, step.epoch
        if is_due or (is_new_epoch and logger.isEnabledFor(logging.DEBUG)):
            self._log(_figures(step, self._epochs), is_due)

    def stop(self, n_done: int, epochs: int) -> None:
        """Log why training stopped; of a short training at the level DEBUG."""
        self._log(why_stopped(n_done, epochs), self._is_long)

    def _log(self, what: str, matters: bool) -> None:
        logger.log(logging.INFO if matters else logging.DEBUG, "%s: %s", self._name, what)
        if matters:
            self._last_line, self._is_long = self._clock(), True


def why_stopped(n_done: int, epochs: int) -> str:
    """Say whether training took all its epochs.

    >>> why_stopped(33, 45), why_stopped(45, 45)
    ('stopped early, at epoch 33 of 45: held-out domains no longer improved', 'trained for 45 epochs')
    """
    if n_done < epochs:
        return f"stopped early, at epoch {n_done} of {epochs}: held-out domains no longer improved"
    return f"trained for {epochs} epoch{'' if epochs == 1 else 's'}"


def _figures(step: Step, epochs: int) -> str:
    figures = [f"epoch {step.epoch + 1} of {epochs}", f"loss {step.loss:.3f}"]
    if step.worst_recall is not None and math.isfinite(step.worst_recall):
        figures += [f"worst recall {step.worst_recall:.2f}", f"size {step.set_size:.2f}"]
    return ", ".join(figures)
