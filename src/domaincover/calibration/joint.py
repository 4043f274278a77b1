"""One threshold for all labels of any new domain: what `adaptation` comes down to where nothing is known of a domain.

Base thresholds are 0 in every domain, so a domain's residual is the lowest of its cells' thresholds. How scores of
different labels compare decides how small the sets are; `scales` has ways to make them comparable, which must be fixed
before the calibration domains are looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.calibration.cell_thresholds import Thresholds, own_scores, thresholds_of_cells
from domaincover.calibration.confidence import check_feasible
from domaincover.calibration.rare_labels import pooled_row_thresholds
from domaincover.calibration.residuals import domain_residuals, order_statistic
from domaincover.criteria import Criterion, names_of_groups, thresholds_by_label
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
) -> Thresholds:
    """Return the threshold, the same for all labels, that holds every label of a new domain at target.

    Each of m calibration domains allows a threshold: the lowest of its cells'. The result is the
    ⌊(1 − confidence)(m + 1)⌋-th lowest of these. With calibration domains that did not train, min recall of a new
    domain is at target with at least this confidence. Cells with fewer than `min_cell_size` examples count neither in
    calibration nor in the new domain. A label in too few domains for the confidence raises an error, is put into every
    set ("widen"), or gets the largest statement that can be made about it alone ("pool", see `rare_labels`). Several
    target recalls or confidences give an array (…target recalls, …confidences, labels) from one sort.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    names = names_of_groups(label_names, target_recall)
    widened = check_feasible(own.n_by_cell, domain_confidence, "domain confidence", names, on_infeasible, can_pool=True)
    by_cell = thresholds_of_cells(own, target_recall)
    confidences = np.asarray(domain_confidence, dtype=float)
    by_confidence = np.expand_dims(by_cell, tuple(range(-2 - confidences.ndim, -2)))  # (…targets, 1, domains, labels)
    promised = ~widened[..., None, :]
    n_domains = np.count_nonzero(((own.n_by_cell > 0) & promised).any(axis=-1), axis=-1)
    allowed = domain_residuals(by_confidence, 0.0, promised)
    threshold = order_statistic(allowed[..., None, :], n_domains, confidences)
    if on_infeasible != "pool":
        return thresholds_by_label(np.where(widened, -np.inf, threshold[..., None]), scores, labels, target_recall)
    rows = own_scores(scores, labels, domains, target_recall, 1)  # rows of small cells count
    rare = pooled_row_thresholds(rows.scores, rows.labels, rows.n_labels, target_recall)
    rare = np.minimum(np.expand_dims(rare, tuple(range(-1 - confidences.ndim, -1))), by_confidence.min(axis=-2))
    # where no label can be promised, there is no number that the others share
    together = np.where(widened.all(axis=-1), np.inf, threshold)[..., None]
    found = np.where(widened, np.minimum(together, rare), together)
    return thresholds_by_label(found, scores, labels, target_recall)
