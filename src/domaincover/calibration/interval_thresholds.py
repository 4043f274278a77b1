"""Intervals for a number: scores, thresholds by domain, and what a few known values of a domain correct.

An interval is centre ± (half + reach · scale). A row's score is (half − |y − centre|) / scale, so that its value lies
inside where the score is −reach or more: one score and one threshold, and every rule for sets holds for intervals.

With k known values of a domain, the centre moves by scale · (b + w · φ), with b ~ N(0, `bias`²) and w ~ N(0, `slope`²)
in units of the noise, the posterior mean of a ridge regression; and the scale is multiplied by the mean size of the
residuals that are left, drawn towards its usual value as if `weight` rows of that size had been seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import order_statistic
from domaincover.criteria import hits_needed
from domaincover.terminal.processes import one_blas_thread

BIASES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
SLOPES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
WEIGHTS = (3.0, 10.0, 30.0, 100.0, np.inf)
SMALLEST_GAIN = 0.01
Numbers = NDArray[np.float64]


class Prior(NamedTuple):
    """How much the centres and scales of domains differ, in units of the noise; `size` is a residual's usual size."""

    bias: float
    slope: float
    weight: float
    size: float


class Shift(NamedTuple):
    """What known values of a domain teach: centres move by scale · (bias + φ · slope), scales by a factor."""

    bias: Numbers  # (…)
    slope: Numbers  # (…, features)
    factor: Numbers  # (…)

    def of(self, features: NDArray[Any]) -> Numbers:
        """Return by how many scales the centre of each row moves, (…, rows)."""
        with one_blas_thread():
            return self.bias[..., None] + (features @ self.slope[..., None])[..., 0]


class Rows(NamedTuple):
    """Values and what was predicted for them: centre, half width and scale, with features and domain codes."""

    values: Numbers
    centre: Numbers
    half: Numbers
    scale: Numbers
    features: Numbers
    domains: NDArray[np.int64]

    def of(self, domains: NDArray[np.bool_]) -> Rows:
        """Return the rows of some domains, numbered from 0."""
        kept = domains[self.domains]
        own = self._replace(**{name: part[kept] for name, part in self._asdict().items()})
        return own._replace(domains=(np.cumsum(domains) - 1)[own.domains])

    @property
    def residuals(self) -> Numbers:
        """Return by how many scales each value is above the centre."""
        return (self.values - self.centre) / self.scale


def rows_needed(n_rows: NDArray[np.int64], target: float, error: float | None) -> NDArray[np.int64]:
    """Return how many of a domain's rows a threshold has to cover.

    Without `error`, so many that the counted coverage is at target. With it, so many that fewer than the target are
    truly covered with probability `error` at most; more than there are, where so few rows cannot show it.
    """
    if error is None:
        return hits_needed(n_rows, target)
    from scipy.stats import binom

    # the smallest j with P(Binomial(n, target) ≥ j) ≤ error
    return np.asarray(binom.isf(error, n_rows, target), dtype=np.int64) + 1


