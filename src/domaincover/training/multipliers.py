"""Multipliers of (domain, label) cells and their update (the paper's Algorithm 1, update_c).

With coverage as criterion there is one cell for all labels of a domain.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def updated_multipliers(multipliers: Tensor, recall: Tensor, target_recall: Tensor, floor: float, cap: float) -> Tensor:
    """Raise the multipliers of cells below the target and lower those above; without recall or target (NaN), none.

    The factor is ν = 1 − (recall − target), doubled below the target.
    """
    factor = 1 - (recall - target_recall)
    factor = torch.where(factor > 1, 2 * factor, factor)
    moved = (multipliers * factor).clamp(floor, cap).to(multipliers.dtype)
    return torch.where((recall - target_recall).isnan(), multipliers, moved)


class CellCounts:
    """Count hits and examples of every cell, and the labels in all sets, over batches.

    Batches are collected and counted together, since counting each would cost as much as the loss.
    """

    MOST_PENDING_SCORES = 40_000  # few enough to stay in the processor's cache

    def __init__(self, shape: tuple[int, ...], n_labels: int) -> None:
        self._n_labels = n_labels
        self.shape = shape  # (…replicas, domains, labels), or one group in place of the labels
        *replicas, n_domains, n_groups = shape
        self._first_cells = torch.arange(math.prod(replicas)).view(*replicas, 1) * (n_domains * n_groups)
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self._pending: list[tuple[Tensor, Tensor, Tensor]] = []
        self._n_pending = 0
        n_cells, n_replicas = math.prod(self.shape), math.prod(self.shape[:-2])
        self._totals = torch.zeros(2 * n_cells + n_replicas, dtype=torch.int64)  # misses and hits, labels in sets

    @property
    def totals(self) -> Tensor:
        """All counts, as one vector that is kept with checkpoints and summed over processes."""
        self._count_pending()
        return self._totals

    @totals.setter
    def totals(self, totals: Tensor) -> None:
        self.reset()
        self._totals = torch.empty_like(self._totals).copy_(totals)

    def cells(self, labels: Tensor, domains: Tensor) -> Tensor:
        """Return the cell of each example among those of its replica: domain · labels + label, or the domain."""
        is_by_label = self.shape[-1] == self._n_labels
        return torch.add(labels, domains, alpha=self._n_labels) if is_by_label else domains

    def add(self, scores: Tensor, labels: Tensor, domains: Tensor, counts: Tensor | None = None) -> None:
        """Add a batch: scores (…, example, label), label and domain codes (…, example), and an optional mask."""
        if counts is not None:
            self._count(scores, labels, domains, counts)
            return
        self._pending.append((scores, labels, domains))
        self._n_pending += scores.numel()
        if self._n_pending > self.MOST_PENDING_SCORES:
            self._count_pending()

    def recall(self) -> Tensor:
        """Return the recall of every cell, NaN for cells without examples; on the CPU, in double precision."""
        hits, n_examples = self._hits_and_examples()
        return hits / n_examples  # 0 / 0 is NaN, as intended

    def mean_set_size(self) -> Tensor:
        """Return the mean number of labels per set, by replica."""
        n_examples = self._hits_and_examples()[1].sum((-2, -1))
        return self._totals[2 * math.prod(self.shape) :].cpu().double().view(self.shape[:-2]) / n_examples

    def _hits_and_examples(self) -> tuple[Tensor, Tensor]:
        outcomes = self.totals[: 2 * math.prod(self.shape)].cpu().double().view(*self.shape, 2)
        return outcomes[..., 1], outcomes.sum(-1)

    def _count_pending(self) -> None:
        if not self._pending:
            return
        scores = torch.cat([part[0] for part in self._pending], dim=-2)
        labels, domains = (torch.cat([part[k] for part in self._pending], dim=-1) for k in (1, 2))
        self._pending, self._n_pending = [], 0
        self._count(scores, labels, domains)

    def _count(self, scores: Tensor, labels: Tensor, domains: Tensor, counts: Tensor | None = None) -> None:
        in_set, cells = scores >= 0, self.cells(labels, domains)
        hit = in_set.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        self._first_cells, self._totals = self._first_cells.to(cells.device), self._totals.to(cells.device)
        outcomes = torch.add(hit, cells + self._first_cells, alpha=2)
        if counts is not None:
            in_set, outcomes = in_set & counts.unsqueeze(-1), outcomes[counts]
        n_outcomes = 2 * math.prod(self.shape)
        self._totals[:n_outcomes] += torch.bincount(outcomes.reshape(-1), minlength=n_outcomes)
        self._totals[n_outcomes:] += in_set.sum((-2, -1)).reshape(-1)
