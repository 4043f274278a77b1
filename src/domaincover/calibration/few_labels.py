"""A few labelled rows of a domain correct the scorer there: logits log p(x) + φ(x) W + b.

φ(x) are the standardised features of a row, and beside them the centred log-probabilities, which may be over-confident
in the domain; W ~ N(0, s²) and b ~ N(0, `BIAS_SCALE`²). The correction is the maximum a posteriori on the labelled
rows, a convex problem, solved for many domains at once. Where all labels of a domain are the same there is nothing to
tell labels apart by, and nothing is corrected.

Which rows to label is chosen among a pool of unlabelled rows: uncertain ones that lie apart in feature space, drawn one
after the other with probabilities in proportion to entropy times squared distance to the nearest row chosen (the
seeding of k-means++, Arthur and Vassilvitskii 2007, weighted), or at random.

What labels are worth is calibrated: calibration domains are treated as the new one will be. Half of a domain's rows are
the pool that labels are offered for, at most `MOST_POOL`; the others come later. For each level, so many rows of the
pool are chosen and labelled, the correction is learned from them, all rows of the pool set the thresholds with
corrected probabilities, and recall is counted on the later rows. From there on it is the mechanism of
`calibration.adaptation`. The prior scale of a level is the one with the lowest log-loss on the later rows of the
domains that the base comes from. A level whose sets are not smaller there than those with fewer labels is left out, and
so is one that leaves too few domains or rows to count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import AdaptiveThresholds, RowsOfDomains, offset_of
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
from domaincover.calibration.links import LOWEST_LOG, log_odds, softmax
from domaincover.calibration.rules import highest_confidence
from domaincover.criteria import MISSING_LABEL
from domaincover.options import LabelRows
from domaincover.terminal.processes import one_blas_thread

BIAS_SCALE = 0.5
FAR = 5.0  # standard deviations at which features are cut off
MOST_FEATURES = 256  # more are projected at random
STEPS = 50  # of Newton's method, which takes about six, with at most so many of conjugate gradients each
GRADIENT = 1e-5
NUMBERS_AT_ONCE = 1 << 22
PRIOR_SCALES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
MOST_POOL = 500
MOST_DOMAINS = 200
MOST_TAUGHT_DRAWS = 4
FEWEST_UNLABELLED = 0.1  # quantile over calibration domains of the share of a pool that has no label


class FeatureScale(NamedTuple):
    """What standardises the encoded columns of a table, or the features of a network."""

    mean: NDArray[np.float64]
    unit: NDArray[np.float64]

    @classmethod
    def of(cls, encoded: NDArray[Any]) -> FeatureScale:
        """Learn the mean and deviation of every column; one that does not vary has no weight."""
        known = np.isfinite(encoded)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, encoded, 0.0).sum(axis=0, dtype=np.float64) / count
        deviation = np.sqrt((np.where(known, encoded - mean, 0.0) ** 2).sum(axis=0) / count)
        varies = deviation > 1e-9 * (1 + np.abs(mean))
        return cls(mean, np.where(varies, deviation, np.inf))

    @property
    def projection(self) -> NDArray[np.float64] | None:
        """Random signs that bring many features to `MOST_FEATURES`, the same for the same number; None for few."""
        n_features = len(self.mean)
        if n_features <= MOST_FEATURES:
            return None
        signs = np.random.default_rng(0).integers(0, 2, (n_features, MOST_FEATURES))
        return (2.0 * signs - 1.0) / np.sqrt(n_features)

    def standardised(self, encoded: NDArray[Any]) -> NDArray[np.float64]:
        """Return φ: standardised columns, cut at ±`FAR`, with 0 for missing values; rows × at most `MOST_FEATURES`."""
        found, projection = self.cut(encoded), self.projection
        return found if projection is None else found @ projection

    def cut(self, encoded: NDArray[Any]) -> NDArray[np.float64]:
        """Return standardised columns that are cut, but not projected."""
        found: NDArray[np.float64] = np.clip((encoded - self.mean) / self.unit, -FAR, FAR)
        return np.nan_to_num(found, copy=False)


class Correction(NamedTuple):
    """What is added to the log-probabilities of a domain, or of a stack of domains along the first axis."""

    weights: NDArray[np.float64]  # (…, features, labels)
    bias: NDArray[np.float64]  # (…, labels)

    def probabilities(self, probabilities: NDArray[Any], features: NDArray[Any]) -> NDArray[np.float64]:
        """Return corrected probabilities, (…, rows, labels); NaN where they were."""
        with one_blas_thread():
            moved = features @ self.weights
        return softmax(log_probabilities(probabilities) + moved + self.bias[..., None, :])


def log_probabilities(probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Return logarithms, bounded from below."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(np.asarray(probabilities, dtype=float)), LOWEST_LOG)


def with_scores(encoded: NDArray[Any], probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Return features with the scorer's log-probabilities beside them, centred over labels."""
    logs = log_probabilities(probabilities)
    return np.hstack([encoded, logs - logs.mean(axis=1, keepdims=True)])


