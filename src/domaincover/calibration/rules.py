"""Rules that turn scores of calibration domains into thresholds: for each label by itself, or for all together.

`target_recall` is one target for every label, or a `Criterion`: targets by label, where labels without one get
`free_thresholds`, or coverage, where all labels of a domain are calibrated as one. Scores are examples × labels, higher
means more likely in the set; only an example's score for its own label counts. Each (domain, label) cell has a
threshold, where with a `Criterion` its groups stand for the labels.

A new domain, drawn like the m others, is equally likely to take any of m + 1 places among them, so it is below the
k-th lowest with probability k / (m + 1) at most: the confidence is up to m / (m + 1).

Cells with fewer than `min_cell_size` examples do not count. A label without any calibration cell gets −∞: it is in
every set, never silently dropped.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.calibration.adaptation import offset_of
from domaincover.criteria import (
    NO_GROUP,
    Criterion,
    Thresholds,
    as_criterion,
    check_n_cells,
    check_share,
    checked_codes,
    checked_scores,
    hits_needed,
    thresholds_by_label,
)
from domaincover.data.dataset import cell_of, check_min_cell_size
from domaincover.errors import InputError, check_choice
from domaincover.options import OnInfeasible, OnRareLabel

ROUNDING = 1e-9  # slack for a cumulative sum of shares, far below the share of one example
MOST_NAMES = 5
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

    def names(self, label_names: LabelNames) -> LabelNames:
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
    scores = checked_scores(scores)
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
    n_domains = int(domains.max(initial=0)) + 1  # without rows, one empty domain
    check_n_cells(n_domains, n_labels, len(domains))
    counts = np.bincount(cells, minlength=n_domains * n_labels)
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


def order_ranks(n_domains: ArrayLike, domain_confidence: ArrayLike) -> NDArray[np.int64]:
    """Return k = ⌊(1 − confidence)(m + 1)⌋: P(new domain among the k lowest of m + 1) ≤ 1 − confidence.

    >>> order_ranks([8, 9, 18, 19], 0.9)
    array([0, 1, 1, 2])
    """
    m_and_new = np.asarray(n_domains, dtype=np.int64) + 1
    return np.asarray(m_and_new - hits_needed(m_and_new, domain_confidence))  # safe where 1 − 0.9 is below 0.1


def highest_confidence(n_domains: float) -> float:
    """Return the highest confidence that this number of calibration domains allows.

    >>> highest_confidence(9)
    0.9
    """
    return n_domains / (n_domains + 1)


def confidence_text(n_domains: int) -> str:
    """Return the highest confidence in three digits, rounded down.

    >>> confidence_text(5)
    '0.833'
    """
    return f"{math.floor(1000 * highest_confidence(n_domains)) / 1000:g}"


def domains_needed(domain_confidence: float) -> int:
    """Return the smallest number of calibration domains that allows the confidence.

    >>> domains_needed(0.9), domains_needed(0.95)
    (9, 19)
    """
    n_domains = int(domain_confidence / (1 - domain_confidence))
    n_domains = max(n_domains - 1, 1)  # below the answer in spite of rounding
    while order_ranks(n_domains, domain_confidence) < 1:
        n_domains += 1
    return n_domains


def check_feasible(
    n_by_cell: NDArray[Any],
    confidence: ArrayLike,
    what: str = "domain confidence",
    label_names: LabelNames = None,
    on_infeasible: OnRareLabel = "raise",
    *,
    can_pool: bool = False,
    min_cell_size: int = 1,
    hint: str = "add domains",
) -> NDArray[np.bool_]:
    """Return a mask of the labels in too few domains for the confidence, one for all or one each, or reject them.

    `n_by_cell` is domains × labels, 0 where a cell is smaller than `min_cell_size`. With "widen", such labels are to be
    in every set; with "pool", where a rule can, their rows are pooled. A warning names them.
    """
    check_choice("on_infeasible", on_infeasible, get_args(OnRareLabel) if can_pool else get_args(OnInfeasible))
    n_domains_with = np.count_nonzero(n_by_cell, axis=0)
    asked = np.broadcast_to(confidence, n_domains_with.shape)
    for value in np.unique(confidence).tolist():
        check_share(value, what)
    infeasible = order_ranks(n_domains_with, asked) < 1
    if infeasible.any():
        message = _too_few(n_domains_with, infeasible, float(asked[infeasible].max()), what, label_names, min_cell_size)
        if on_infeasible == "raise":
            fewer_rows = ", lower min_cell_size" if min_cell_size > 1 else ""
            raise InputError(
                f"{message}; {hint}, ask for less{fewer_rows}, or use on_infeasible='widen', which puts what cannot be "
                "promised into every set."
            )
        then = "every set will hold every label" if infeasible.all() else "they will be in every set"
        if on_infeasible == "pool":
            then = "they are not promised with the others, but pooled"
        warnings.warn(f"{message}; {then}.", stacklevel=3)
    return infeasible


def _too_few(
    n_domains_with: NDArray[np.int64],
    infeasible: NDArray[np.bool_],
    highest: float,
    what: str,
    label_names: LabelNames,
    min_cell_size: int,
) -> str:
    """Return a message with the confidence, the domains it needs, and the confidence that the domains allow."""
    affected = np.flatnonzero(infeasible)
    most = int(n_domains_with[affected].max())
    enough = f"a {what} of {highest:g} takes {domains_needed(highest)} calibration domains"
    allowed = f"which allow {confidence_text(most)} at most"
    rows = f" with at least {min_cell_size} examples of a label" if min_cell_size > 1 else ""
    if len(affected) == len(n_domains_with) and len(set(n_domains_with.tolist())) == 1:
        return f"{enough}, and there are {most}{rows}, {allowed}"
    names = [repr(label_names[k]) if label_names is not None else str(k) for k in affected[:MOST_NAMES].tolist()]
    names += [f"{len(affected) - MOST_NAMES} more"] if len(affected) > MOST_NAMES else []
    counts = " and ".join(dict.fromkeys(str(n) for n in (int(n_domains_with[affected].min()), most)))
    between = f"between {counts}" if " and " in counts else counts
    rows = f" (with at least {min_cell_size} examples)" if min_cell_size > 1 else ""
    return f"{enough}, but label(s) {', '.join(names)} are in {between}{rows}, {allowed}"
