"""How far to follow what the rows of a domain say: the numbers in its base thresholds, fitted to batches of domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.cell_thresholds import Thresholds
from domaincover.calibration.confidence import highest_confidence
from domaincover.calibration.residuals import domain_residuals, n_counting, order_statistic
from domaincover.calibration.slopes import shrunken_slope

NUMBERS_OF_SIZE = 10**7  # draws × rows × labels that set sizes are counted on


class Draw(NamedTuple):
    """One batch of every domain: what it says without labels, what its labels add, and what they ask for."""

    evidence: Thresholds  # domains × labels
    shifts: NDArray[np.float64]  # levels × domains × labels
    asked: Thresholds  # domains × labels


class BaseThresholds(NamedTuple):
    """The numbers of base thresholds.

    The level of a label lies one standard deviation below the mean of what cells ask for beyond the evidence: a label
    that differs much between domains starts lower, so that it does not decide alone on the offset of all labels.
    """

    level: NDArray[np.float64]  # labels
    centre: NDArray[np.float64]  # labels
    highest: NDArray[np.float64]  # labels
    slope: float
    label_slope: float

    def bases(self, draws: Sequence[Draw]) -> NDArray[np.float64]:
        """Return the base thresholds of every batch, levels × draws × domains × labels."""
        moved = np.stack([deviation(each.evidence, self.centre, self.highest) for each in draws])
        shifts = np.stack([each.shifts for each in draws], axis=1)
        return self.level + self.slope * moved + self.label_slope * shifts


def deviation(evidence: Thresholds, centre: NDArray[np.float64], highest: NDArray[np.float64]) -> Thresholds:
    """Return by how much evidence lies off its centre: 0 where there is none.

    A strange domain may look easy. Its evidence counts as no higher than the highest met before, so that thresholds
    are raised no further than in any domain that was calibrated.
    """
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(evidence), np.minimum(evidence, highest) - centre, 0.0)


def fit_base(draws: Sequence[Draw]) -> BaseThresholds:
    """Fit the numbers to what the cells of these domains ask for, those that count."""
    asked = np.stack([each.asked for each in draws])
    evidence = np.stack([each.evidence for each in draws])
    counts = np.isfinite(asked)
    seen = np.where(counts & np.isfinite(evidence), evidence, np.nan)
    centre, _ = label_moments(seen)
    highest = np.where(np.isnan(seen), -np.inf, seen).max(axis=(0, 1), initial=-np.inf)
    highest = np.where(np.isfinite(highest), highest, np.inf)
    known = np.where(counts, deviation(evidence, centre, highest), 0.0)
    slope = shrunken_slope(known, np.where(counts, asked - label_moments(asked)[0], 0.0))
    mean, spread = label_moments(np.where(counts, asked - slope * known, np.nan))
    return fit_label_slope(draws, BaseThresholds(mean - spread, centre, highest, slope, 0.0))


def fit_label_slope(draws: Sequence[Draw], base: BaseThresholds) -> BaseThresholds:
    """Return the base with the slope of what is left on what labelled rows say."""
    asked = np.stack([each.asked for each in draws])
    counts = np.isfinite(asked)
    left = np.where(counts, asked - base._replace(label_slope=0.0).bases(draws)[0], np.nan)
    left = np.where(counts, left - label_moments(left)[0], 0.0)
    shifts = np.stack([each.shifts for each in draws], axis=1)[1:] * counts
    by_level = shifts.reshape(-1, *left.shape[1:])
    return base._replace(label_slope=shrunken_slope(by_level, np.tile(left, (len(shifts), 1, 1))))


def mean_set_size(
    scores: NDArray[Any],
    domains: NDArray[np.int64],
    draws: Sequence[Draw],
    base: BaseThresholds,
    promised: NDArray[np.bool_],
    domain_confidence: float,
) -> float:
    """Return the mean number of promised labels in the sets of the domains that the base was fitted to, over draws."""
    bases = base.bases(draws)[0]
    allowed = domain_residuals(np.stack([each.asked for each in draws]), bases, promised)
    n_domains = n_counting(allowed)
    confidence = min(domain_confidence, highest_confidence(max(n_domains, 1)))
    thresholds = bases + order_statistic(allowed, n_domains, confidence)
    few = thresholds[: max(1, NUMBERS_OF_SIZE // max(scores.size, 1))]
    return float(
        np.mean([np.count_nonzero(~(scores < each[domains]) & promised) for each in few]) / max(len(scores), 1)
    )


def label_moments(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of a label's finite values, draws × domains × labels; 0 where it has none."""
    finite = np.isfinite(values)
    count = np.maximum(finite.sum(axis=(0, 1)), 1)
    mean = np.where(finite, values, 0.0).sum(axis=(0, 1)) / count
    with np.errstate(invalid="ignore"):
        squares = np.where(finite, (values - mean) ** 2, 0.0).sum(axis=(0, 1))
    return mean, np.sqrt(squares / count)
