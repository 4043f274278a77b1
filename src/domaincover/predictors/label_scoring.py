"""One score per label from any classifier, whichever method it gives scores with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.predictors.names import label_codes

LOWEST_PROBABILITY = 1e-30


def scores_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the estimator's scores for the given classes, (example, class); −∞ for unknown classes."""
    scores = scores_of(estimator, X)
    if scores.shape[1] == len(classes) and np.array_equal(estimator.classes_, classes):
        return scores
    widened = np.full((len(scores), len(classes)), -np.inf)
    widened[:, label_codes(estimator.classes_, classes)] = scores
    return widened


def probabilities_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the estimator's probabilities, examples × the given classes; 0 for those that it does not know."""
    probabilities = np.asarray(estimator.predict_proba(X))
    widened = np.zeros((len(probabilities), len(classes)), dtype=probabilities.dtype)
    widened[:, label_codes(estimator.classes_, classes)] = probabilities
    return widened


def log_scores_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the scores, with probabilities as logarithms, so that small differences near 0 count."""
    scores = scores_for(estimator, X, classes)
    if hasattr(estimator, "label_scores") or not hasattr(estimator, "predict_proba"):
        return scores
    return np.where(np.isfinite(scores), np.log(np.maximum(scores, LOWEST_PROBABILITY)), scores)


def has_margins(estimator: Any) -> bool:
    """Tell whether scores are margins, from which probabilities have yet to be made."""
    return getattr(last_step(estimator), "scores_are_margins", False) or not hasattr(estimator, "predict_proba")


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of a pipeline or inside a search, or the estimator itself."""
    if hasattr(estimator, "steps"):
        return last_step(estimator.steps[-1][1])
    return last_step(estimator.best_estimator_) if hasattr(estimator, "best_estimator_") else estimator


def input_encoder_of(estimator: Any) -> Any:
    """Return what turns a table's columns into numbers: a pipeline's first step, or a classifier's encoder."""
    first = estimator[0] if hasattr(estimator, "steps") else estimator
    return first.input_encoder_ if hasattr(first, "input_encoder_") else first


def scores_of(estimator: Any, X: Any) -> NDArray[Any]:
    """Return one score per label: label_scores, probabilities or decision values (for two labels −d and d)."""
    for method in ("label_scores", "predict_proba", "decision_function"):
        if hasattr(estimator, method):
            scores = np.asarray(getattr(estimator, method)(X))
            scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
            one_vs_one = method == "decision_function" and getattr(estimator, "decision_function_shape", "") == "ovo"
            if scores.shape[1] != len(estimator.classes_) or (one_vs_one and len(estimator.classes_) > 2):
                raise InputError(
                    f"{type(estimator).__name__}.{method} must return one score per label, {len(estimator.classes_)}; "
                    f"it returns {scores.shape[1]}{' of pairs' if one_vs_one else ''}."
                )
            return scores
    raise InputError(f"{type(estimator).__name__} has neither predict_proba nor decision_function.")
