"""Evaluate weights during training on held-out domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from domaincover.calibration.cell_thresholds import cell_thresholds
from domaincover.calibration.confidence import order_ranks
from domaincover.criteria import Criterion
from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples
from domaincover.errors import InputError
from domaincover.training.loop import DIVERGED
from domaincover.training.pools import no_longer_readable, score

CONFIDENCE = 0.9  # of the order statistic over held-out domains


class HeldOutDomains:
    """Examples of held-out domains, and their scores under a network."""

    def __init__(self, data: DomainDataset, device: str = "cpu") -> None:
        self.labels, self.domains, self._device = data.labels, data.domains, device
        self._examples: Any = data.examples  # examples in memory are moved to the device once
        if not isinstance(data.examples, LazyExamples):
            self._examples = torch.as_tensor(data.examples).to(device)

    def scores(self, network: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
        """Return the scores, (example, label)."""
        scores = score(network, self._examples, self._device)
        if isinstance(self._examples, LazyExamples) and (unread := np.isposinf(scores).all(axis=1)).any():
            raise no_longer_readable(self._examples.sources[unread][0])
        if not np.isfinite(scores).all():
            raise InputError(DIVERGED)
        return scores


class SmallestSets:
    """Mean set size at thresholds that bring held-out domains to target.

    This compares early weights, whose sets are too large, fairly with late ones, which overfit the training domains.
    Each label starts at the threshold at which its held-out rows, pooled, are at target, but at most 0, at which the
    multipliers keep the training cells at target. One offset then lowers all labels until every held-out domain is at
    target in all of its (domain, label) cells with `min_cell_size` or more rows; of 19 or more domains, an order
    statistic leaves out up to a tenth. A label that is hard in new domains thus does not lower the others, and neither
    small cells nor the number of cells decide (docs/experiment-log.md compares rules); if all are small, there is no
    offset. With another criterion, its groups stand for the labels; a label without a target keeps the threshold 0.
    """

    def __init__(self, held_out: HeldOutDomains, criterion: Criterion, min_cell_size: int) -> None:
        self._held_out, self._criterion, self._min_cell_size = held_out, criterion, min_cell_size

    def verdict(self, network: Callable[[Tensor], Tensor]) -> float:
        """Return the mean set size."""
        scores = self._held_out.scores(network)
        return float(np.count_nonzero(scores >= self._thresholds(scores)) / len(scores))

    def thresholds(self, network: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
        """Return the threshold of every label, at most 0."""
        return self._thresholds(self._held_out.scores(network))

    def _thresholds(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        labels, domains, target = self._held_out.labels, self._held_out.domains, self._criterion
        pooled = cell_thresholds(scores, labels, np.zeros_like(domains), target)[0]
        base = np.minimum(pooled, 0.0)
        needed = (cell_thresholds(scores, labels, domains, target, self._min_cell_size) - base).min(axis=1)
        needed = np.sort(needed[np.isfinite(needed)])
        if len(needed) == 0:
            return target.by_label(base, 0.0).astype(scores.dtype)
        rank = max(int(order_ranks(len(needed), CONFIDENCE)), 1)
        return target.by_label(base + min(0.0, float(needed[rank - 1])), 0.0).astype(scores.dtype)


class LowestLoss:
    """Mean cross-entropy on held-out domains."""

    def __init__(self, held_out: HeldOutDomains) -> None:
        self._held_out, self._labels = held_out, torch.as_tensor(held_out.labels)

    def verdict(self, network: Callable[[Tensor], Tensor]) -> float:
        """Return the mean loss."""
        scores = torch.from_numpy(self._held_out.scores(network))
        return float(functional.cross_entropy(scores, self._labels))


def verdicts(judges: Sequence[SmallestSets | LowestLoss], networks: Sequence[nn.Module]) -> Tensor:
    """Return the criterion of each network, lower is better, as `train` expects it."""
    return torch.tensor([judge.verdict(network) for judge, network in zip(judges, networks, strict=True)])
