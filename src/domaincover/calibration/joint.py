"""Thresholds that hold all labels of any new domain: what `adaptation` comes down to where nothing is known of it.

Base thresholds are the same in every domain, so a domain's residual is the lowest of its cells' thresholds. How scores
of different labels compare decides how small the sets are, so each label is compared in a unit of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.calibration.adaptation import rounded_down
from domaincover.calibration.cell_thresholds import Thresholds, own_scores, thresholds_at
from domaincover.calibration.confidence import check_feasible
from domaincover.calibration.rare_labels import pooled_row_thresholds
from domaincover.calibration.residuals import domain_residuals, label_offsets, order_statistic
from domaincover.calibration.scales import as_they_are, scales_of_others
from domaincover.criteria import Criterion, names_of_groups, targets_by_group, thresholds_by_label
from domaincover.options import OnRareLabel


def joint_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: ArrayLike | Criterion,
    domain_confidence: ArrayLike,
    min_cell_size: int = 1,
    label_names: Sequence[Hashable] | None = None,
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
    every set ("widen"), or gets the largest statement that can be made about it alone ("pool", see `rare_labels`).
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
    base, unit = scales_of_others(by_cell, lower) if in_units else as_they_are(own.n_labels)
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
