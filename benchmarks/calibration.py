"""Thresholds against one argsort of the same scores."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measure import Row, ratio
from domaincover import pooled_thresholds, robust_thresholds

N_SCORES, N_DOMAINS = 1_000_000, 500


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    rng = np.random.default_rng(0)
    for n_labels in (2, 10):
        scores = rng.normal(size=(N_SCORES, n_labels)).astype(np.float32)
        labels, domains = rng.integers(0, n_labels, N_SCORES), rng.integers(0, N_DOMAINS, N_SCORES)
        own = scores[np.arange(N_SCORES), labels]
        for name, rule in (("pooled", pooled_thresholds), ("robust", robust_thresholds)):
            found = ratio(partial(rule, scores, labels, domains, 0.9), partial(np.argsort, own), repeats=9)
            what = f"{name} thresholds, 1,000,000 scores x 500 domains, {n_labels} labels / one argsort"
            yield Row(what, f"{found:.2f} x", "<= 3 x" if name == "pooled" else "")
