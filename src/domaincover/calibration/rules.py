"""Rules that turn scores of calibration domains into thresholds: for each label by itself, or for all together.

`target_recall` is one target for every label, or a `Criterion`: targets by label, where labels without one get
`free_thresholds`, or coverage, where all labels of a domain are calibrated as one.

Cells with fewer than `min_cell_size` examples do not count. A label without any calibration cell gets −∞: it is in
every set, never silently dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.calibration.adaptation import offset_of
from domaincover.calibration.order_statistics import (
    OwnScores,
    Thresholds,
    check_feasible,
    order_ranks,
    own_scores,
    sort_within,
    thresholds_of_cells,
)
from domaincover.criteria import Criterion, hits_needed, thresholds_by_label
from domaincover.options import OnInfeasible, OnRareLabel

ROUNDING = 1e-9  # slack for a cumulative sum of shares, far below the share of one example
LabelNames = Sequence[Hashable] | None


def robust_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
) -> Thresholds:
    """Return each label's lowest cell threshold: a label is in the set if any domain's threshold admits it."""
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    found = _with_uncalibrated(thresholds_of_cells(own).min(axis=0, initial=np.inf), own, label_names)
    return thresholds_by_label(found, scores, labels, own.criterion)


def pooled_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
) -> Thresholds:
    """Return for each label the largest threshold at which its recall, averaged over domains, is at target.

    Pooling CDFs (Dunn, Wasserman and Ramdas): domains have equal weight, whatever their size.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    found = _with_uncalibrated(_pooled(own, own.criterion.group_targets), own, label_names)
    return thresholds_by_label(found, scores, labels, own.criterion)


def hierarchical_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
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
    targets, names = own.criterion.group_targets, own.names(label_names)
    widened = check_feasible(own.n_by_cell, targets, "target recall", names, on_infeasible)
    n_domains_with = np.maximum(np.count_nonzero(own.n_by_cell, axis=0), 1)
    needed = targets * ((n_domains_with + 1) / n_domains_with)
    found = np.where(widened, -np.inf, _pooled(own, np.minimum(needed, 1.0)))
    return thresholds_by_label(found, scores, labels, own.criterion)


def order_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    domain_confidence: float,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
    on_infeasible: OnInfeasible = "raise",
) -> Thresholds:
    """Return for each label the ⌊(1 − confidence)(m + 1)⌋-th lowest of its m cell thresholds.

    With calibration domains that did not train, the recall of the label in a new domain that has it is at target with
    at least this confidence (Duchi, Gupta, Jiang and Sur).
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    names = own.names(label_names)
    widened = check_feasible(own.n_by_cell, domain_confidence, "domain confidence", names, on_infeasible)
    ranks = order_ranks(np.count_nonzero(own.n_by_cell, axis=0), domain_confidence)
    picked = np.sort(thresholds_of_cells(own), axis=0)[np.maximum(ranks - 1, 0), np.arange(own.n_labels)]
    return thresholds_by_label(np.where(widened, -np.inf, picked), scores, labels, own.criterion)


def joint_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    domain_confidence: float,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
    on_infeasible: OnRareLabel = "raise",
) -> Thresholds:
    """Return a threshold for each label, which together hold every label of a new domain at target.

    Scores are on one scale for all labels, such as log-odds. Each of m calibration domains allows a level: the lowest
    of its cells' thresholds. The thresholds of all labels are at the ⌊(1 − confidence)(m + 1)⌋-th lowest of these
    levels, and that of a label which only some domains have no higher than the order statistic of its own cells. With
    calibration domains that did not train, min recall of a new domain is at target with at least this confidence, and
    so is each label's recall in a new domain that has it. Cells with fewer than `min_cell_size` examples count neither
    in calibration nor in the new domain. A label in too few domains for the confidence raises an error, is put into
    every set ("widen"), or gets the largest statement that can be made about it alone ("pool"): its r cells that count
    promise it by itself with confidence r / (r + 1), and all its rows, those of small cells included, a new row of it.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    names = own.names(label_names)
    widened = check_feasible(own.n_by_cell, domain_confidence, "domain confidence", names, on_infeasible, can_pool=True)
    rare = np.full(own.n_labels, -np.inf)
    if on_infeasible == "pool":
        rows = own_scores(scores, labels, domains, target_recall, 1)  # rows of small cells count
        rare = pooled_row_thresholds(rows.scores, rows.labels, rows.n_labels, own.criterion.group_targets)
    counts = (own.n_by_cell > 0)[None]
    found = offset_of(thresholds_of_cells(own)[None], ~widened, rare, domain_confidence, counts=counts)
    return thresholds_by_label(found, scores, labels, own.criterion)


def pooled_row_thresholds(
    own: NDArray[Any], labels: NDArray[np.int64], n_labels: int, targets: ArrayLike
) -> NDArray[np.float64]:
    """Return the largest threshold that enough of a label's rows reach, a new row counted as one missed.

    For a label in too few domains to be promised: if rows are exchangeable, a new one is covered with the target
    probability. `own` holds each row's value for its own label. −∞ where a label has too few rows: a target of 0.9
    takes nine.
    """
    order = sort_within(own, labels, n_labels)
    n_of_label = np.bincount(labels, minlength=n_labels)
    needed = hits_needed(n_of_label + 1, targets)
    picks = np.cumsum(n_of_label) - needed
    enough = needed <= n_of_label
    if not len(own):
        return np.full(enough.shape, -np.inf)
    return np.where(enough, own[order][np.where(enough, picks, 0)].astype(float), -np.inf)


def _pooled(own: OwnScores, needed: NDArray[np.float64]) -> Thresholds:
    """Return the largest thresholds at which the recall averaged over domains is as needed, by label."""
    order = sort_within(own.scores, own.labels, own.n_labels)[::-1]  # labels last to first, scores falling
    n_domains_with = np.count_nonzero(own.n_by_cell, axis=0)
    weight_of_cell = 1 / np.maximum(own.n_by_cell * n_domains_with, 1)
    gained = np.cumsum(weight_of_cell.reshape(-1)[own.cells[order]])
    n_of_label = np.bincount(own.labels, minlength=own.n_labels)
    present = np.flatnonzero(n_of_label)
    start = (np.cumsum(n_of_label[::-1])[::-1] - n_of_label)[present]  # of each label's block in this order
    before = np.where(start > 0, gained[start - 1], 0.0)
    pick = np.searchsorted(gained, before + needed[present] - ROUNDING)
    thresholds = np.full(own.n_labels, np.inf)
    thresholds[present] = own.scores[order[pick]]
    return thresholds


def _with_uncalibrated(thresholds: Thresholds, own: OwnScores, label_names: LabelNames) -> Thresholds:
    """Put labels without a calibration cell into every set, with a warning."""
    uncalibrated = ~own.n_by_cell.any(axis=0)
    if uncalibrated.any():
        codes, label_names = np.flatnonzero(uncalibrated).tolist(), own.names(label_names)
        named = ", ".join(str(code if label_names is None else repr(label_names[code])) for code in codes)
        warnings.warn(
            f"no calibration cell holds enough examples of label(s) {named}; they will be in every set.", stacklevel=3
        )
    return np.where(uncalibrated, -np.inf, thresholds)
