"""Rules that calibrate each label separately; `joint` calibrates them together.

`target_recall` is one target for every label, several for several results, or a `Criterion`: targets by label, where
labels without one get `free_thresholds`, or coverage, where all labels of a domain are calibrated as one.

Cells with fewer than `min_cell_size` examples do not count. A label without any calibration cell gets −∞: it is in
every set, never silently dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.calibration.cell_thresholds import OwnScores, Thresholds, own_scores, sort_within, thresholds_of_cells
from domaincover.calibration.confidence import check_feasible, order_ranks
from domaincover.criteria import Criterion, names_of_groups, targets_by_group, thresholds_by_label
from domaincover.options import OnInfeasible

ROUNDING = 1e-9  # slack for a cumulative sum of shares, far below the share of one example
LabelNames = Sequence[Hashable] | None


def robust_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: ArrayLike | Criterion,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
) -> Thresholds:
    """Return each label's lowest cell threshold: a label is in the set if any domain's threshold admits it."""
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    lowest = thresholds_of_cells(own, target_recall).min(axis=-2, initial=np.inf)
    found = _with_uncalibrated(lowest, own, names_of_groups(label_names, target_recall))
    return thresholds_by_label(found, scores, labels, target_recall)


def pooled_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: ArrayLike | Criterion,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
) -> Thresholds:
    """Return for each label the largest threshold at which its recall, averaged over domains, is at target.

    Pooling CDFs (Dunn, Wasserman and Ramdas): domains have equal weight, whatever their size.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    pooled = _pooled(own, targets_by_group(target_recall))
    found = _with_uncalibrated(pooled, own, names_of_groups(label_names, target_recall))
    return thresholds_by_label(found, scores, labels, target_recall)


def hierarchical_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: ArrayLike | Criterion,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
    on_infeasible: OnInfeasible = "raise",
) -> Thresholds:
    """Return for each label the largest threshold that promises its average recall over new domains.

    As pooled, with the new domain counted as one more in which every score is too low (Lee, Barber and Willett):
    the mean over m domains has to be target · (m + 1) / m. With calibration domains that did not train, the expected
    recall of the label in a new domain that has it is at least the target.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    # m / (m + 1) is the highest recall that m domains allow, just as it is the highest confidence of `order`
    names = names_of_groups(label_names, target_recall)
    widened = check_feasible(own.n_by_cell, target_recall, "target recall", names, on_infeasible)
    n_domains_with = np.maximum(np.count_nonzero(own.n_by_cell, axis=0), 1)
    needed = targets_by_group(target_recall) * ((n_domains_with + 1) / n_domains_with)
    found = np.where(widened, -np.inf, _pooled(own, np.minimum(needed, 1.0)))
    return thresholds_by_label(found, scores, labels, target_recall)


def order_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: ArrayLike | Criterion,
    domain_confidence: ArrayLike,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
    on_infeasible: OnInfeasible = "raise",
) -> Thresholds:
    """Return for each label the ⌊(1 − confidence)(m + 1)⌋-th lowest of its m cell thresholds.

    With calibration domains that did not train, the recall of the label in a new domain that has it is at target with
    at least this confidence (Duchi, Gupta, Jiang and Sur). Several target recalls or confidences give an array
    (…target recalls, …confidences, labels) from one sort.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    names = names_of_groups(label_names, target_recall)
    widened = check_feasible(own.n_by_cell, domain_confidence, "domain confidence", names, on_infeasible)
    by_cell = np.sort(thresholds_of_cells(own, target_recall), axis=-2)
    ranks = order_ranks(np.count_nonzero(own.n_by_cell, axis=0), np.asarray(domain_confidence, dtype=float)[..., None])
    picked = by_cell[..., np.maximum(ranks - 1, 0), np.arange(own.n_labels)]
    return thresholds_by_label(np.where(widened, -np.inf, picked), scores, labels, target_recall)


def _pooled(own: OwnScores, needed: NDArray[np.float64]) -> Thresholds:
    """Return the largest thresholds at which the recall averaged over domains is as needed, (…, labels)."""
    order = sort_within(own.scores, own.labels, own.n_labels)[::-1]  # labels last to first, scores falling
    n_domains_with = np.count_nonzero(own.n_by_cell, axis=0)
    weight_of_cell = 1 / np.maximum(own.n_by_cell * n_domains_with, 1)
    gained = np.cumsum(weight_of_cell.reshape(-1)[own.cells[order]])
    n_of_label = np.bincount(own.labels, minlength=own.n_labels)
    present = np.flatnonzero(n_of_label)
    start = (np.cumsum(n_of_label[::-1])[::-1] - n_of_label)[present]  # of each label's block in this order
    before = np.where(start > 0, gained[start - 1], 0.0)
    needed = np.broadcast_to(needed, (*needed.shape[:-1], own.n_labels))
    pick = np.searchsorted(gained, before + needed[..., present] - ROUNDING)
    thresholds = np.full(needed.shape, np.inf)
    thresholds[..., present] = own.scores[order[pick]]
    return thresholds


def _with_uncalibrated(thresholds: Thresholds, own: OwnScores, label_names: LabelNames) -> Thresholds:
    """Put labels without a calibration cell into every set, with a warning."""
    uncalibrated = ~own.n_by_cell.any(axis=0)
    if uncalibrated.any():
        codes = np.flatnonzero(uncalibrated).tolist()
        named = ", ".join(str(code if label_names is None else repr(label_names[code])) for code in codes)
        warnings.warn(
            f"no calibration cell holds enough examples of label(s) {named}; they will be in every set.", stacklevel=3
        )
    return np.where(uncalibrated, -np.inf, thresholds)
