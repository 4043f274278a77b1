"""Calibrate what a few labels of a new domain are worth: calibration domains are treated as the new one will be.

Half of a domain's rows are the pool that labels are offered for, at most `MOST_POOL`; the others come later. For each
level, so many rows of the pool are chosen and labelled, the correction is learned from them, all rows of the pool set
the thresholds with corrected probabilities, and recall is counted on the later rows. From there on it is the mechanism
of `calibration.adaptation`.

The prior scale of a level is the one with the lowest log-loss on the later rows of the domains that the base comes
from. A level whose sets are not smaller there than those with fewer labels is left out, and so is one that leaves too
few domains or rows to count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import AdaptiveThresholds, offset_of
from domaincover.calibration.adaptation_fit import (
    BATCH_SIZES,
    SMALLEST_GAIN,
    Batches,
    Draw,
    Entry,
    Promise,
    ScoredRows,
    entry_sizes,
    fit_entries,
    median_rows,
    number_of_draws,
    random_ranks,
    stacked,
)
from domaincover.calibration.confidence import highest_confidence
from domaincover.calibration.few_labels import Correction, learn_correction, log_probabilities, rows_to_label
from domaincover.calibration.links import log_odds
from domaincover.calibration.self_calibration import RowsOfDomains
from domaincover.options import LabelRows
from domaincover.prediction_sets import MISSING_LABEL

PRIOR_SCALES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
MOST_POOL = 500
MOST_DOMAINS = 200
MOST_TAUGHT_DRAWS = 4
FEWEST_UNLABELLED = 0.1  # quantile over calibration domains of the share of a pool that has no label


class Level(NamedTuple):
    """What a number of labels gives: the prior scale of the correction, and the thresholds after it."""

    prior_scale: float | None  # None for no correction
    unlabelled: float  # share of the rows that set thresholds which has no label, at least
    thresholds: AdaptiveThresholds

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Level:
        """Return what `as_dict` has written."""
        return cls(kept["prior_scale"], kept["unlabelled"], AdaptiveThresholds(**kept["thresholds"]))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return self._asdict() | {"thresholds": self.thresholds._asdict()}

    def n_evidence(self, n_rows: NDArray[np.int64], n_labels: Any) -> NDArray[np.int64]:
        """Return how many rows count as evidence: none where more of them are labelled, and fitted, than calibrated."""
        return np.where(n_rows - n_labels >= self.unlabelled * n_rows, n_rows, 0)


class FewLabels(NamedTuple):
    """What several numbers of labels give, and from how many rows of a domain those to label are chosen.

    `gain` has the mean set size and the share at target of the calibration domains, each as new.
    """

    by_number: dict[int, Level]
    n_pool: int
    gain: dict[str, list[float]]


class TaughtRows(NamedTuple):
    """Rows of domains, with their standardised features."""

    rows: ScoredRows
    features: NDArray[np.float64]


class Lesson(NamedTuple):
    """One draw of the pool of every domain: the rows in the order of labelling, and which rows come later."""

    order: NDArray[np.int64]  # domains × most labels; −1 for none
    pool: NDArray[np.bool_]
    pool_sizes: NDArray[np.int64]


def sampled_rows(rows: ScoredRows, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the rows that calibrate few labels: at most so many domains, and rows of each."""
    chosen = rng.permutation(np.unique(rows.domains))[:MOST_DOMAINS]
    place = random_ranks(rows.domains, rng)
    return np.flatnonzero(np.isin(rows.domains, chosen) & (place < 2 * MOST_POOL))


