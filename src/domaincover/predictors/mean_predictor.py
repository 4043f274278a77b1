"""The mean of several classifiers as one scorer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.links import mean_probabilities, without_zeros
from domaincover.prediction_sets import Sets, single_label_sets
from domaincover.predictors.conventions import check_fitted
from domaincover.predictors.label_scoring import input_encoder_of, probabilities_for, scores_for
from domaincover.predictors.network_predictors import SingleLabelPredictor, from_log_probabilities
from domaincover.predictors.set_predictor import SetPredictor


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
