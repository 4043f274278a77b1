"""Multipliers of (domain, label) cells and their update (the paper's Algorithm 1, update_c).

With coverage as criterion there is one cell for all labels of a domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from domaincover.errors import InputError


def updated_multipliers(multipliers: Tensor, recall: Tensor, target_recall: Tensor, floor: float, cap: float) -> Tensor:
    """Raise the multipliers of cells below the target and lower those above; without recall or target (NaN), none.

    The factor is ν = 1 − (recall − target), doubled below the target.
    """
    factor = 1 - (recall - target_recall)
    factor = torch.where(factor > 1, 2 * factor, factor)
    moved = (multipliers * factor).clamp(floor, cap).to(multipliers.dtype)
    return torch.where((recall - target_recall).isnan(), multipliers, moved)


def check_codes(codes: Tensor, n: int, what: str) -> None:
    """Raise if codes are not within 0 to n − 1, since they would select multipliers of other cells."""
    low, high = map(int, codes.aminmax())
    if low < 0 or high >= n:
        raise InputError(f"{what} codes run from {low} to {high}, but the loss has {n} {what}s: 0 to {n - 1}.")


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
        self._outcomes = torch.zeros(*self.shape, 2, dtype=torch.int64)  # misses and hits
        self._labels_in_sets = torch.zeros(self.shape[:-2], dtype=torch.int64)

    def add(self, scores: Tensor, labels: Tensor, cells: Tensor, counts: Tensor | None = None) -> None:
        """Add a batch: scores (…, example, label), label codes and cells (…, example), and an optional mask.

        The cell of a domain and label is domain · labels + label, in every replica.
        """
        if counts is not None:
            self._count(scores, labels, cells, counts)
            return
        self._pending.append((scores, labels, cells))
        self._n_pending += scores.numel()
        if self._n_pending > self.MOST_PENDING_SCORES:
            self._count_pending()

    def recall(self) -> Tensor:
        """Return the recall of every cell, NaN for cells without examples."""
        self._count_pending()
        return self._outcomes[..., 1].double() / self._outcomes.sum(-1)  # 0 / 0 is NaN, as intended

    def mean_set_size(self) -> Tensor:
        """Return the mean number of labels per set, by replica."""
        self._count_pending()
        return self._labels_in_sets.double() / self._outcomes.sum((-3, -2, -1))

    def sum_over(self, total: Callable[[Tensor], Tensor]) -> None:
        """Replace the counts by their totals, for example over processes."""
        self._count_pending()
        self._outcomes, self._labels_in_sets = total(self._outcomes), total(self._labels_in_sets)

    def saved_state(self) -> dict[str, Tensor]:
        """Return the counts as named tensors."""
        self._count_pending()
        return {"outcomes": self._outcomes, "labels_in_sets": self._labels_in_sets}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore saved counts."""
        self.reset()
        self._outcomes, self._labels_in_sets = state["outcomes"], state["labels_in_sets"]

    def _count_pending(self) -> None:
        if not self._pending:
            return
        scores = torch.cat([part[0] for part in self._pending], dim=-2)
        labels, cells = (torch.cat([part[k] for part in self._pending], dim=-1) for k in (1, 2))
        self._pending, self._n_pending = [], 0
        self._count(scores, labels, cells)

    def _count(self, scores: Tensor, labels: Tensor, cells: Tensor, counts: Tensor | None = None) -> None:
        self._check(labels, cells)
        in_set = scores >= 0
        hit = in_set.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        self._first_cells, self._outcomes, self._labels_in_sets = (
            known.to(cells.device) for known in (self._first_cells, self._outcomes, self._labels_in_sets)
        )
        outcomes = torch.add(hit, cells + self._first_cells, alpha=2)
        if counts is not None:
            in_set, outcomes = in_set & counts.unsqueeze(-1), outcomes[counts]
        found = torch.bincount(outcomes.reshape(-1), minlength=self._outcomes.numel())
        self._outcomes += found.view_as(self._outcomes)
        self._labels_in_sets += in_set.sum((-2, -1))

    def _check(self, labels: Tensor, cells: Tensor) -> None:
        """Raise for codes that would be counted in another cell or replica."""
        n_domains, n_groups = self.shape[-2:]
        check_codes(labels, self._n_labels, "label")
        check_codes(torch.stack(cells.aminmax()) // n_groups, n_domains, "domain")
