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
from domaincover.training.adam import FlatAdam
from domaincover.training.batches import ShuffledBatches
from domaincover.training.objectives import SetCoverLoss


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; the defaults are the paper's for its synthetic data, but for `keep`.

    With multipliers, weights swing about the target: an update that doubles a multiplier blows the sets up until
    later ones bring them back. `keep="last"` takes the weights where the paper stops, anywhere in that swing; "best"
    takes those of the dual step that was at target in every training cell (or came closest) with the smallest sets.
    """

    epochs: int = 30
    learning_rate: float = 1e-3
    update_every: int = 500
    recall_from: Literal["full-pass", "batches"] = "full-pass"
    keep: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        for name in ("epochs", "update_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate:g}.")
        if self.recall_from not in ("batches", "full-pass"):
            raise InputError(f"recall_from must be 'batches' or 'full-pass', got {self.recall_from!r}.")
        if self.keep not in ("best", "last"):
            raise InputError(f"keep must be 'best' or 'last', got {self.keep!r}.")


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
    make_optimizer = FlatAdam if stacked.owns_parameters else torch.optim.Adam
    optimizer = make_optimizer(stacked.parameters(), lr=settings.learning_rate)
    dual = _Dual(stacked, batches, objective, settings) if isinstance(objective, SetCoverLoss) else None
    record = _Record()
    for epoch in range(settings.epochs):
        for number, batch in enumerate(batches.epoch(), start=1):
            losses = objective(stacked(batch.examples), batch.labels, batch.domains)
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
            record.add_loss(losses.detach())
            if dual is not None and number % settings.update_every == 0:
                record.add_step(epoch, number, *dual.step())
        record.add_step(epoch, batches.n_batches, *(dual.step() if dual is not None else ()))
        on_epoch()
    if dual is not None and settings.keep == "best":
        dual.restore_best()
    stacked.write_back()
    return record.histories()


class _Dual:
    """The dual steps, and the best weights that they met, replica by replica."""

    def __init__(
        self, stacked: Stack, batches: ShuffledBatches, loss: SetCoverLoss, settings: TrainingSettings
    ) -> None:
        n_networks = len(batches.rows)
        if loss.shape[:-2] != (n_networks,):
            raise InputError(
                f"SetCoverLoss needs a list of target recalls, one for each of the {n_networks} networks trained."
            )
        batches.pool.check_codes(*loss.shape[-2:])
        self._stacked, self._batches, self._loss, self._settings = stacked, batches, loss, settings
        loss.gather = settings.recall_from == "batches"
        self._best_state = [state.detach().clone() for state in self._state()]
        self._best_shortfall = torch.full((loss.shape[0],), torch.inf, dtype=torch.float64)
        self._best_size = self._best_shortfall.clone()

    @torch.no_grad()
    def step(self) -> tuple[Tensor, Tensor, Tensor]:
        """Move the multipliers; return set size, recall by cell, and the moved multipliers, by replica."""
        if self._settings.recall_from == "full-pass":
            self._loss.counts.reset()
            self._stacked.eval()
            for block in self._batches.in_order():
                self._loss.count(self._stacked(block.examples), block.labels, block.domains)
            self._stacked.train()
        set_size = self._loss.counts.mean_set_size()
        recall = self._loss.update()
        self._offer(recall, set_size)
        return set_size, recall, self._loss.multipliers.clone()

    def _offer(self, recall: Tensor, set_size: Tensor) -> None:
        """Keep the current weights of the replicas that are closer to the target, or as close with smaller sets."""
        below = (self._loss.target_recall - recall).nan_to_num(0.0).clamp(min=0)
        shortfall = below.amax((-2, -1)).to(self._best_shortfall)
        size = set_size.to(self._best_size)
        better = (shortfall < self._best_shortfall) | ((shortfall == self._best_shortfall) & (size < self._best_size))
        better &= ~size.isnan()  # nothing was counted: two updates in a row
        self._best_shortfall = torch.where(better, shortfall, self._best_shortfall)
        self._best_size = torch.where(better, size, self._best_size)
        for best, state in zip(self._best_state, self._state(), strict=True):
            best.copy_(torch.where(self._stacked.by_replica(better, state), state, best))

    @torch.no_grad()
    def restore_best(self) -> None:
        """Go back to the best weights, where any were judged."""
        judged = self._best_shortfall.isfinite()
        for best, state in zip(self._best_state, self._state(), strict=True):
            state.copy_(torch.where(self._stacked.by_replica(judged, state), best, state))

    def _state(self) -> list[Tensor]:
        return [*self._stacked.parameters(), *self._stacked.buffers()]


class _Record:
    """Collects what becomes the histories."""

    def __init__(self) -> None:
        self._losses: list[Tensor] = []
        self._steps: list[tuple[int, int, Tensor]] = []
        self._duals: list[tuple[Tensor, ...]] = []

    def add_loss(self, losses: Tensor) -> None:
        self._losses.append(losses)

    def add_step(self, epoch: int, batch: int, *dual: Tensor) -> None:
        if self._losses:
            self._mean_loss = torch.stack(self._losses).mean(0)
            self._losses = []
        self._steps.append((epoch, batch, self._mean_loss))
        if dual:
            self._duals.append(dual)

    def histories(self) -> list[History]:
        epoch, batch, loss = zip(*self._steps, strict=True)
        by_network = [_by_network(loss), *map(_by_network, zip(*self._duals, strict=True))]
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
