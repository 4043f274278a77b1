"""One score per label from any classifier, whichever method it gives scores with, and the mean of several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.links import Link, mean_probabilities, without_zeros
from domaincover.errors import InputError
from domaincover.predictors.names import check_fitted, label_codes
from domaincover.predictors.network_predictors import MostLikelyLabel

KEPT_BITS = 40


def scores_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the estimator's scores for the given classes, (example, class); −∞ for unknown classes.

    Doubles are rounded to 40 bits, twelve digits: the last depend on the processor and on the library that computes
    them, and a threshold may stand exactly at a score.
    """
    scores = _in_order(scores_of(estimator, X), estimator.classes_, classes, -np.inf)
    if scores.dtype != np.float64:
        return scores
    digits, exponent = np.frexp(scores)
    return np.ldexp(np.round(digits * 2.0**KEPT_BITS), exponent - KEPT_BITS)


def probabilities_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the estimator's probabilities, examples × the given classes; 0 for those that it does not know."""
    return _in_order(np.asarray(estimator.predict_proba(X)), estimator.classes_, classes, 0.0)


def _in_order(values: NDArray[Any], known: NDArray[Any], classes: NDArray[Any], unknown: float) -> NDArray[Any]:
    """Return columns of known classes as columns of the given ones."""
    if np.array_equal(known, classes):
        return values
    found = np.full((len(values), len(classes)), unknown, dtype=np.result_type(values, np.float32))
    found[:, label_codes(known, classes)] = values
    return found


def log_scores_for(estimator: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return log-probabilities, or the scores of an estimator that gives margins; +∞ for rows that it cannot read."""
    if has_margins(estimator) or isinstance(estimator, MostLikelyLabel):
        return scores_for(estimator, X, classes).astype(float)
    with np.errstate(divide="ignore"):  # what stands for a probability of 0 is set later
        return np.log(probabilities_for(estimator, X, classes).astype(float))


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


@dataclass(frozen=True)
class MeanOfModels:
    """The normalised geometric mean of the probabilities of one or several classifiers.

    By classifier, `lowest` has what stands for a probability of 0 of each label, and `links` what turns margins into
    probabilities; it is empty where classifiers give probabilities. `correct` makes other probabilities of these and
    the rows.
    """

    models: Sequence[Any]
    classes: NDArray[Any]
    lowest: NDArray[np.float64]
    links: Sequence[Link] = ()
    correct: Callable[[NDArray[np.float64], Any], NDArray[np.float64]] | None = None

    def by_model(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield each classifier's log-probabilities, rows × labels; NaN for rows that it could not read."""
        for number, model in enumerate(self.models):
            yield self.log_probabilities(number, log_scores_for(model, X, self.classes))

    def log_probabilities(self, number: int, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log-probabilities from the log-probabilities or margins that one of the classifiers gave."""
        scores = np.where(np.isposinf(scores).any(axis=1, keepdims=True), np.nan, scores)
        return (
            self.links[number].log_probabilities(scores) if self.links else without_zeros(scores, self.lowest[number])
        )

    def probabilities(self, X: Any) -> NDArray[np.float64]:
        """Return the mean, rows × labels; NaN for rows that some classifier could not read."""
        by_model = list(self.by_model(X))
        found = np.exp(by_model[0]) if len(by_model) == 1 else mean_probabilities(by_model)
        return found if self.correct is None else self.correct(found, X)


class ReadsColumns:
    """What a model knows of a table's columns, by the estimator that reads them."""

    @property
    @abstractmethod
    def _reader(self) -> Any:
        """The estimator that reads the columns."""

    @property
    def input_encoder_(self) -> Any:
        """The encoder that turns a table's columns into numbers, or None."""
        return input_encoder_of(self._reader)

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen in `fit`, if the estimator has it."""
        return int(self._reader.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, if the estimator has them."""
        first = self._reader
        return first.feature_names_in_ if hasattr(first, "feature_names_in_") else np.array(first.feature_names_)


class MeanPredictor(ReadsColumns, MostLikelyLabel):
    """Normalised geometric mean of the probabilities of several classifiers; the set is the most likely label alone."""

    estimators_: list[Any]
    lowest_: NDArray[np.float64]

    def label_scores(self, X: Any) -> NDArray[np.float64]:
        """Return log-probabilities, examples × labels in the order of `classes_`."""
        check_fitted(self)
        models = MeanOfModels(self.estimators_, self.classes_, self.lowest_)
        scores = np.log(mean_probabilities(list(models.by_model(X))))
        return np.where(np.isnan(scores), np.inf, scores)

    @property
    def _reader(self) -> Any:
        return self.estimators_[0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")
