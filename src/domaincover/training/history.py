"""What training tells: histories at its end, and calls to listeners while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.training.engine import Engine


@dataclass(frozen=True)
class History:
    """The training history of one network, with one row per dual step (per epoch if there are none).

    `recall` and `multipliers` have the shape (steps, domains, labels), the multipliers after the step; None for
    objectives without multipliers.
    """

    epoch: NDArray[np.int64]
    batch: NDArray[np.int64]
    loss: NDArray[np.float64]
    set_size: NDArray[np.float64] | None = None
    recall: NDArray[np.float64] | None = None
    multipliers: NDArray[np.float64] | None = None


class Record:
    """Collect the values of training histories."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._losses: list[Tensor] = []
        self._steps: list[tuple[int, int]] = []
        self._columns: list[list[Tensor]] = [[], [], [], []]  # mean loss; for dual steps also size, recall, multipliers

    @property
    def mean_loss(self) -> Tensor:
        """The mean loss between the last two steps, by replica."""
        return self._columns[0][-1]

    def add_loss(self, losses: Tensor) -> None:
        """Record the loss of a batch."""
        self._losses.append(losses)

    def add_step(self, epoch: int, batch: int, *dual: Tensor) -> None:
        """Record a dual step or an epoch."""
        if self._losses:  # losses from a checkpoint may be on another device
            losses = torch.stack([loss.to(self._losses[-1].device) for loss in self._losses])
            loss = self._engine.sum(losses.mean(0)).cpu()
        else:
            loss = self.mean_loss
        self._losses = []
        self._steps.append((epoch, batch))
        for column, value in zip(self._columns, (loss, *dual), strict=False):
            column.append(value.cpu())

    def __len__(self) -> int:
        return len(self._steps)

    def histories(self, ends: Sequence[int | None]) -> list[History]:
        """Return the history of each network, up to its end; None is the whole history."""
        epoch, batch = map(np.array, zip(*self._steps, strict=True))
        by_network = zip(*(_by_network(column) for column in self._columns if column), strict=True)
        return [
            History(epoch[:end], batch[:end], *(values[:end] for values in of_network))
            for end, of_network in zip(ends, by_network, strict=True)
        ]

    def saved_state(self) -> dict[str, Tensor]:
        """Return the state as named tensors."""
        kept = {f"column.{k}": torch.stack(column) for k, column in enumerate(self._columns) if column}
        kept |= {"losses": torch.stack(self._losses)} if self._losses else {}
        return kept | {"steps": torch.tensor(self._steps, dtype=torch.int64).reshape(-1, 2)}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        self._steps = [(int(epoch), int(batch)) for epoch, batch in state["steps"]]
        self._losses = [*state["losses"]] if "losses" in state else []
        self._columns = [[*state[f"column.{k}"]] if f"column.{k}" in state else [] for k in range(4)]


def _by_network(values: Sequence[Tensor]) -> NDArray[np.float64]:
    stacked: NDArray[np.float64] = torch.stack(tuple(values), dim=1).double().cpu().numpy()
    return stacked


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
