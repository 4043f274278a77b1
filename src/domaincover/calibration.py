"""Thresholds from scores: every rule is one threshold per label, found by sorting.

Scores are examples × labels, higher means more likely in the set. Only an example's score for its own label
counts. A label without any calibration cell gets −∞: always in the set, never silently dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.cells import cell_of
from domaincover.errors import InputError
from domaincover.prediction_sets import check_target_recall, checked_codes, hits_needed

Thresholds = NDArray[np.float64]
ROUNDING = 1e-9  # slack for a cumulative sum of shares, far below the share of one example


class _OwnScores(NamedTuple):
    """Each usable example's score for its own label, its label and cell, and the size of its cell."""

    scores: NDArray[Any]
    labels: NDArray[np.int64]
    cells: NDArray[np.int64]
    cell_counts: NDArray[np.int64]
    n_labels: int


def cell_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float,
    min_cell_size: int = 0,
) -> Thresholds:
    """Return for every (domain, label) cell the largest threshold at which its recall is still at target.

    An order statistic of the cell's own-label scores, so ties are safe; +∞ for a cell that asks for nothing.
    """
    return _cell_thresholds(_own_scores(scores, labels, domains, target_recall, min_cell_size), target_recall)


def robust_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float,
    min_cell_size: int = 0,
    label_names: Sequence[Hashable] | None = None,
) -> Thresholds:
    """Return for each label its lowest cell threshold: in the set if any domain's threshold admits it."""
    own = _own_scores(scores, labels, domains, target_recall, min_cell_size)
    return _with_uncalibrated(_cell_thresholds(own, target_recall).min(axis=0, initial=np.inf), own, label_names)


def pooled_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float,
    min_cell_size: int = 0,
    label_names: Sequence[Hashable] | None = None,
) -> Thresholds:
    """Return for each label the largest threshold at which its recall, averaged over domains, is at target.

    Pooled CDFs (Dunn, Wasserman and Ramdas): each domain weighs the same, whatever its size.
    """
    own = _own_scores(scores, labels, domains, target_recall, min_cell_size)
    order = _sort_within(own.scores, own.labels, own.n_labels)[::-1]  # labels last to first, scores falling
    n_domains_with = np.count_nonzero(own.cell_counts.reshape(-1, own.n_labels), axis=0)
    weight_of_cell = 1 / np.maximum(own.cell_counts.reshape(-1, own.n_labels) * n_domains_with, 1)
    gained = np.cumsum(weight_of_cell.reshape(-1)[own.cells[order]])
    n_of_label = np.bincount(own.labels, minlength=own.n_labels)
    present = np.flatnonzero(n_of_label)
    start = (np.cumsum(n_of_label[::-1])[::-1] - n_of_label)[present]  # of each label's block in this order
    before = np.where(start > 0, gained[start - 1], 0.0)
    pick = np.searchsorted(gained, before + target_recall - ROUNDING)
    thresholds = np.full(own.n_labels, np.inf)
    thresholds[present] = own.scores[order[pick]]
    return _with_uncalibrated(thresholds, own, label_names)


def _cell_thresholds(own: _OwnScores, target_recall: float) -> Thresholds:
    order = _sort_within(own.scores, own.cells, len(own.cell_counts))
    used = np.flatnonzero(own.cell_counts)
    pick = np.cumsum(own.cell_counts)[used] - hits_needed(own.cell_counts[used], target_recall)
    thresholds = np.full(len(own.cell_counts), np.inf)
    thresholds[used] = own.scores[order[pick]]
    return thresholds.reshape(-1, own.n_labels)


def _own_scores(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float,
    min_cell_size: int,
) -> _OwnScores:
    check_target_recall(target_recall)
    scores = np.asarray(scores)
    if scores.ndim != 2:
        raise InputError(f"scores must be examples × labels, got shape {scores.shape}.")
    labels = checked_codes(labels, "label", len(scores), scores.shape[1])
    domains = checked_codes(domains, "domain", len(scores))
    own = scores[np.arange(len(labels)), labels]
    if np.isnan(own).any():
        row = int(np.isnan(own).argmax())
        raise InputError(f"{int(np.isnan(own).sum())} scores are NaN, first at row {row}; calibration needs numbers.")
    n_labels = scores.shape[1]
    cells = cell_of(domains, labels, n_labels)
    n_cells = (int(domains.max(initial=-1)) + 1) * n_labels
    counts = np.bincount(cells, minlength=n_cells)
    if min_cell_size > 0:
        keep = counts[cells] > min_cell_size
        own, labels, cells = own[keep], labels[keep], cells[keep]
        counts = np.where(counts > min_cell_size, counts, 0)
    return _OwnScores(own, labels, cells, counts, n_labels)


def _sort_within(scores: NDArray[Any], group: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Return the order by group, then by rising score: one sort of the scores and one radix sort of the groups."""
    by_score = np.argsort(scores)
    small = group.astype(np.min_scalar_type(max(n_groups - 1, 0)))  # numpy sorts 8 and 16 bit numbers by radix
    return by_score[np.argsort(small[by_score], kind="stable")]


def _with_uncalibrated(thresholds: Thresholds, own: _OwnScores, label_names: Sequence[Hashable] | None) -> Thresholds:
    """Put labels without a calibration cell into every set, and say so, by name where names are given."""
    uncalibrated = ~own.cell_counts.reshape(-1, own.n_labels).any(axis=0)
    if uncalibrated.any():
        codes = np.flatnonzero(uncalibrated).tolist()
        named = ", ".join(str(code if label_names is None else repr(label_names[code])) for code in codes)
        warnings.warn(
            f"no calibration cell holds enough examples of label(s) {named}; they will be in every set.", stacklevel=3
        )
    return np.where(uncalibrated, -np.inf, thresholds)