def fit_few_labels(
    promise: Promise,
    calibration: TaughtRows,
    training: TaughtRows | None,
    levels: Sequence[int],
    label_rows: LabelRows,
    rng: np.random.Generator,
) -> FewLabels:
    """Calibrate each number of labels, as far as the domains have the rows, and say what it gains."""
    n_pool = min(median_rows(calibration.rows.domains) // 2, MOST_POOL)
    levels = [level for level in sorted(set(levels)) if level <= n_pool]
    options = n_pool, max(levels, default=0), label_rows, rng
    schools = [School.of(each, *options) for each in (calibration, training) if each is not None]
    found, gains, smallest = dict[int, Level](), list[dict[str, float]](), np.inf
    for level in (0, *levels):
        scale = schools[-1].best_scale(level) if level else None
        if level and scale is None:
            continue
        of_calibration, *others = (each.batches(promise, level, scale, rng) for each in schools)
        of_training = others[0] if others else None
        sizes = entry_sizes(n_pool, BATCH_SIZES)
        entries = fit_entries(promise, sizes, of_calibration, of_training, keeps_fixed=False)
        wanted = smallest if found else (1 - SMALLEST_GAIN) * smallest
        if np.isneginf(entries[0].offset[promise.promised]).all() or entries[-1].set_size >= wanted:
            continue  # too few later rows to count, or labels that teach too little
        if level and scale is not None:
            pools = schools[0].lessons[0].pool_sizes
            unlabelled = float(np.quantile(1 - np.minimum(level / pools[pools > 0], 1.0), FEWEST_UNLABELLED))
            found[level] = Level(scale, unlabelled, stacked(entries))
        smallest = entries[-1].set_size
        gains.append({"labels": level, **left_out(promise, of_calibration(entries[-1].n_rows), entries[-1])})
    names = ("labels", "set_size", "share_at_target")
    return FewLabels(found, n_pool, {name: [each[name] for each in gains] for name in names})


def left_out(promise: Promise, draws: Sequence[Draw], entry: Entry) -> dict[str, float]:
    """Return mean set size and share at target of domains, each with the offset that the others give."""
    bases = entry.bases(draws)
    residuals = np.stack([each.asked for each in draws]) - bases
    n_domains = residuals.shape[1]
    confidence = min(promise.domain_confidence, highest_confidence(max(n_domains - 1, 1)))
    others = np.where(np.eye(n_domains, dtype=bool)[:, None, :, None], np.inf, residuals)
    none_pooled = np.full(residuals.shape[-1], -np.inf)
    offsets = offset_of(others, promise.promised, none_pooled, confidence, promise.weights)
    thresholds = bases + offsets
    counts = np.isfinite(residuals[..., promise.promised]).any(axis=-1)
    held = np.min(np.where(promise.promised, residuals - offsets, np.inf), axis=-1) >= 0
    sizes = [promise.sizes(*each) for each in zip(draws, thresholds, strict=True)]
    return {"set_size": float(np.mean(np.array(sizes)[counts])), "share_at_target": float(np.mean(held[counts]))}


class School(NamedTuple):
    """Domains that are treated as new, some draws of each."""

    taught: TaughtRows
    blocks: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]
    lessons: list[Lesson]

    @classmethod
    def of(cls, taught: TaughtRows, n_pool: int, most: int, label_rows: LabelRows, rng: np.random.Generator) -> School:
        """Draw the pools of all domains, and choose the rows to label."""
        domains = taught.rows.domains
        of_domains = RowsOfDomains.of(domains, taught.rows.n_domains)
        blocks = list(of_domains.blocks(taught.features.shape[1] + 1))
        sizes = np.minimum(of_domains.counts // 2, n_pool)
        n_draws = min(number_of_draws(len(sizes)), MOST_TAUGHT_DRAWS)
        lessons = []
        for _ in range(n_draws):
            pool = random_ranks(domains, rng) < sizes[domains]
            order = np.full((len(sizes), most), -1)
            for codes, rows, is_real in blocks if most else []:
                in_pool = pool[rows] & is_real
                inputs = taught.features[rows], taught.rows.probabilities[rows], in_pool
                place = rows_to_label(*inputs, most, label_rows, rng)
                order[codes] = np.where(place < 0, -1, np.take_along_axis(rows, np.maximum(place, 0), axis=1))
            lessons.append(Lesson(order, pool, sizes))
        return cls(taught, blocks, lessons)

    def learned(self, lesson: Lesson, level: int, scale: float) -> Correction:
        """Return the corrections of all domains from so many labels, or from all of a smaller pool."""
        rows, features = self.taught
        chosen = lesson.order[:, :level]
        labels = np.where(chosen < 0, MISSING_LABEL, rows.labels[chosen])
        return learn_correction(features[chosen], rows.probabilities[chosen], labels, scale)

    def corrected(self, correction: Correction) -> NDArray[np.float64]:
        """Return the corrected probabilities of all rows."""
        rows, features = self.taught
        found = np.empty_like(rows.probabilities, dtype=float)
        for codes, places, is_real in self.blocks:
            own = Correction(correction.weights[codes], correction.bias[codes])
            found[places[is_real]] = own.probabilities(rows.probabilities[places], features[places])[is_real]
        return found

    def best_scale(self, level: int) -> float | None:
        """Return the prior scale with the lowest log-loss on later rows; None if labels do not lower it."""
        rows, lesson = self.taught.rows, self.lessons[0]
        later = np.flatnonzero(~lesson.pool)
        own = later, rows.labels[later]

        def loss(probabilities: NDArray[np.float64]) -> float:
            return -float(log_probabilities(probabilities[own]).mean()) if len(later) else 0.0

        losses = [loss(self.corrected(self.learned(lesson, level, scale))) for scale in PRIOR_SCALES]
        return PRIOR_SCALES[int(np.argmin(losses))] if min(losses) < loss(rows.probabilities) else None

    def batches(self, promise: Promise, level: int, scale: float | None, rng: np.random.Generator) -> Batches:
        """Return what treats all domains as new, with so many labels, and thresholds by so many rows of the pool."""
        drawn = list(self.drawn(level, scale))
        ranks = [random_ranks(pool.domains, rng) for pool, _ in drawn]
        n_domains = self.taught.rows.n_domains

        def of_size(n_rows: int) -> list[Draw]:
            return [
                Draw(promise.evidence(pool.of(rank < n_rows), n_domains), promise.asked(later, n_domains), later)
                for (pool, later), rank in zip(drawn, ranks, strict=True)
            ]

        return of_size

    def drawn(self, level: int, scale: float | None) -> Iterator[tuple[ScoredRows, ScoredRows]]:
        """Yield the corrected rows of the pools, and the later ones, of every draw; as they are without a scale."""
        rows = self.taught.rows
        for lesson in self.lessons:
            found = rows
            if scale is not None:
                probabilities = self.corrected(self.learned(lesson, level, scale))
                found = ScoredRows(log_odds(probabilities), probabilities, rows.labels, rows.domains)
            yield found.of(lesson.pool), found.of(~lesson.pool)
