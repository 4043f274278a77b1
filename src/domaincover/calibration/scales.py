"""Scales that make scores of different labels and scorers comparable: a base and a unit for each label.

They come from a scorer's training rows or, for a calibration domain, from the other domains. The choice with the
smallest sets was measured (docs/experiment-log.md); the promise of a rule holds for any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import Criterion
from domaincover.prediction_sets import hits_needed


class Scale(NamedTuple):
    """A label's score becomes (score − base) / unit."""

    base: NDArray[np.float64]
    unit: NDArray[np.float64]

    def for_all_labels(self) -> Scale:
        """Return the mean base and unit for all labels, so that labels are not rescaled against each other."""
        return Scale(*(np.full(len(values), values.mean()) for values in self))


def as_they_are(n_labels: int) -> Scale:
    """Return the identity scale."""
    return Scale(np.zeros(n_labels), np.ones(n_labels))


def quantile_scale(scores: NDArray[Any], labels: NDArray[np.int64], target_recall: float | Criterion) -> Scale:
    """Return the scale on which every label's training recall is at target at 0, and misses a fifth as many at −1.

    A label without training rows, or with constant scores, gets the widest unit of the others; a label without a target
    takes the lowest of the others.
    """
    n_labels = scores.shape[1]
    order = np.lexsort((scores[np.arange(len(labels)), labels], labels))
    ranked = scores[order, labels[order]].astype(float)
    n_of_label = np.bincount(labels, minlength=n_labels)
    ends = np.cumsum(n_of_label)
    targets: Any = target_recall
    if isinstance(target_recall, Criterion):
        targets = np.nan_to_num(target_recall.targets, nan=float(np.nanmin(target_recall.targets)))
    recalls = np.array([targets, 1 - (1 - targets) / 5]).reshape(2, -1)
    picks = np.minimum(ends - hits_needed(n_of_label, recalls), len(ranked) - 1)
    base, below = np.where(n_of_label > 0, ranked[picks], 0.0)
    with np.errstate(invalid="ignore"):  # −∞ for a label unknown to the scorer
        unit = base - below
    usable = np.isfinite(unit) & (unit > 0)
    widest = unit[usable].max(initial=0.0) or 1.0
    return Scale(np.where(np.isfinite(base), base, 0.0), np.where(usable, unit, widest))


def scales_of_others(by_cell: NDArray[np.float64], lower: NDArray[np.float64]) -> Scale:
    """Return for each domain the scale that the others give, both (…, domains, labels).

    Base is their mean cell threshold, and unit the mean distance from there to a `lower` threshold of the same cell. A
    label without a unit of its own gets the widest of the others.
    """
    with np.errstate(invalid="ignore"):
        base, unit = _mean_of_others(by_cell), _mean_of_others(by_cell - lower)
    usable = unit > 0
    widest = np.where(usable, unit, 0.0).max(axis=-1, keepdims=True, initial=0.0)
    return Scale(base, np.where(usable, unit, np.where(widest > 0, widest, 1.0)))


def _mean_of_others(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each domain the mean of the other domains' finite values, 0 where they have none."""
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    count = finite.sum(axis=-2, keepdims=True) - finite
    return np.where(count > 0, (known.sum(axis=-2, keepdims=True) - known) / np.maximum(count, 1), 0.0)
