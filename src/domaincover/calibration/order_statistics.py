"""Order statistics: the threshold of each (domain, label) cell, and the confidence that m calibration domains allow.

Scores are examples × labels, higher means more likely in the set. Only an example's score for its own label counts.
With a `Criterion` as target, cells are its groups: the constrained labels, or all labels of a domain as one.

A new domain, drawn like the m others, is equally likely to take any of m + 1 places among them, so it is below the
k-th lowest with probability k / (m + 1) at most: the confidence is up to m / (m + 1).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.criteria import NO_GROUP, Criterion, as_criterion, check_share, checked_codes, hits_needed
from domaincover.data.dataset import cell_of, check_min_cell_size
from domaincover.errors import InputError, check_choice
from domaincover.options import OnInfeasible, OnRareLabel

Thresholds = NDArray[np.float64]
MOST_CELLS = 10**8  # counts of 800 MB; rejects names such as 20260131 given as codes
MOST_NAMES = 5


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
    label_names: Sequence[Hashable] | None = None,
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
    label_names: Sequence[Hashable] | None,
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