def domain_thresholds(scores: Numbers, is_real: NDArray[np.bool_], target: float, error: float | None) -> Numbers:
    """Return the largest threshold that covers enough of the rows along the last axis; −∞ where none does."""
    n_rows = is_real.sum(axis=-1)
    needed = rows_needed(n_rows, target, error)
    falling = -np.sort(np.where(is_real, -scores, np.inf), axis=-1)
    picked = np.take_along_axis(falling, np.clip(needed - 1, 0, falling.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    return np.where(needed <= n_rows, picked, -np.inf)


def reach_of(thresholds: Numbers, confidence: float) -> float:
    """Return the reach that holds a new domain with this confidence, from thresholds (draws × domains)."""
    return -float(order_statistic(thresholds, thresholds.shape[-1], confidence))


class KnownDraw(NamedTuple):
    """Rows of every domain, domains × width, of which the first are known and the others counted."""

    rows: NDArray[np.int64]
    is_known: NDArray[np.bool_]
    is_counted: NDArray[np.bool_]


def draws_of(domains: NDArray[np.int64], n_known: int, n_draws: int, rng: np.random.Generator) -> Iterator[KnownDraw]:
    """Draw `n_known` random rows of every domain to be known; all others count."""
    n_rows = np.bincount(domains)
    starts, place = np.cumsum(n_rows) - n_rows, np.arange(n_rows.max())
    is_real = place < n_rows[:, None]
    for _ in range(n_draws):
        order = np.lexsort([rng.random(len(domains)), domains])
        rows = order[starts[:, None] + np.where(is_real, place, 0)]
        yield KnownDraw(rows, is_real & (place < n_known), is_real & (place >= n_known))


def learn_shift(residuals: Numbers, features: Numbers, is_known: NDArray[np.bool_], prior: Prior) -> Shift:
    """Learn the shifts of a stack of domains: residuals and which are known (domains × rows), with their features."""
    design = np.concatenate([np.full((*residuals.shape, 1), prior.bias), prior.slope * features], axis=-1)
    design *= is_known[..., None]
    across = np.swapaxes(design, -1, -2)
    with one_blas_thread():
        gram = across @ design + np.eye(design.shape[-1])
        known = np.where(is_known, residuals, 0.0) / prior.size
        weights = np.linalg.solve(gram, (across @ known[..., None]))[..., 0]
        left = known - (design @ weights[..., None])[..., 0]
        leverage = np.einsum("...rf,...fr->...r", design, np.linalg.solve(gram, across))
    left = np.where(is_known, np.abs(left) / np.sqrt(np.maximum(1 - leverage, 1e-9)), 0.0)
    seen = is_known.sum(axis=-1)
    heavy = np.isinf(prior.weight)
    factor = np.ones(len(seen)) if heavy else (prior.weight + left.sum(axis=-1)) / (prior.weight + seen)
    return Shift(prior.size * prior.bias * weights[..., 0], prior.size * prior.slope * weights[..., 1:], factor)


def fit_prior(rows: Rows, draw: KnownDraw) -> Prior:
    """Choose how far known values move centres and scales, by the likelihood of the other rows (Laplace's density)."""
    residuals, features = rows.residuals[draw.rows], rows.features[draw.rows]
    size = max(float(np.abs(rows.residuals).mean()), np.finfo(float).tiny)
    best, prior = np.inf, Prior(0.0, 0.0, np.inf, size)
    for bias in BIASES:
        for slope in SLOPES if features.shape[-1] else (0.0,):
            for weight in WEIGHTS:
                tried = Prior(bias, slope, weight, size)
                loss = _loss(residuals, features, draw, tried)
                if loss < best - 1e-12:
                    best, prior = loss, tried
    return prior


def _loss(residuals: Numbers, features: Numbers, draw: KnownDraw, prior: Prior) -> float:
    shift = learn_shift(residuals, features, draw.is_known, prior)
    spread = prior.size * shift.factor[:, None]
    loss = np.log(spread) + np.abs(residuals - shift.of(features)) / spread
    n_counted = np.maximum(draw.is_counted.sum(axis=1), 1)
    return float(np.mean(np.where(draw.is_counted, loss, 0.0).sum(axis=1) / n_counted))


class KnownLevel(NamedTuple):
    """What is calibrated for one number of known values."""

    prior: Prior
    reach: float
    width: float  # mean over domains of the mean width of intervals of rows that are not known
    share_at_target: float  # of domains treated as new, with the reach of the others


def fit_level(
    rows: Rows,
    n_known: int,
    target: float,
    confidence: float,
    error: float | None,
    n_draws: int,
    rng: np.random.Generator,
) -> KnownLevel | None:
    """Calibrate for so many known values of a domain, with every calibration domain treated as a new one.

    None where known values make intervals less than 1 % narrower than without them, on the same rows.
    """
    draws = list(draws_of(rows.domains, n_known, n_draws if n_known else 1, rng))
    size = max(float(np.abs(rows.residuals).mean()), np.finfo(float).tiny)
    unmoved = Prior(0.0, 0.0, np.inf, size)
    level = _calibrated(rows, draws, unmoved, target, confidence, error)
    if n_known == 0:
        return level
    learned = _calibrated(rows, draws, fit_prior(rows, draws[0]), target, confidence, error)
    return learned if learned.width < (1 - SMALLEST_GAIN) * level.width else None


def _calibrated(
    rows: Rows, draws: Sequence[KnownDraw], prior: Prior, target: float, confidence: float, error: float | None
) -> KnownLevel:
    thresholds, factors = [], []
    for draw in draws:
        residuals, features = rows.residuals[draw.rows], rows.features[draw.rows]
        shift = learn_shift(residuals, features, draw.is_known, prior)
        moved = np.abs(residuals - shift.of(features))
        scores = (rows.half[draw.rows] / rows.scale[draw.rows] - moved) / shift.factor[:, None]
        thresholds.append(domain_thresholds(scores, draw.is_counted, target, error))
        factors.append(shift.factor)
    found = np.stack(thresholds)
    reach = reach_of(found, confidence)
    width = 2 * np.mean([_means(rows.half + reach * rows.scale * f[rows.domains], rows.domains) for f in factors])
    return KnownLevel(prior, reach, float(width), _share_left_out(found, confidence))


def _means(values: Numbers, domains: NDArray[np.int64]) -> Numbers:
    return np.asarray(np.bincount(domains, values) / np.bincount(domains))


def _share_left_out(thresholds: Numbers, confidence: float) -> float:
    """Return the share of domains that the reach of the others covers."""
    n_domains = thresholds.shape[-1]
    reaches = [reach_of(np.delete(thresholds, e, axis=1), confidence) for e in range(n_domains)]
    return float(np.mean(thresholds >= -np.array(reaches)))
