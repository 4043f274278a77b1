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
        self.losses: list[Tensor] = []  # of the batches since the last row
        self._rows: list[tuple[Tensor, ...]] = []  # epoch and batch; mean loss; of dual steps size, recall, multipliers

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def mean_loss(self) -> Tensor:
        """The mean loss between the last two steps, by replica."""
        return self._rows[-1][1]

    def add_step(self, epoch: int, batch: int, *dual: Tensor) -> None:
        """Record a dual step or an epoch."""
        if self.losses:
            # Losses from a checkpoint may be on another device.
            losses = torch.stack([loss.to(self.losses[-1].device) for loss in self.losses])
            loss = self._engine.sum(losses.mean(0)).cpu()
        else:
            loss = self.mean_loss
        self.losses = []
        self._rows.append((torch.tensor((epoch, batch)), loss, *(value.cpu() for value in dual)))

    def histories(self, ends: Sequence[int | None]) -> list[History]:
        """Return the history of each network, up to its end; None is the whole history."""
        steps, *columns = map(torch.stack, zip(*self._rows, strict=True))
        epoch, batch = steps.T.numpy()
        return [
            History(epoch[:end], batch[:end], *(column[:end, network].double().numpy() for column in columns))
            for network, end in enumerate(ends)
        ]

    def saved_state(self) -> dict[str, Tensor]:
        """Return the state as named tensors."""
        columns = {f"{k}": torch.stack(column) for k, column in enumerate(zip(*self._rows, strict=True))}
        return columns | ({"losses": torch.stack(self.losses)} if self.losses else {})

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        self.losses = [*state.get("losses", ())]
        self._rows = list(zip(*(state[name] for name in sorted(state) if name != "losses"), strict=True))
