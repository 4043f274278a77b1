"""Labels of any kind for classifiers that take only the numbers 0, 1, 2, …"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from domaincover.predictors.label_scoring import input_encoder_of

PACKAGES = ("xgboost",)


class CodedLabels(ClassifierMixin, BaseEstimator):
    """A classifier fitted to the places of labels among the sorted labels of its rows, and read by their names.

    Classifiers with a promise put it around XGBoost's where labels are text or do not start at 0.

    Parameters
    ----------
    estimator : classifier
        It has `predict_proba`.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit the classifier itself; it is not cloned, since this object is made for it."""
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self.estimator_ = self.estimator.fit(X, codes, **params)
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the labels in `classes_`."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, if the classifier has them."""
        return self.estimator_.feature_names_in_

    @property
    def input_encoder_(self) -> Any:
        """What turns a table's columns into numbers."""
        return input_encoder_of(self.estimator_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def takes_codes_only(estimator: Any) -> bool:
    """Tell whether a classifier, or the last step of a pipeline, rejects labels other than 0, 1, 2, …"""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return type(last).__module__.split(".")[0] in PACKAGES


def with_codes(estimator: Any, y: Any) -> Any:
    """Return the classifier itself, or with its labels coded if it would reject these."""
    if not takes_codes_only(estimator):
        return estimator
    labels = np.unique(np.asarray(y))
    is_coded = labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels)))
    return estimator if is_coded else CodedLabels(estimator)
