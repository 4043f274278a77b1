"""What is told about training while it runs: to a progress bar, a tracker, a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Step(NamedTuple):
    """How training stands after a dual step, or an epoch where there are none; of several networks, the mean."""

    epoch: int
    batch: int
    n_batches: int  # of all epochs, up to here
    loss: float
    worst_recall: float | None = None
    set_size: float | None = None


class Listener:
    """Hears of training; what it does not care for, it leaves as it is here."""

    def start(self, epochs: int, n_batches: int) -> None:
        """Training begins, of so many epochs with so many batches each."""

    def batch(self, n_examples: int) -> None:
        """A batch of so many examples of each network has been learned from."""

    def step(self, step: Step) -> None:
        """The multipliers have moved, or an epoch has ended."""

    def epoch(self, n_done: int) -> None:
        """So many epochs have ended."""

    def finish(self) -> None:
        """Training has ended, well or not."""


class OnEpoch(Listener):
    """Calls a function at the end of every epoch."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def epoch(self, n_done: int) -> None:  # noqa: ARG002
        """Call the function."""
        self._call()
