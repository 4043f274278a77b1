"""The threshold of each (domain, label) cell: an order statistic of its scores.

Scores are examples × labels, higher means more likely in the set. Only an example's score for its own label counts.
With a `Criterion` as target, cells are its groups: the constrained labels, or all labels of a domain as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import NO_GROUP, Criterion, as_criterion
from domaincover.data.dataset import cell_of, check_min_cell_size
from domaincover.errors import InputError
from domaincover.prediction_sets import checked_codes, hits_needed

Thresholds = NDArray[np.float64]
MOST_CELLS = 10**8  # counts of 800 MB; rejects names such as 20260131 given as codes


class OwnScores(NamedTuple):
    """Each usable example's score for its own label, its group and cell, and the size of every cell."""

    scores: NDArray[Any]
    labels: NDArray[np.int64]
    cells: NDArray[np.int64]
    cell_counts: NDArray[np.int64]
    criterion: Criterion

    @property
    def n_labels(self) -> int:
        """The number of labels, or of groups of the criterion."""
        return len(self.criterion.group_targets)

    @property
    def n_by_cell(self) -> NDArray[np.int64]:
        """The size of every cell, domains × labels; 0 where a cell does not count."""
        return self.cell_counts.reshape(-1, self.n_labels)

    def names(self, label_names: Sequence[Hashable] | None) -> Sequence[Hashable] | None:
        """Return the names of what is constrained, where names are known."""
        return None if label_names is None else self.criterion.group_names(label_names)


def cell_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    min_cell_size: int = 1,
) -> Thresholds:
    """Return for every (domain, label) cell the largest threshold at which its recall is still at target.

    An order statistic of the cell's own-label scores, so ties are safe; +∞ for a cell with fewer than
    `min_cell_size` examples, which does not count.
    """
    return thresholds_of_cells(own_scores(scores, labels, domains, target_recall, min_cell_size))


def own_scores(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    min_cell_size: int,
) -> OwnScores:
    """Check the arguments of a rule, and select each example's score for its own label."""
    scores = np.asarray(scores)
    if scores.ndim != 2 or scores.dtype.kind not in "fiub":
        raise InputError(f"scores must be numbers, examples × labels, got {scores.dtype} of shape {scores.shape}.")
    criterion = as_criterion(target_recall, scores.shape[1])
    labels = checked_codes(labels, "label", len(scores), scores.shape[1])
    domains = checked_codes(domains, "domain", len(scores))
    own = scores[np.arange(len(labels)), labels]
    if np.isnan(own).any():
        row = int(np.isnan(own).argmax())
        raise InputError(f"{int(np.isnan(own).sum())} scores are NaN, first at row {row}; calibration needs numbers.")
    labels, n_labels = criterion.group_of_label[labels], len(criterion.group_targets)
    if (labels == NO_GROUP).any():
        counts_at_all = labels != NO_GROUP
        own, labels, domains = own[counts_at_all], labels[counts_at_all], domains[counts_at_all]
    cells = cell_of(domains, labels, n_labels)
    n_cells = (int(domains.max(initial=0)) + 1) * n_labels  # without rows, the cells of one empty domain
    if n_cells > MOST_CELLS:
        raise InputError(
            f"domain codes run up to {int(domains.max()):,} for {len(domains):,} examples; codes count from 0: "
            "`DomainDataset.from_arrays` makes them from names."
        )
    counts = np.bincount(cells, minlength=n_cells)
    if check_min_cell_size(min_cell_size) > 1:
        keep = counts[cells] >= min_cell_size
        own, labels, cells = own[keep], labels[keep], cells[keep]
        counts = np.where(counts >= min_cell_size, counts, 0)
    return OwnScores(own, labels, cells, counts, criterion)


def thresholds_of_cells(own: OwnScores) -> Thresholds:
    """Return every cell's threshold, domains × labels."""
    order = sort_within(own.scores, own.cells, len(own.cell_counts))
    used = np.flatnonzero(own.cell_counts)
    needed = hits_needed(own.cell_counts[used], own.criterion.group_targets[used % own.n_labels])
    thresholds = np.full(len(own.cell_counts), np.inf)
    thresholds[used] = own.scores[order[np.cumsum(own.cell_counts)[used] - needed]]
    return thresholds.reshape(-1, own.n_labels)


def sort_within(scores: NDArray[Any], group: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Return the order by group, then by rising score: one sort of the scores, then a counting sort of the groups."""
    from scipy import sparse

    by_score = np.argsort(scores)
    # scipy turns coordinates into rows by counting, stably: several times as fast as a stable sort of the groups
    places = (group[by_score], np.arange(len(scores)))
    return sparse.coo_array((by_score, places), shape=(n_groups, len(scores))).tocsr().data
