"""All labels at once: how far a whole family of thresholds has to be lowered for a new domain.

A family turns one number, the level, into a threshold for each label, none of which falls as the level rises. A
domain allows the levels up to the one at which its first label drops below the target. That is one number per domain,
so its order statistic promises that EVERY label of a new domain is at target: the paper's own criterion. The promise
needs a family that was fixed before the calibration domains were looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.calibration.cells import Thresholds, own_scores, thresholds_of_cells
from domaincover.calibration.confidence import OnInfeasible, check_feasible, order_ranks
from domaincover.errors import InputError


class Family(Protocol):
    """Thresholds, one per label, that rise together with one number."""

    def levels(self, thresholds: NDArray[Any]) -> NDArray[np.float64]:
        """Return for thresholds (…, labels) the highest level at which each label's is no higher."""
        ...

    def thresholds(self, levels: NDArray[np.float64]) -> Thresholds:
        """Return (…levels, labels): thresholds that every score whose own level is as high reaches."""
        ...


@dataclass(frozen=True, eq=False)
class Shift:
    """A label's threshold is base + level · scale; by default one shift for all labels, from 0."""

    base: ArrayLike = 0.0
    scale: ArrayLike = 1.0

    def levels(self, thresholds: NDArray[Any]) -> NDArray[np.float64]:
        """Return how far each threshold is above its base, in units of the scale."""
        return (np.asarray(thresholds, dtype=float) - self.base) / self.scale

    def thresholds(self, levels: NDArray[np.float64]) -> Thresholds:
        """Return base + level · scale, lower by what rounding may have added."""
        base, shift = np.asarray(self.base, dtype=float), np.asarray(levels, dtype=float)[..., None] * self.scale
        slack = 4 * np.finfo(float).eps * (np.abs(base) + np.abs(shift))
        return np.where(np.isfinite(shift), base + shift - np.where(base == 0, 0.0, slack), shift)
