"""What domains' own unlabelled rows gave them: thresholds, their shifts, p-values, and which domains are unusual."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import texts
from domaincover.prediction_sets import Sets
from domaincover.terminal.text import cut

if TYPE_CHECKING:
    from domaincover.predictors.calibrated_predictors import Scored
    from domaincover.predictors.promised_predictor import PromisedPredictor

MOST_UNUSUAL = 5  # named in a warning
LONGEST_NAME = 60
HALF = 0.5  # of the rows are offered for labels


def sets_with_labels(
    model: PromisedPredictor, rows: Scored, labels: NDArray[np.int64], domains: NDArray[np.int64], n_labels: int
) -> tuple[Sets, NDArray[np.int64]]:
    """Return sets by models that have learned from labels of each domain, and the rows that these are of.

    Half of a domain's rows are offered for labels, at random; the sets are those of the others, in domains with rows
    enough. Rows have their features, and labels and domains are codes.
    """
    half = np.random.default_rng(0).random(len(labels)) < HALF  # the same rows for any number of labels
    sets, later = [np.empty((0, len(model.classes_)), dtype=bool)], [np.empty(0, np.int64)]
    for domain in np.unique(domains):  # each is a model of its own
        pool, others = (np.flatnonzero((domains == domain) & part) for part in (half, ~half))
        if len(pool) < n_labels or not len(others):
            continue
        given = np.full(len(pool), None, dtype=object)
        if n_labels:
            chosen = model.choose_rows(rows.of(pool), n_labels)
            given[chosen] = model.classes_[labels[pool][chosen]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # labels of one kind alone, or too few, teach nothing
            adapted = model.adapt(rows.of(pool), given)
        sets.append(adapted.corrected_scores(rows.of(others)) >= adapted.thresholds_)
        later.append(others)
    return np.concatenate(sets), np.concatenate(later)


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
