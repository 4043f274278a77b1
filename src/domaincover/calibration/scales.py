"""What makes the scores of different labels, and of several scorers, comparable: a base and a unit for each label.

Fixed by the rows that a scorer was trained on, never by calibration domains. Which choice gives the smallest sets was
measured (docs/experiment-log.md); the promise of a rule holds for any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.prediction_sets import hits_needed


class Scale(NamedTuple):
    """A label's score becomes (score − base) / unit."""

    base: NDArray[np.float64]
    unit: NDArray[np.float64]

    def for_all_labels(self) -> Scale:
        """Return one base and one unit for all labels, the means: scores of a label compare as they are."""
        return Scale(*(np.full(len(values), values.mean()) for values in self))


def as_they_are(n_labels: int) -> Scale:
    """Return the scale that changes nothing."""
    return Scale(np.zeros(n_labels), np.ones(n_labels))


def quantile_scale(scores: NDArray[Any], labels: NDArray[np.int64], target_recall: float) -> Scale:
    """Return the scale on which every label's training recall is at target at 0, and misses a fifth as many at −1.

    A label without training rows, or whose scores are all alike, gets the widest unit of the others.
    """
    n_labels = scores.shape[1]
    order = np.lexsort((scores[np.arange(len(labels)), labels], labels))
    ranked = scores[order, labels[order]].astype(float)
    n_of_label = np.bincount(labels, minlength=n_labels)
    ends = np.cumsum(n_of_label)
    recalls = np.array([target_recall, 1 - (1 - target_recall) / 5])
    picks = np.minimum(ends - hits_needed(n_of_label, recalls[:, None]), len(ranked) - 1)
    base, below = np.where(n_of_label > 0, ranked[picks], 0.0)
    with np.errstate(invalid="ignore"):  # a label that the scorer does not know has −∞
        unit = base - below
    usable = np.isfinite(unit) & (unit > 0)
    widest = unit[usable].max(initial=0.0) or 1.0
    return Scale(np.where(np.isfinite(base), base, 0.0), np.where(usable, unit, widest))
