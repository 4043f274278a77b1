"""Terminal progress bar of training."""

from __future__ import annotations

import math
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from domaincover.training.listeners import Listener, Step


class ProgressBar(Listener):
    """Show epochs, loss, worst recall, set size, examples per second and remaining time; removed at the end."""

    def __init__(self, name: str, console: Console | None = None) -> None:
        columns = (TextColumn("{task.fields[name]}"), BarColumn(), TextColumn("{task.fields[about]}"))
        self._bar = Progress(
            *columns, TimeRemainingColumn(), TextColumn("left"), console=console or Console(stderr=True), transient=True
        )
        self._name, self._figures, self._n_examples = name, "", 0

    def start(self, epochs: int, n_batches: int) -> None:
        """Show an empty bar."""
        self._epochs, self._n_batches, self._started = epochs, n_batches, time.monotonic()
        self._task = self._bar.add_task("", total=epochs * n_batches, name=self._name, about="")
        self._bar.start()

    def batch(self, n_examples: int) -> None:
        """Advance by a batch."""
        self._n_examples += n_examples
        self._bar.advance(self._task)

    def step(self, step: Step) -> None:
        """Update the metrics."""
        rate = self._n_examples / max(time.monotonic() - self._started, 1e-9)
        figures = [f"epoch {step.epoch + 1} of {self._epochs}", f"loss {step.loss:.3f}"]
        if step.worst_recall is not None and math.isfinite(step.worst_recall):
            figures += [f"worst recall {step.worst_recall:.2f}", f"size {step.set_size:.2f}"]
        about = ", ".join([*figures, f"{rate:,.0f} examples/s,"])
        self._bar.update(self._task, completed=step.n_batches, about=about)

    def finish(self) -> None:
        """Remove the bar."""
        self._bar.stop()
