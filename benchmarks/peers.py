"""Thresholds and sets by (domain, label) cell, against crepes and MAPIE doing the same job on the same scores.

Both pick the ⌈level · (n + 1)⌉-th of n scores, we the ⌈target · n⌉-th: each cell's level is set so that all three pick
the same one, and the sets are then compared.
"""

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from crepes import ConformalClassifier
from mapie.classification import SplitConformalClassifier
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.measure import Row, timed
from domaincover import cell_thresholds
from domaincover.prediction_sets import hits_needed, sets_from_scores

TARGET = 0.9
CALIBRATION_ROWS, TEST_ROWS, N_LABELS = 100_000, 100_000, 20  # 200,000 in all


class Rows(NamedTuple):
    """Probabilities, labels and domains of some rows."""

    probabilities: NDArray[np.float64]
    labels: NDArray[np.int64]
    domains: NDArray[np.int64]


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    for n_domains in (1, 50):
        calibration, test = made_up(n_domains, CALIBRATION_ROWS, 0), made_up(n_domains, TEST_ROWS, 1)
        our_time, sets = timed(of_ours, calibration, test, repeats=5)
        for name, peer in (("crepes", of_crepes), ("MAPIE", of_mapie)):
            took, found = timed(peer, calibration, test)
            what = f"200,000 rows x {N_LABELS} labels, {_domains(n_domains)}: {name} ({took:.1f} s) / ours"
            yield Row(what, f"{took / our_time:.0f} x", ">= 20 x")
            yield Row(f"    sets that differ from {name}'s", f"{(found != sets).any(axis=1).sum()}", "0")


def made_up(n_domains: int, n_rows: int, seed: int) -> Rows:
    """Return the probabilities of a classifier that does better in some domains than in others."""
    rng = np.random.default_rng(seed)
    labels, domains = rng.integers(N_LABELS, size=n_rows), rng.integers(n_domains, size=n_rows)
    scores = rng.standard_normal((n_rows, N_LABELS))
    scores[np.arange(n_rows), labels] += 1 + 2 * domains / n_domains
    odds = np.exp(scores)
    return Rows(odds / odds.sum(axis=1, keepdims=True), labels, domains)


def of_ours(calibration: Rows, test: Rows) -> NDArray[np.bool_]:
    """Return the sets by a threshold per cell."""
    return sets_from_scores(test.probabilities, cell_thresholds(*calibration, TARGET)[test.domains])


def of_crepes(calibration: Rows, test: Rows) -> NDArray[np.bool_]:
    """Return the sets of a Mondrian classifier whose categories are the cells; p-values without smoothing."""
    own = -np.take_along_axis(calibration.probabilities, calibration.labels[:, None], axis=1)[:, 0]
    classifier = ConformalClassifier().fit(own, bins=calibration.domains * N_LABELS + calibration.labels)
    levels = conformal_levels(calibration)
    p_values = [
        classifier.predict_p(-test.probabilities[:, label], bins=test.domains * N_LABELS + label, smoothing=False)
        for label in range(N_LABELS)
    ]
    return np.stack(p_values, axis=1) >= 1 - levels[test.domains]


def of_mapie(calibration: Rows, test: Rows) -> NDArray[np.bool_]:
    """Return the sets of one split conformal classifier per cell, of which the cell's label is taken."""
    warnings.filterwarnings("ignore", message="WARNING: your conformalization dataset has less labels")
    given, sets, levels = Given().fit(), np.zeros_like(test.probabilities, dtype=bool), conformal_levels(calibration)
    for domain, label in np.ndindex(*levels.shape):
        cell = (calibration.domains == domain) & (calibration.labels == label)
        classifier = SplitConformalClassifier(given, levels[domain, label])
        classifier.conformalize(calibration.probabilities[cell], calibration.labels[cell])
        here = test.domains == domain
        sets[here, label] = classifier.predict_set(test.probabilities[here])[1][:, label, 0]
    return sets


def conformal_levels(calibration: Rows) -> NDArray[np.float64]:
    """Return each cell's level at which conformal prediction picks our order statistic; half a step from the next."""
    n_domains = calibration.domains.max() + 1
    cells = calibration.domains * N_LABELS + calibration.labels
    n_by_cell = np.bincount(cells, minlength=n_domains * N_LABELS).reshape(-1, N_LABELS)
    return (hits_needed(n_by_cell, TARGET) - 0.5) / (n_by_cell + 1)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are its input, so that only calibration and sets are timed."""

    def fit(self) -> "Given":
        """Name the labels."""
        self.classes_ = np.arange(N_LABELS)
        return self

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what was given."""
        return X

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the most likely label."""
        return X.argmax(axis=1)


def _domains(n_domains: int) -> str:
    return "1 domain" if n_domains == 1 else f"{n_domains} domains"
