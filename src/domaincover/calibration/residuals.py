"""What a calibration domain allows, as one number, and which of these numbers a promise takes.

Every domain has base thresholds, one per label, made without its labels. Its residual says by how much all of them may
be raised together until its first label drops below the target; negative where they have to be lowered. A new domain's
residual is equally likely to take any place among those of the calibration domains, so an order statistic of theirs
promises that EVERY label of a new domain is at target, the paper's own criterion.

That promise is over domains: a label that few of them have could miss wherever it occurs. So each label is held by the
order statistic of its own cells, too, which promises its recall in a new domain that has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.prediction_sets import hits_needed


def domain_residuals(by_cell: NDArray[np.float64], base: ArrayLike, promised: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return min over the promised labels of (cell threshold − base threshold), (…, domains).

    +∞ for a domain in which no cell counts: it allows anything.
    """
    return np.where(promised, by_cell - np.asarray(base), np.inf).min(axis=-1, initial=np.inf)


def n_counting(residuals: NDArray[np.float64]) -> float:
    """Return how many domains of (draws, domains) count, on average over draws."""
    return float(np.count_nonzero(residuals < np.inf) / len(residuals))


def order_statistic(
    residuals: NDArray[np.float64], n_domains: Any, domain_confidence: ArrayLike
) -> NDArray[np.float64]:
    """Return the largest offset that a new domain's residual is not below with at least this confidence.

    `residuals` is (…, draws, domains), +∞ for those that do not count, and `n_domains` is how many domains do, on
    average over draws. A draw that does not count says nothing about one that does, so it has no weight. With one draw
    this is the ⌊(1 − confidence)(m + 1)⌋-th lowest. With several draws of rows from each domain, each domain shares its
    weight among its draws and the new domain counts as one more at −∞ (hierarchical conformal prediction: Lee, Barber
    and Willett), so that the promise stays exact while the offset depends less on chance. −∞ where the confidence takes
    more domains.
    """
    n_draws = residuals.shape[-2]
    weight = np.rint(n_draws * (np.asarray(n_domains) + 1)).astype(np.int64)
    n_below = weight - hits_needed(weight, domain_confidence) - n_draws
    ordered = np.sort(residuals.reshape(*residuals.shape[:-2], -1), axis=-1)
    picks = np.broadcast_to(np.maximum(n_below, 0), ordered.shape[:-1])
    picked = np.take_along_axis(ordered, picks[..., None], axis=-1)[..., 0]
    return np.where(n_below < 0, -np.inf, picked)


def label_offsets(
    by_cell: NDArray[np.float64], counts: NDArray[np.bool_], domain_confidence: ArrayLike
) -> NDArray[np.float64]:
    """Return the largest offset of each label that its own cells allow with this confidence, (…, labels).

    `by_cell` is (…, draws, domains, labels), and `counts` says which cells count. A label in too few domains for the
    confidence is held by all of its cells: r of them promise it with confidence r / (r + 1). +∞ for a label with none.
    """
    cells = np.where(counts, by_cell, np.inf)
    n_domains = np.count_nonzero(counts, axis=(-3, -2)) / counts.shape[-3]
    found = order_statistic(np.moveaxis(cells, -1, -3), n_domains, np.asarray(domain_confidence)[..., None])
    return np.where(np.isneginf(found), cells.min(axis=(-3, -2), initial=np.inf), found)
