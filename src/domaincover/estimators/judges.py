"""Evaluate weights during training on held-out domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from domaincover.calibration.cell_thresholds import cell_thresholds
from domaincover.data.cells import cell_of
from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples
from domaincover.errors import InputError
from domaincover.networks.stacks import Stack
from domaincover.training.batches import no_longer_readable
from domaincover.training.engine import Engine
from domaincover.training.loop import DIVERGED
from domaincover.training.scoring import score_blocks


class HeldOutDomains:
    """Examples of held-out domains, and their scores under a network."""

    def __init__(self, data: DomainDataset, engine: Engine | None = None) -> None:
        self.labels, self.domains = data.labels, data.domains
        self._engine = engine or Engine()
        self._examples: Any = data.examples  # examples in memory are moved to the device once
        if not isinstance(data.examples, LazyExamples):
            self._examples = torch.as_tensor(data.examples).to(self._engine.device)

    def scores(self, network: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
        """Return the scores, (example, label); several processes compute a part each."""
        n_rows = len(self.labels)
        part = self._engine.shard.part(n_rows)
        if part.start == part.stop:  # fewer rows than processes: compute a row that is then ignored
            part = slice(0, 0)
        scores = score_blocks(network, self._examples[part if part.stop else slice(1)], self._engine.device)
        if not self._engine.is_alone:
            whole = torch.zeros(n_rows, scores.shape[1])
            whole[part] = torch.from_numpy(scores[: part.stop - part.start])
            scores = self._engine.sum(whole).numpy()
        if isinstance(self._examples, LazyExamples) and (unread := np.isposinf(scores).all(axis=1)).any():
            raise no_longer_readable(self._examples.sources[unread][0])
        if not np.isfinite(scores).all():
            raise InputError(DIVERGED)
        return scores


class Judge(Protocol):
    """A criterion of a network on held-out domains."""

    def verdict(self, network: Callable[[Tensor], Tensor]) -> float:
        """Return the criterion, lower is better."""
        ...


class Panel:
    """One judge for each network of a stack, as `train` expects it."""

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._judges = judges

    def __call__(self, stacked: Stack) -> tuple[Tensor, Tensor]:
        """Return the criteria, and zeros as tie-breakers."""
        verdicts = [judge.verdict(partial(stacked.of_replica, k)) for k, judge in enumerate(self._judges)]
        return torch.tensor(verdicts), torch.zeros(len(verdicts))


class SmallestSets:
    """Mean set size after lowering the threshold until every held-out cell is at target.

    This compares early weights, whose sets are too large, fairly with late ones, which overfit the training domains.
    The threshold is never raised above 0, at which the multipliers keep the training cells at target.
    """

    def __init__(self, held_out: HeldOutDomains, target_recall: float) -> None:
        self._held_out, self._target_recall = held_out, target_recall
        # A cell with fewer than 1 / (1 - target) examples is at target only without a miss: too few to be informative.
        n_in_cells = np.bincount(cell_of(held_out.domains, held_out.labels, int(held_out.labels.max()) + 1))
        least = int(np.ceil(1 / (1 - target_recall) - 1e-9))
        self._min_cell_size = least if n_in_cells.max() >= least else 1

    def verdict(self, network: Callable[[Tensor], Tensor]) -> float:
        """Return the mean set size."""
        scores = self._held_out.scores(network)
        return float(np.count_nonzero(scores >= self._threshold(scores)) / len(scores))

    def threshold(self, network: nn.Module) -> float:
        """Return the highest threshold, at most 0, at which every held-out cell is at target."""
        network.eval()
        return self._threshold(self._held_out.scores(network))

    def _threshold(self, scores: NDArray[np.float32]) -> float:
        by_cell = cell_thresholds(
            scores, self._held_out.labels, self._held_out.domains, self._target_recall, self._min_cell_size
        )
        return min(0.0, float(by_cell.min()))


class LowestLoss:
    """Mean cross-entropy on held-out domains."""

    def __init__(self, held_out: HeldOutDomains) -> None:
        self._held_out, self._labels = held_out, torch.as_tensor(held_out.labels)

    def verdict(self, network: Callable[[Tensor], Tensor]) -> float:
        """Return the mean loss."""
        scores = torch.from_numpy(self._held_out.scores(network))
        return float(functional.cross_entropy(scores, self._labels))
