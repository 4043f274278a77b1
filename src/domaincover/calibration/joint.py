"""All labels at once: one threshold for every label of a new domain.

The scores of all labels are lowered together. A domain allows thresholds up to the one at which its first label drops
below the target: one number per domain, whose order statistic promises that EVERY label of a new domain is at target,
the paper's own criterion. How scores of different labels compare decides how small the sets are; `scales` has ways to
make them comparable, which must be fixed before the calibration domains are looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.calibration.cell_thresholds import Thresholds, own_scores, thresholds_of_cells
from domaincover.calibration.confidence import check_feasible, order_ranks
from domaincover.options import OnInfeasible


def joint_thresholds(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    target_recall: ArrayLike,
    domain_confidence: ArrayLike,
    min_cell_size: int = 1,
    label_names: Sequence[Hashable] | None = None,
    on_infeasible: OnInfeasible = "raise",
) -> Thresholds:
    """Return the threshold, the same for all labels, that holds every label of a new domain at target.

    Each of m calibration domains allows a threshold: the lowest of its cells'. The result is the
    ⌊(1 − confidence)(m + 1)⌋-th lowest of these. With calibration domains that did not train, min recall of a new
    domain is at target with at least this confidence. Cells with fewer than `min_cell_size` examples count neither in
    calibration nor in the new domain. A label in too few domains for the confidence raises an error or is put into
    every set. Several target recalls or confidences give an array (…target recalls, …confidences, labels) from one
    sort.
    """
    own = own_scores(scores, labels, domains, target_recall, min_cell_size)
    widened = check_feasible(own.n_by_cell, domain_confidence, "domain confidence", label_names, on_infeasible)
    by_cell = thresholds_of_cells(own, target_recall)
    confidences = np.asarray(domain_confidence, dtype=float)
    by_confidence = np.expand_dims(by_cell, tuple(range(-2 - confidences.ndim, -2)))  # (…targets, 1, domains, labels)
    allowed = np.where(widened[..., None, :], np.inf, by_confidence).min(axis=-1)
    counts = (own.n_by_cell > 0) & ~widened[..., None, :]
    ranks = order_ranks(np.count_nonzero(counts.any(axis=-1), axis=-1), confidences)
    picks = np.broadcast_to(np.maximum(ranks - 1, 0), allowed.shape[:-1])
    threshold = np.take_along_axis(np.sort(allowed, axis=-1), picks[..., None], axis=-1)
    return np.where(widened, -np.inf, threshold)
