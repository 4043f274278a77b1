"""Thresholds against one argsort of the same scores."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import Row, ratio
from domaincover.calibration.adaptation import self_calibrated_thresholds
from domaincover.thresholds import joint_thresholds, pooled_thresholds, robust_thresholds

N_SCORES, N_DOMAINS = 1_000_000, 500
MANY_SCORES, MANY_DOMAINS, MANY_LABELS = 10_000_000, 10_000, 10


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    for n_labels in (2, 10):
        data = _data(N_SCORES, N_DOMAINS, n_labels)
        for name, rule in (("pooled", pooled_thresholds), ("robust", robust_thresholds)):
            found = _against_argsort(rule, data, 0.9, repeats=9)
            what = f"{name} thresholds, 1,000,000 scores x 500 domains, {n_labels} labels / one argsort"
            yield Row(what, f"{found:.2f} x", "<= 3 x" if name == "pooled" else "")
    found = _against_argsort(joint_thresholds, _data(MANY_SCORES, MANY_DOMAINS, MANY_LABELS), 0.9, 0.9, repeats=3)
    what = "joint thresholds, 10,000,000 scores x 10,000 domains, 10 labels / one argsort"
    yield Row(what, f"{found:.2f} x", "<= 6 x")
    for n_labels in (2, 10):
        found = _self_calibration_against_argsort(n_labels)
        what = f"self-calibrated thresholds, 10,000,000 scores x 10,000 domains, {n_labels} labels / one argsort"
        yield Row(what, f"{found:.2f} x", "<= 4 x")


def _data(n_scores: int, n_domains: int, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, labels and domains."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((n_scores, n_labels), dtype=np.float32)
    return scores, rng.integers(0, n_labels, n_scores), rng.integers(0, n_domains, n_scores)


def _self_calibration_against_argsort(n_labels: int) -> float:
    """Return the time of self-calibration divided by that of one sort of all the scores."""
    scores, _, domains = _data(MANY_SCORES // n_labels, MANY_DOMAINS, n_labels)
    probabilities = 1 / (1 + np.exp(-scores))
    ours = partial(self_calibrated_thresholds, scores, probabilities, domains, 0.9)
    return ratio(ours, partial(np.argsort, scores.reshape(-1)), repeats=5)


def _against_argsort(rule: Callable[..., Any], data: tuple[np.ndarray, ...], *promise: float, repeats: int) -> float:
    """Return the time of a rule divided by that of one sort of each example's score for its own label."""
    scores, labels, _ = data
    own = scores[np.arange(len(labels)), labels]
    return ratio(partial(rule, *data, *promise), partial(np.argsort, own), repeats)
