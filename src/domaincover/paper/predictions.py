"""Predictions of a run's fitted estimator: sets, scores, thresholds and training history."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import texts
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier
from domaincover.estimators.network import NetworkClassifier
from domaincover.paper.methods import Method
from domaincover.paper.study_data import StudyData
from domaincover.prediction_sets import Sets


class Predicted(NamedTuple):
    """The sets of all examples; scores, thresholds by label and the history, if the estimator has them."""

    sets: Sets
    scores: NDArray[Any] | None = None
    thresholds: list[float | None] | None = None  # the same in all domains; None for a label that is in every set
    history: dict[str, NDArray[Any]] | None = None


def predicted(model: Any, data: StudyData, method: Method) -> Predicted:
    """Return a fitted estimator's predictions for all examples.

    A label without training examples is unknown to the estimator; the method defines whether it is in every set.
    """
    X = data.numbers if method.from_plugin else data.X
    classes = np.asarray(getattr(model, "classes_", np.arange(len(data.label_names)))).astype(np.int64)
    found = _sets(model, X, classes, data.batches if method.adapts else None)
    sets = np.full((len(data), len(data.label_names)), method.covers_unknown_labels)
    sets[:, classes] = found
    if not isinstance(model, SetClassifier):
        return Predicted(sets)
    scores = np.full(sets.shape, np.nan, dtype=np.float32)
    scores[:, classes] = model.label_scores(X)
    thresholds = np.full(sets.shape[1], -np.inf)
    thresholds[classes] = getattr(model, "thresholds_", np.nan)
    by_label = [float(value) if np.isfinite(value) else None for value in thresholds]
    is_fixed = hasattr(model, "thresholds_") and not method.adapts
    return Predicted(sets, scores, by_label if is_fixed else None, _history(model, data))


def scorer_of(model: Any) -> Any:
    """Return the fitted network behind a set classifier, or the model itself."""
    return getattr(model, "estimator_", model)


def training_of(model: Any) -> Any:
    """Return an object that stands for a model's training: two iterates of one training have the same."""
    scorer = scorer_of(model)
    return scorer._history if isinstance(scorer, NetworkClassifier) else scorer


def _sets(model: Any, X: Any, classes: NDArray[np.int64], batches: NDArray[np.int64] | None = None) -> Sets:
    """Return the sets, with thresholds adapted to each batch if batches are given."""
    name = type(model).__name__
    if batches is not None:
        found = model.predict_set(X, domains=batches)
    elif hasattr(model, "predict_set"):
        found = np.asarray(model.predict_set(X))
    elif hasattr(model, "predict"):
        found = np.asarray(model.predict(X))[:, None] == classes
    else:
        raise InputError(f"{name} has neither predict_set nor predict.")
    if found.dtype != bool or found.shape != (len(X), len(classes)):
        raise InputError(
            f"{name} must return booleans, {len(X)} examples × {len(classes)} labels, got {found.dtype} of shape "
            f"{found.shape}."
        )
    return found


def _history(model: Any, data: StudyData) -> dict[str, NDArray[Any]] | None:
    """Return the training history: a row per dual step, cells as training domains × labels."""
    network = scorer_of(model)
    if not isinstance(network, NetworkClassifier):
        return None
    kept = {name: values for name, values in vars(network._history).items() if values is not None}
    if "recall" in kept:
        for name in ("recall", "multipliers"):
            kept[name] = kept[name][:, : len(network.domains_)]  # the last row is for merged cells; none are merged
        names = texts(data.domain_names)
        kept["domains"] = np.array([names[code] for code in network.domains_])
        kept["labels"] = np.array([texts(data.label_names)[code] for code in network.classes_])
    return kept
