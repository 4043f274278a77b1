"""Callbacks of training, for progress bars, trackers and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


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

    def start(self, epochs: int, n_batches: int) -> None:
        """Training starts, with so many epochs and batches per epoch."""

    def batch(self, n_examples: int) -> None:
        """A batch with `n_examples` examples per network has been processed."""

    def step(self, step: Step) -> None:
        """The multipliers have been updated, or an epoch has ended."""

    def epoch(self, n_done: int) -> None:
        """`n_done` epochs have ended."""

    def stop(self, n_done: int, epochs: int) -> None:
        """Training has come to its end, after `n_done` of at most `epochs` epochs."""

    def finish(self) -> None:
        """Training has ended, successfully or not."""


class OnEpoch(Listener):
    """Call a function at the end of every epoch."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def epoch(self, n_done: int) -> None:  # noqa: ARG002
        """Call the function."""
        self._call()
