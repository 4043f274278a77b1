"""Scales that make scores of different labels comparable: a base and a unit for each label.

For a calibration domain they come from the other domains. The choice with the smallest sets was measured
(docs/experiment-log.md); the promise of a rule holds for any.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Scale(NamedTuple):
    """A label's score becomes (score − base) / unit."""

    base: NDArray[np.float64]
    unit: NDArray[np.float64]


def as_they_are(n_labels: int) -> Scale:
    """Return the identity scale."""
    return Scale(np.zeros(n_labels), np.ones(n_labels))


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
