"""The history of a training, and how it is collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        self._rows: list[tuple[Tensor, ...]] = []  # epoch and batch; mean loss; of dual steps size, recall, multipliers

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def mean_loss(self) -> Tensor:
        """The mean loss between the last two steps, by replica."""
        return self._rows[-1][1]

    def add_loss(self, losses: Tensor) -> None:
        """Record the loss of a batch."""
        self._losses.append(losses)

    def add_step(self, epoch: int, batch: int, *dual: Tensor) -> None:
        """Record a dual step or an epoch."""
        loss = self._mean_of_batches() if self._losses else self.mean_loss
        self._losses = []
        self._rows.append((torch.tensor((epoch, batch)), loss, *(value.cpu() for value in dual)))

    def histories(self, ends: Sequence[int | None]) -> list[History]:
        """Return the history of each network, up to its end; None is the whole history."""
        steps, *columns = self._columns()
        epoch, batch = steps.T.numpy()
        return [
            History(epoch[:end], batch[:end], *(column[:end, network].double().numpy() for column in columns))
            for network, end in enumerate(ends)
        ]

    def saved_state(self) -> dict[str, Tensor]:
        """Return the state as named tensors."""
        kept = {f"column.{k}": column for k, column in enumerate(self._columns())}
        return kept | ({"losses": torch.stack(self._losses)} if self._losses else {})

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        self._losses = [*state.get("losses", ())]
        n_columns = sum(name.startswith("column.") for name in state)
        self._rows = list(zip(*(state[f"column.{k}"] for k in range(n_columns)), strict=True))

    def _columns(self) -> list[Tensor]:
        return [torch.stack(column) for column in zip(*self._rows, strict=True)]

    def _mean_of_batches(self) -> Tensor:
        # Losses from a checkpoint may be on another device.
        losses = torch.stack([loss.to(self._losses[-1].device) for loss in self._losses])
        return self._engine.sum(losses.mean(0)).cpu()
