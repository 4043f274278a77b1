"""Epochs of primal and dual steps, for one network or a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.networks.stacks import Stack, stack
from domaincover.training.adam import FlatAdam
from domaincover.training.batches import Batch, ShuffledBatches
from domaincover.training.objectives import SetCoverLoss
from domaincover.training.selection import BestWeights, shortfall


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; the defaults are the paper's for its synthetic data, but for `keep`.

    With multipliers, weights swing about the target: an update that doubles a multiplier blows the sets up until
    later ones bring them back. `keep="last"` takes the weights where the paper stops, anywhere in that swing; "best"
    takes those of the dual step that was at target in every training cell (or came closest) with the smallest sets.
    Where a judge is given, it decides, and training stops after `patience` of its verdicts without better weights.
    `decay` lowers the learning rate to 0 over the second half.
    """

    epochs: int = 30
    learning_rate: float = 1e-3
    update_every: int = 500
    recall_from: Literal["full-pass", "batches"] = "full-pass"
    keep: Literal["best", "last"] = "best"
    decay: bool = False
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "update_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate:g}.")
        if self.recall_from not in ("batches", "full-pass"):
            raise InputError(f"recall_from must be 'batches' or 'full-pass', got {self.recall_from!r}.")
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience must be at least 1 or None, got {self.patience}.")
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


DIVERGED = "training diverged: the network's scores are not numbers; lower learning_rate."
Judge = Callable[[Stack], tuple[Tensor, Tensor]]


def train(
    networks: Sequence[nn.Module],
    batches: ShuffledBatches,
    objective: nn.Module,
    settings: TrainingSettings,
    on_epoch: Callable[[], object] = lambda: None,
    judge: Judge | None = None,
) -> list[History]:
    """Train the networks in place, each as if alone, and return their histories.

    Replica r of the batches and of the objective belongs to `networks[r]`. A judge, if there is one, says after every
    dual step (epoch, where there are none) how good the weights are: two criteria per replica, lower is better.
    """
    training = _Training(networks, batches, objective, settings, judge)
    for epoch in range(settings.epochs):
        training.epoch(epoch)
        on_epoch()
        if settings.patience is not None:
            training.best.close(settings.patience)
            if training.best.all_closed:
                break
    return training.finish()


class _Training:
    """The primal steps of a stack, and what happens between them."""

    def __init__(
        self,
        networks: Sequence[nn.Module],
        batches: ShuffledBatches,
        objective: nn.Module,
        settings: TrainingSettings,
        judge: Judge | None,
    ) -> None:
        self.stacked = stack(networks)
        self.batches, self.objective, self.settings, self.judge = batches, objective, settings, judge
        self.objective.train()
        self.stacked.train()
        self._make_optimizer()
        self.dual = _Dual(self.stacked, batches, objective, settings) if isinstance(objective, SetCoverLoss) else None
        self.best = BestWeights(self.stacked, len(networks))
        self.record = _Record()
        self.n_steps = self.n_steps_judged = 0

    def epoch(self, epoch: int) -> None:
        for number, batch in enumerate(self.batches.epoch(), start=1):
            self._primal_step(batch)
            if self.dual is not None and number % self.settings.update_every == 0:
                self._between(epoch, number)
        self._between(epoch, self.batches.n_batches)

    def finish(self) -> list[History]:
        if self.settings.keep == "best":
            self.best.restore()
        self.stacked.write_back()
        return self.record.histories()

    def _primal_step(self, batch: Batch) -> None:
        if self.settings.decay:
            share_left = 1 - self.n_steps / (self.settings.epochs * self.batches.n_batches)
            self._set_rate(self.settings.learning_rate * min(1.0, 2 * share_left))
        losses = self.objective(self.stacked(batch.examples), batch.labels, batch.domains)
        self.optimizer.zero_grad()
        losses.sum().backward()
        self.optimizer.step()
        self.record.add_loss(losses.detach())
        self.n_steps += 1

    def _between(self, epoch: int, number: int) -> None:
        """Move the multipliers, judge the weights, take note."""
        if not all(bool(weights.isfinite().all()) for weights in self.stacked.parameters()):
            raise InputError(DIVERGED)
        moved = self.dual.step() if self.dual is not None else None
        self.record.add_step(epoch, number, *(moved or ()))
        if self.n_steps == self.n_steps_judged:  # two updates in a row: the same weights are not judged again
            return
        self.n_steps_judged = self.n_steps
        if self.judge is not None:
            self.stacked.eval()
            self.best.offer(*self.judge(self.stacked))
            self.stacked.train()
        elif self.dual is not None and moved is not None:
            self.best.offer(shortfall(moved.recall, self.dual.target_recall), moved.set_size)

    def _make_optimizer(self) -> None:
        rate = self.settings.learning_rate
        if self.stacked.owns_parameters:
            flat = FlatAdam(self.stacked.parameters(), lr=rate)
            self.optimizer: FlatAdam | torch.optim.Adam = flat
            self._set_rate = partial(setattr, flat, "lr")
        else:
            self.optimizer = torch.optim.Adam(self.stacked.parameters(), lr=rate)
            self._set_rate = partial(self.optimizer.param_groups[0].__setitem__, "lr")


class DualStep(NamedTuple):
    """Set size, recall by cell, and the multipliers after the step, by replica."""

    set_size: Tensor
    recall: Tensor
    multipliers: Tensor


class _Dual:
    """The dual steps."""

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
        self.target_recall = loss.target_recall

    @torch.no_grad()
    def step(self) -> DualStep:
        """Move the multipliers by the recall of the training examples."""
        if self._settings.recall_from == "full-pass":
            self._loss.counts.reset()
            self._stacked.eval()
            for block, counts in self._batches.in_order():
                self._loss.count(self._stacked(block.examples), block.labels, block.domains, counts)
            self._stacked.train()
        set_size = self._loss.counts.mean_set_size()
        recall = self._loss.update()
        return DualStep(set_size, recall, self._loss.multipliers.clone())


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
    weights = next(network.parameters())
    blocks = [
        network(torch.as_tensor(examples[start : start + rows_at_once]).to(weights.device, weights.dtype)).cpu()
        for start in range(0, len(examples), rows_at_once)
    ]
    scores: NDArray[Any] = torch.cat(blocks).numpy()
    return scores
