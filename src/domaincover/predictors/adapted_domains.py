"""What domains' own unlabelled rows gave them: thresholds, their shifts, p-values, and which domains are unusual."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import texts
from domaincover.terminal.text import cut

MOST_UNUSUAL = 5  # named in a warning
LONGEST_NAME = 60


class AdaptedDomains(NamedTuple):
    """Adapted and fixed thresholds, and the p-value of each domain."""

    thresholds: NDArray[np.float64]  # domains × labels
    p_values: NDArray[np.float64]  # domains; NaN for one with too few rows
    fixed: NDArray[np.float64]  # labels
    level: float  # domains with a p-value up to this are unusual

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Which domains have thresholds of their own: with few rows, or rows that say little, they are the fixed."""
        return np.asarray((self.thresholds != self.fixed).any(axis=1))

    @property
    def shift(self) -> NDArray[np.float64]:
        """Adapted less fixed thresholds, domains × labels; NaN for a label that is in every set."""
        with np.errstate(invalid="ignore"):
            found = self.thresholds - self.fixed
        return np.where(np.isfinite(found), found, np.nan)

    @property
    def mean_shift(self) -> NDArray[np.float64]:
        """The mean shift over the labels of each domain."""
        known = np.isfinite(self.shift)
        return np.nansum(self.shift, axis=1) / np.maximum(known.sum(axis=1), 1)

    def subset(self, rows: Any) -> AdaptedDomains:
        """Return the given domains in the given order."""
        return self._replace(thresholds=self.thresholds[rows], p_values=self.p_values[rows])

    def records(self, label_names: Sequence[Hashable]) -> list[dict[str, Any]]:
        """Return one record per domain for strict JSON."""
        labels = texts(label_names)
        shifts = self.shift.astype(object)
        shifts[np.isnan(self.shift)] = None
        return [
            {
                "p_value": None if np.isnan(p_value) else float(p_value),
                "threshold_shift": float(mean),
                "threshold_shift_by_label": dict(zip(labels, row.tolist(), strict=True)),
            }
            for p_value, mean, row in zip(self.p_values, self.mean_shift, shifts, strict=True)
        ]


def unusual_domains(names: Sequence[Hashable], p_values: NDArray[np.float64], level: float) -> str | None:
    """Return a warning with the domains least like the calibration domains; None if there are none.

    >>> unusual_domains(["a", "b", "c"], np.array([0.5, 0.01, 0.05]), 0.05)
    '2 of 3 domains are unlike those that calibrated (p ≤ 0.05; 5 % are so by chance): b (p = 0.01), c (p = 0.05). \
The promise may not hold there.'
    """
    unusual = np.flatnonzero(p_values <= level)
    if len(unusual) == 0:
        return None
    lowest = unusual[np.argsort(p_values[unusual], kind="stable")][:MOST_UNUSUAL]
    shown = texts([names[row] for row in lowest])
    named = [f"{cut(name, LONGEST_NAME)} (p = {p_values[row]:.2g})" for name, row in zip(shown, lowest, strict=True)]
    more = f", … and {len(unusual) - len(lowest)} more" if len(unusual) > len(lowest) else ""
    verb = "domain is" if len(names) == 1 else "domains is" if len(unusual) == 1 else "domains are"
    return (
        f"{len(unusual)} of {len(names)} {verb} unlike those that calibrated (p ≤ {level:.2g}; {100 * level:.0f} % are "
        f"so by chance): {', '.join(named)}{more}. The promise may not hold there."
    )
