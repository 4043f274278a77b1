"""Thresholds and sets by (domain, label) cell, against crepes, MAPIE and TorchCP doing the same job on the same scores.

They pick the ⌈level · (n + 1)⌉-th of n scores, we the ⌈target · n⌉-th: the level is set so that all pick the same one,
and the sets are then compared. All cells have as many rows, since TorchCP has one level for all labels. TorchCP keeps
thresholds in single precision, so it is given single-precision scores, and so are we beside it.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from crepes import ConformalClassifier
from mapie.classification import SplitConformalClassifier
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.measure import Row, timed
from domaincover.criteria import hits_needed, sets_from_scores
from domaincover.thresholds import cell_thresholds

TARGET = 0.9
CALIBRATION_ROWS, TEST_ROWS, N_LABELS = 100_000, 100_000, 20  # 200,000 in all
# Without what else it asks for: it does not import torchvision, of which there may be none for this torch.
INSTALL_TORCHCP = "pip install --no-deps --no-build-isolation torchcp torch_geometric torchsort"


class Rows(NamedTuple):
    """Probabilities, labels and domains of some rows."""

    probabilities: NDArray[np.float64]
    labels: NDArray[np.int64]
    domains: NDArray[np.int64]

    @property
    def in_single(self) -> "Rows":
        """The same rows, with probabilities in single precision."""
        return self._replace(probabilities=self.probabilities.astype(np.float32))


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    torch.set_num_threads(1)
    for n_domains in (1, 50):
        calibration, test = made_up(n_domains, CALIBRATION_ROWS, 0), made_up(n_domains, TEST_ROWS, 1)
        single = calibration.in_single, test.in_single
        for name, peer in {"TorchCP": of_torchcp, "crepes": of_crepes, "MAPIE": of_mapie}.items():
            if name == "TorchCP" and (missing := missing_torchcp()):
                yield Row(missing, "not run", "")
                continue
            yield from _beside(name, peer, n_domains, *(single if name == "TorchCP" else (calibration, test)))


def _beside(
    name: str, peer: Callable[[Rows, Rows], Any], n_domains: int, calibration: Rows, test: Rows
) -> Iterator[Row]:
    our_time, sets = timed(of_ours, calibration, test, repeats=5)
    took, found = timed(peer, calibration, test, repeats=5 if name == "TorchCP" else 1)
    what = f"200,000 rows x {N_LABELS} labels, {_domains(n_domains)}: {name} ({took:.3g} s) / ours ({our_time:.3f} s)"
    times = took / our_time
    yield Row(what, f"{times:,.0f} x" if times >= 10 else f"{times:.1f} x", "" if name == "TorchCP" else ">= 20 x")
    yield Row(f"    sets that differ from {name}'s", f"{(found != sets).any(axis=1).sum()}", "0")


def made_up(n_domains: int, n_rows: int, seed: int) -> Rows:
    """Return the probabilities of a classifier that does better in some domains than in others; cells are equal."""
    rng = np.random.default_rng(seed)
    labels, domains = np.unravel_index(rng.permutation(n_rows) % (N_LABELS * n_domains), (N_LABELS, n_domains))
    scores = rng.standard_normal((n_rows, N_LABELS))
    scores[np.arange(n_rows), labels] += 1 + 2 * domains / n_domains
    odds = np.exp(scores)
    return Rows(odds / odds.sum(axis=1, keepdims=True), labels, domains)


def of_ours(calibration: Rows, test: Rows) -> NDArray[np.bool_]:
    """Return the sets by a threshold per cell."""
    return sets_from_scores(test.probabilities, cell_thresholds(*calibration, TARGET)[test.domains])


def of_torchcp(calibration: Rows, test: Rows) -> NDArray[np.bool_]:
    """Return the sets of one class-conditional predictor per domain."""
    from torchcp.classification.predictor import ClassConditionalPredictor

    warnings.filterwarnings("ignore", "The 'temperature' parameter", DeprecationWarning)
    alpha, sets = 1 - float(conformal_levels(calibration)[0, 0]), np.zeros_like(test.probabilities, dtype=bool)
    scores, labels, new = map(torch.from_numpy, (calibration.probabilities, calibration.labels, test.probabilities))
    for domain in range(calibration.domains.max() + 1):
        own, here = torch.from_numpy(calibration.domains == domain), torch.from_numpy(test.domains == domain)
        predictor = ClassConditionalPredictor(negative_scores)
        predictor.calculate_threshold(scores[own], labels[own], alpha)
        sets[here.numpy()] = predictor.predict_with_logits(new[here]).numpy()
    return sets


def negative_scores(scores: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
    """Return scores as TorchCP's nonconformity; its own, 1 − p, would round small probabilities to ties."""
    return -scores if labels is None else -scores[torch.arange(len(labels)), labels]


def missing_torchcp() -> str:
    """Return what to install where TorchCP cannot be imported, else nothing."""
    try:
        import torchcp  # noqa: F401
    except ImportError as error:
        return f"TorchCP: {error}; {INSTALL_TORCHCP}"
    return ""


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
