"""One score per label from any classifier, whichever method it gives scores with, and the mean of several."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.links import mean_probabilities, without_zeros
from domaincover.errors import InputError
from domaincover.prediction_sets import Sets, single_label_sets
from domaincover.predictors.names import check_fitted, label_codes
from domaincover.predictors.network_predictors import SingleLabelPredictor, from_log_probabilities
from domaincover.predictors.set_predictor import SetPredictor

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


class MeanPredictor(SetPredictor):
    """Normalised geometric mean of the probabilities of several classifiers; the set is the most likely label alone."""

    estimators_: list[Any]
    lowest_: NDArray[np.float64]

    def label_scores(self, X: Any) -> NDArray[np.float64]:
        """Return log-probabilities, examples × labels in the order of `classes_`."""
        check_fitted(self)
        by_model = np.stack([log_probabilities(each, X, self.classes_) for each in self.estimators_])
        unreadable = np.isposinf(by_model).any(axis=(0, 2))
        by_model[:, unreadable] = 0
        by_model = np.stack([without_zeros(*each) for each in zip(np.exp(by_model), self.lowest_, strict=True)])
        scores = np.log(mean_probabilities(by_model))
        scores[unreadable] = np.inf
        return scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label, examples × labels in the order of `classes_`."""
        return from_log_probabilities(self.label_scores(X))

    def predict_set(self, X: Any) -> Sets:
        """Return the most likely label alone, as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return single_label_sets(scores) | np.isposinf(scores)  # an unreadable example may have any label

    @property
    def input_encoder_(self) -> Any:
        """The encoder that turns a table's columns into numbers, or None."""
        check_fitted(self)
        return input_encoder_of(self.estimators_[0])

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen in `fit`, where the first classifier has it."""
        return int(self.estimators_[0].n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, where the first classifier has them."""
        return self.estimators_[0].feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")


def log_probabilities(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return a classifier's log-probabilities; +∞ for examples that it could not read."""
    if isinstance(estimator, SingleLabelPredictor | MeanPredictor):
        return scores_for(estimator, X, classes).astype(float)
    with np.errstate(divide="ignore"):  # the mean has a lower bound for probabilities
        return np.log(probabilities_for(estimator, X, classes).astype(float))
