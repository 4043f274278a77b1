"""What follows a training while it runs: a progress bar, lines of logging, or a listener of the user's."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 30.0
logger = logging.getLogger(__name__)


class Step(NamedTuple):
    """Training metrics after a dual step, or an epoch if there are none, averaged over networks."""

    epoch: int
    batch: int
    n_batches: int  # since the start of training
    loss: float
    worst_recall: float | None = None
    set_size: float | None = None


class Listener:
    """Base class of training callbacks; the methods do nothing."""

    def start(self, epochs: int, n_batches: int, n_networks: int = 1) -> None:
        """Training of so many networks together starts, with so many epochs and batches per epoch."""

    def batch(self, n_examples: int) -> None:
        """A batch with `n_examples` examples per network has been processed."""

    def step(self, step: Step) -> None:
        """The multipliers have been updated, or an epoch has ended."""

    def epoch(self, n_done: int) -> None:
        """`n_done` epochs have ended."""

    def finish(self, end: str | None = None) -> None:
        """Training has ended; `end` says why, or is None if it was interrupted or had ended before."""


class TimeLeft(Listener):
    """Say how long several trainings in turn take together: after the first epoch, and whenever one has ended."""

    def __init__(
        self, n_trainings: int, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._n_trainings, self._say, self._clock = n_trainings, say, clock
        self._n_done, self._seconds = 0, 0.0

    def start(self, epochs: int, n_batches: int, n_networks: int = 1) -> None:  # noqa: ARG002
        """Note the time."""
        self._epochs, self._started = epochs, self._clock()

    def epoch(self, n_done: int) -> None:
        """Say after the first epoch how long all trainings take at most."""
        if n_done == 1 and self._n_done == 0:
            most = (self._clock() - self._started) * self._epochs * self._n_trainings
            self._say(
                f"{self._n_trainings} networks are trained one after the other, each for {_epochs(self._epochs)} or "
                f"until held-out domains no longer improve: {duration(most)} at most."
            )

    def finish(self, end: str | None = None) -> None:
        """Say how long the others take if they are like those that have ended."""
        if end is not None:
            self._n_done, self._seconds = self._n_done + 1, self._seconds + self._clock() - self._started
            n_left = self._n_trainings - self._n_done
            if n_left > 0:
                left = duration(self._seconds / self._n_done * n_left)
                self._say(f"{self._n_done} of {self._n_trainings} networks are trained; about {left} left.")


def duration(seconds: float) -> str:
    """Return a duration in a readable unit.

    >>> duration(42), duration(95), duration(5400)
    ('42 s', '2 min', '1.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class ProgressBar(Listener):
    """Show epochs, loss, worst recall, set size, examples per second and remaining time; at the end, why it stopped."""

    def __init__(self, name: str, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        columns = (TextColumn("{task.fields[name]}"), BarColumn(), TextColumn("{task.fields[about]}"))
        self._console = console or Console(stderr=True)
        left = TimeRemainingColumn(), TextColumn("left")
        self._bar = Progress(*columns, *left, console=self._console, transient=True, get_time=clock)
        self._name, self._n_examples, self._clock = name, 0, clock

    def start(self, epochs: int, n_batches: int, n_networks: int = 1) -> None:  # noqa: ARG002
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

    def finish(self, end: str | None = None) -> None:
        """Remove the bar, and print why training ended."""
        self._bar.stop()
        if end is not None:
            self._console.print(f"{self._name}: {end}", highlight=False, markup=False)


class LoggedProgress(Listener):
    """Log a line every half minute, and why training stopped; at the level DEBUG, a line for every epoch."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock

    def start(self, epochs: int, n_batches: int, n_networks: int = 1) -> None:  # noqa: ARG002
        """Note the time."""
        self._epochs, self._last_line, self._last_epoch, self._is_long = epochs, self._clock(), -1, False

    def step(self, step: Step) -> None:
        """Log the metrics if it is time."""
        is_due = self._clock() - self._last_line >= SECONDS_BETWEEN_LINES
        is_new_epoch, self._last_epoch = step.epoch > self._last_epoch, step.epoch
        if is_due or (is_new_epoch and logger.isEnabledFor(logging.DEBUG)):
            self._log(_figures(step, self._epochs), is_due)

    def finish(self, end: str | None = None) -> None:
        """Log why training ended; of a short training at the level DEBUG."""
        if end is not None:
            self._log(end, self._is_long)

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
    return f"trained for {_epochs(epochs)}"


def _epochs(n: int) -> str:
    return f"{n} epoch{'' if n == 1 else 's'}"


def _figures(step: Step, epochs: int) -> str:
    figures = [f"epoch {step.epoch + 1} of {epochs}", f"loss {step.loss:.3f}"]
    if step.worst_recall is not None and math.isfinite(step.worst_recall):
        figures += [f"worst recall {step.worst_recall:.2f}", f"size {step.set_size:.2f}"]
    return ", ".join(figures)
