"""A few labelled rows of a domain correct the scorer there: logits log p(x) + φ(x) W + b.

φ(x) are the standardised features of a row, and beside them the centred log-probabilities, which may be over-confident
in the domain; W ~ N(0, s²) and b ~ N(0, `BIAS_SCALE`²). The correction is the maximum a posteriori on the labelled
rows, a convex problem, solved for many domains at once. Where all labels of a domain are the same there is nothing to
tell labels apart by, and nothing is corrected.

Which rows to label is chosen among a pool of unlabelled rows: uncertain ones that lie apart in feature space, drawn one
after the other with probabilities in proportion to entropy times squared distance to the nearest row chosen (the
seeding of k-means++, Arthur and Vassilvitskii 2007, weighted), or at random.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.links import LOWEST_LOG, softmax
from domaincover.networks.threads import one_blas_thread
from domaincover.options import LabelRows
from domaincover.prediction_sets import MISSING_LABEL

BIAS_SCALE = 0.5
FAR = 5.0  # standard deviations at which features are cut off
MOST_FEATURES = 256  # more are projected at random
STEPS = 50  # of Newton's method, which takes about six, with at most so many of conjugate gradients each
GRADIENT = 1e-5
NUMBERS_AT_ONCE = 1 << 22


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
