"""Epochs of primal and dual steps, for one network or a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.networks import Stack, stack
from domaincover.training.batches import ShuffledBatches
from domaincover.training.objectives import SetCoverLoss


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; the defaults are the paper's for its synthetic data."""

    epochs: int = 30
    learning_rate: float = 1e-3
    update_every: int = 500
    recall_from: Literal["full-pass", "batches"] = "full-pass"

    def __post_init__(self) -> None:
        for name in ("epochs", "update_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate:g}.")
        if self.recall_from not in ("batches", "full-pass"):
            raise InputError(f"recall_from must be 'batches' or 'full-pass', got {self.recall_from!r}.")


@dataclass(frozen=True)
class History:
    """What one network went through, a row per dual step (per epoch where there is none).

    `recall` and `multipliers` are steps × domains × labels, the multipliers as the step left them; None for
    objectives without multipliers.
    """

    epoch: NDArray[np.int64]
    batch: NDArray[np.int64]
    loss: NDArray[np.float64]
    set_size: NDArray[np.float64] | None = None
    recall: NDArray[np.float64] | None = None
    multipliers: NDArray[np.float64] | None = None


def train(
    networks: Sequence[nn.Module],
    batches: ShuffledBatches,
    objective: nn.Module,
    settings: TrainingSettings,
    on_epoch: Callable[[], object] = lambda: None,
) -> list[History]:
    """Train the networks in place, each as if alone, and return their histories.

    Replica r of the batches and of the objective belongs to `networks[r]`.
    """
    stacked = stack(networks)
    objective.train()
    stacked.train()
    optimizer = torch.optim.Adam(stacked.parameters(), lr=settings.learning_rate, fused=True)
    dual = objective if isinstance(objective, SetCoverLoss) else None
    record = _Record(len(networks))
    for epoch in range(settings.epochs):
        for number, batch in enumerate(batches.epoch(), start=1):
            losses = objective(stacked(batch.examples), batch.labels, batch.domains)
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
            record.add_loss(losses.detach())
            if dual is not None and number % settings.update_every == 0:
                record.add_step(epoch, number, *_dual_step(stacked, batches, dual, settings))
        if dual is not None:
            record.add_step(epoch, batches.n_batches, *_dual_step(stacked, batches, dual, settings))
        else:
            record.add_step(epoch, batches.n_batches)
        on_epoch()
    stacked.write_back()
    return record.histories()


def _dual_step(
    stacked: Stack, batches: ShuffledBatches, dual: SetCoverLoss, settings: TrainingSettings
) -> tuple[Tensor, Tensor, Tensor]:
    if settings.recall_from == "full-pass":
        dual.counts.reset()
        with torch.no_grad():
            for block in batches.in_order():
                dual.count(stacked(block.examples), block.labels, block.domains)
    set_size = dual.counts.mean_set_size()
    recall = dual.update()
    return set_size, recall, dual.multipliers.clone()


class _Record:
    """Collects what becomes the histories."""

    def __init__(self, n_networks: int) -> None:
        self._n_networks = n_networks
        self._losses: list[Tensor] = []
        self._steps: list[tuple[int, int, Tensor]] = []
        self._duals: list[tuple[Tensor, ...]] = []

    def add_loss(self, losses: Tensor) -> None:
        self._losses.append(losses)

    def add_step(self, epoch: int, batch: int, *dual: Tensor) -> None:
        mean = torch.stack(self._losses).mean(0) if self._losses else torch.full((self._n_networks,), torch.nan)
        self._losses = []
        self._steps.append((epoch, batch, mean))
        if dual:
            self._duals.append(dual)

    def histories(self) -> list[History]:
        epoch, batch, loss = zip(*self._steps, strict=True)
        by_network: list[Any] = [_by_network(loss)]
        by_network += [_by_network(values) for values in zip(*self._duals, strict=True)]
        return [History(np.array(epoch), np.array(batch), *values) for values in zip(*by_network, strict=True)]


def _by_network(values: Sequence[Tensor]) -> NDArray[np.float64]:
    stacked: NDArray[np.float64] = torch.stack(tuple(values), dim=1).double().cpu().numpy()
    return stacked


@torch.no_grad()
def score(network: nn.Module, examples: NDArray[Any], rows_at_once: int = 65_536) -> NDArray[Any]:
    """Return the network's scores, examples by labels."""
    network.eval()
    dtype = next(network.parameters()).dtype
    blocks = [
        network(torch.as_tensor(examples[start : start + rows_at_once]).to(dtype))
        for start in range(0, len(examples), rows_at_once)
    ]
    scores: NDArray[Any] = torch.cat(blocks).numpy()
    return scores
