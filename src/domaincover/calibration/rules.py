"""Rules that turn scores of calibration domains into thresholds: for each label by itself, or for all together.

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

from domaincover.calibration.adaptation import domain_residuals, label_offsets, order_statistic, rounded_down
from domaincover.calibration.cell_thresholds import (
    OwnScores,
    Thresholds,
    own_scores,
    sort_within,
    thresholds_at,
    thresholds_of_cells,
)
from domaincover.calibration.confidence import check_feasible, order_ranks
from domaincover.criteria import Criterion, names_of_groups, targets_by_group, thresholds_by_label
from domaincover.options import OnInfeasible, OnRareLabel
from domaincover.prediction_sets import hits_needed

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


def joint_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: ArrayLike | Criterion,
    domain_confidence: ArrayLike,
    min_cell_size: int = 1,
    label_names: LabelNames = None,
    on_infeasible: OnRareLabel = "raise",
    *,
    comparable: bool = False,
) -> Thresholds:
    """Return a threshold for each label, which together hold every label of a new domain at target.

    Each of m calibration domains allows a level: the lowest of its cells' thresholds, counted from the label's base in
    the label's unit. The thresholds of all labels are put at the ⌊(1 − confidence)(m + 1)⌋-th lowest of these levels,
    and that of a label which only some domains have no higher than the order statistic of its own cells. With
    calibration domains that did not train, min recall of a new domain is at target with at least this confidence, and
    so is each label's recall in a new domain that has it. Cells with fewer than `min_cell_size` examples count neither
    in calibration nor in the new domain. A label in too few domains for the confidence raises an error, is put into
    every set ("widen"), or gets the largest statement that can be made about it alone ("pool"): its r cells that count
    promise it by itself with confidence r / (r + 1), and all its rows, those of small cells included, a new row of it.
    Several target recalls or confidences give an array (…target recalls, …confidences, labels).

    A domain's level is counted in bases and units of the other domains, and a label is in the set where the scale
    without any one domain puts it there, as in jackknife-minmax: the promise is exact, and neither the zero nor the
    unit of a label's scores matters. `comparable` scores, on one scale for all labels already, are compared as they
    are, which gives somewhat smaller sets.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    names = names_of_groups(label_names, target_recall)
    widened = check_feasible(own.n_by_cell, domain_confidence, "domain confidence", names, on_infeasible, can_pool=True)
    confidences = np.asarray(domain_confidence, dtype=float)
    axes = tuple(range(-2 - confidences.ndim, -2))
    targets = targets_by_group(target_recall)
    by_cell, lower = np.expand_dims(thresholds_at(own, np.stack([targets, 1 - (1 - targets) / 5])), axes)
    counts = (own.n_by_cell > 0) & ~widened[..., None, :]  # (…confidences, domains, labels)
    in_units = not comparable and own.n_labels > 1
    base, unit = _scales_of_others(by_cell, lower) if in_units else (np.zeros(1), np.ones(1))
    allowed = domain_residuals((by_cell - base) / unit, 0.0, counts)
    level = order_statistic(allowed[..., None, :], np.count_nonzero(counts.any(axis=-1), axis=-1), confidences)
    together = rounded_down(base, unit * level[..., None, None]).min(axis=-2) if in_units else level[..., None]
    found = np.minimum(together, label_offsets(by_cell[..., None, :, :], counts[..., None, :, :], confidences))
    if on_infeasible != "pool":
        return thresholds_by_label(np.where(widened, -np.inf, found), scores, labels, target_recall)
    rows = own_scores(scores, labels, domains, target_recall, 1)  # rows of small cells count
    rare = pooled_row_thresholds(rows.scores, rows.labels, rows.n_labels, target_recall)
    rare = np.minimum(np.expand_dims(rare, tuple(axis + 1 for axis in axes)), by_cell.min(axis=-2))
    # where no label can be promised, there is no level that the others share; and one cell alone gives no scale
    by_itself = widened.all(axis=-1, keepdims=True) | (in_units & (np.count_nonzero(own.n_by_cell, axis=0) < 2))
    found = np.where(widened, np.where(by_itself, rare, np.minimum(found, rare)), found)
    return thresholds_by_label(found, scores, labels, target_recall)


def _scales_of_others(by_cell: Thresholds, lower: Thresholds) -> tuple[Thresholds, Thresholds]:
    """Return for each domain a base and a unit of every label from the other domains, both (…, domains, labels).

    A label's score becomes (score − base) / unit. Base is the mean cell threshold, and unit the mean distance from
    there to a `lower` threshold of the same cell; a label without a unit of its own gets the widest of the others. The
    promise holds for any scale; this one had the smallest sets (docs/experiment-log.md).
    """
    with np.errstate(invalid="ignore"):
        base, unit = _mean_of_others(by_cell), _mean_of_others(by_cell - lower)
    usable = unit > 0
    widest = np.where(usable, unit, 0.0).max(axis=-1, keepdims=True, initial=0.0)
    return base, np.where(usable, unit, np.where(widest > 0, widest, 1.0))


def _mean_of_others(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each domain the mean of the other domains' finite values, 0 where they have none."""
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    count = finite.sum(axis=-2, keepdims=True) - finite
    return np.where(count > 0, (known.sum(axis=-2, keepdims=True) - known) / np.maximum(count, 1), 0.0)


def pooled_row_thresholds(
    own: NDArray[Any], labels: NDArray[np.int64], n_labels: int, target_recall: ArrayLike | Criterion
) -> NDArray[np.float64]:
    """Return the largest threshold that enough of a label's rows reach, a new row counted as one missed.

    For a label in too few domains to be promised: if rows are exchangeable, a new one is covered with the target
    probability. `own` holds each row's value for its own label. The result is (…target recalls, labels), −∞ where a
    label has too few rows: a target of 0.9 takes nine.
    """
    order = sort_within(own, labels, n_labels)
    n_of_label = np.bincount(labels, minlength=n_labels)
    needed = hits_needed(n_of_label + 1, targets_by_group(target_recall))
    picks = np.cumsum(n_of_label) - needed
    enough = needed <= n_of_label
    if not len(own):
        return np.full(enough.shape, -np.inf)
    return np.where(enough, own[order][np.where(enough, picks, 0)].astype(float), -np.inf)


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