def learn_correction(
    features: NDArray[Any],
    probabilities: NDArray[Any],
    labels: NDArray[np.int64],
    prior_scale: float,
) -> Correction:
    """Learn the corrections of a stack of domains from their labelled rows.

    `features` is domains × rows × features, `probabilities` domains × rows × labels and `labels` domains × rows;
    domains with fewer rows have `MISSING_LABEL` in the others.
    """
    n_domains, n_rows, n_features = features.shape
    n_labels = probabilities.shape[-1]
    known = (labels != MISSING_LABEL) & _differ(labels)[:, None]
    answers = (labels[..., None] == np.arange(n_labels)) & known[..., None]
    logits = np.where(known[..., None], log_probabilities(probabilities), 0.0)
    found = np.zeros((n_domains, n_features + 1, n_labels))
    at_once = max(1, NUMBERS_AT_ONCE // max(n_rows * (n_features + n_labels), 1))
    with one_blas_thread():
        for start in range(0, n_domains, at_once):
            part = slice(start, start + at_once)
            design = np.full((len(found[part]), n_rows, n_features + 1), BIAS_SCALE)
            design[..., :-1] = features[part] * prior_scale
            design *= known[part, :, None]
            found[part] = _newton(design, logits[part], answers[part], known[part, :, None])
    return Correction(found[:, :-1] * prior_scale, found[:, -1] * BIAS_SCALE)


def _differ(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether the known labels of a domain are of two kinds or more."""
    known = labels != MISSING_LABEL
    highest = np.where(known, labels, -1).max(axis=1, initial=-1)
    lowest = np.where(known, labels, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    return lowest < highest


def _newton(
    design: NDArray[np.float64], logits: NDArray[np.float64], answers: NDArray[Any], known: NDArray[Any]
) -> NDArray[np.float64]:
    """Minimise Σ −log softmax(logits + design · x)[answer] + |x|² / 2 for every problem of a stack.

    Newton's method with conjugate gradients, halving steps that lead up. Each problem stops by itself, so that its
    solution does not depend on the others.
    """
    found = np.zeros((len(design), design.shape[2], logits.shape[2]))
    active = np.arange(len(design))
    for _ in range(STEPS):
        own, x = design[active], found[active]
        outputs = logits[active] + own @ x
        p = softmax(outputs) * known[active]
        slope = np.swapaxes(own, 1, 2) @ (p - answers[active]) + x
        goes_on = np.abs(slope).max(axis=(1, 2)) > GRADIENT
        active, own, x, outputs, p, slope = (each[goes_on] for each in (active, own, x, outputs, p, slope))
        if not len(active):
            break
        step = _conjugate_gradients(own, p, slope)
        moved = own @ step
        length = np.ones((len(active), 1, 1))
        before = _objective(outputs, answers[active], known[active], x)
        for _ in range(STEPS):
            after = _objective(outputs + length * moved, answers[active], known[active], x + length * step)
            leads_up = after > before + GRADIENT**2 * (1 + np.abs(before))
            if not leads_up.any():
                break
            length[leads_up] /= 2
        found[active] = x + length * step
    return found


def _objective(outputs: Any, answers: Any, known: Any, x: Any) -> NDArray[np.float64]:
    highest = outputs.max(axis=2, keepdims=True)
    total = (np.log(np.exp(outputs - highest).sum(axis=2, keepdims=True)) + highest) * known
    loss = total.sum(axis=(1, 2)) - np.where(answers, outputs, 0.0).sum(axis=(1, 2))
    return np.asarray(loss + (x**2).sum(axis=(1, 2)) / 2)


def _conjugate_gradients(design: Any, p: Any, slope: Any) -> NDArray[np.float64]:
    """Return a step x with Hessian · x ≈ −slope, the more exactly the flatter the slope is."""
    step, residual = np.zeros_like(slope), -slope
    direction, size = residual.copy(), _dot(residual, residual)
    enough = np.minimum(0.01, size) * size
    for _ in range(STEPS):
        goes_on = size > enough
        if not goes_on.any():
            break
        moved = p * (design @ direction)
        moved -= p * moved.sum(axis=2, keepdims=True)
        bent = np.swapaxes(design, 1, 2) @ moved + direction
        length = np.where(goes_on, size / np.where(goes_on, _dot(direction, bent), 1.0), 0.0)
        step += length * direction
        residual -= length * bent
        before, size = size, np.where(goes_on, _dot(residual, residual), size)
        direction = residual + size / before * direction
    return step


def _dot(one: Any, other: Any) -> NDArray[np.float64]:
    return np.einsum("bfl,bfl->b", one, other)[:, None, None]


def rows_to_label(
    features: NDArray[Any],
    probabilities: NDArray[Any],
    is_real: NDArray[np.bool_],
    n_rows: int,
    label_rows: LabelRows,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return which rows of each domain to label, domains × `n_rows` in order; −1 where a domain has no more rows.

    `features` is domains × rows × features; `is_real` says which rows there are.
    """
    found = np.full((len(features), n_rows), -1)
    entropy = -(probabilities * log_probabilities(probabilities)).sum(axis=2)
    weight = np.where(is_real, np.maximum(entropy, 0.0) if label_rows == "uncertain" else 1.0, 0.0)
    distance = np.ones_like(weight)
    squares = (features**2).sum(axis=2)
    left, domain = is_real.copy(), np.arange(len(features))
    for k in range(min(n_rows, is_real.shape[1])):
        wanted = weight * distance * left
        wanted = np.where(wanted.sum(axis=1, keepdims=True) > 0, wanted, left)  # all others lie on rows chosen
        reached = np.cumsum(wanted, axis=1)
        drawn = rng.random((len(features), 1)) * reached[:, -1:]
        place = ((reached > drawn) & left).argmax(axis=1)
        any_left = left.any(axis=1)
        found[any_left, k] = place[any_left]
        left[domain, place] = False
        if label_rows == "uncertain" and features.shape[2]:
            chosen = features[domain, place]
            apart = squares - 2 * (features @ chosen[..., None])[..., 0] + squares[domain, place][:, None]
            distance = np.minimum(np.where(k == 0, np.inf, distance), np.maximum(apart, 0.0))
    return found


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
) -> tuple[dict[int, Level], int, dict[str, list[float]]]:
    """Calibrate each number of labels, as far as the domains have the rows.

    Returns what each number gives, from how many rows of a domain those to label are chosen, and the mean set size and
    share at target of the calibration domains, each as new.
    """
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
    return found, n_pool, {name: [each[name] for each in gains] for name in names}


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
