"""Sets from the scores of another classifier, by thresholds that were calibrated on domains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.scales import Scale
from domaincover.criteria import TargetRecall
from domaincover.options import Calibration, CriterionName
from domaincover.prediction_sets import Sets, sets_from_scores, single_label_sets
from domaincover.predictors.label_scores import (
    input_encoder_of,
    last_step,
    log_scores_for,
    probabilities_for,
    scores_for,
)
from domaincover.predictors.names import check_fitted
from domaincover.predictors.set_predictor import SetPredictor


class CalibratedPredictor(SetPredictor):
    """Scores of one classifier, or of several on comparable scales, and the thresholds of their sets."""

    target_recall: TargetRecall
    criterion: CriterionName
    calibration: Calibration
    min_cell_size: int
    thresholds_: NDArray[np.float64]
    fit_domains_: NDArray[Any]
    calibration_domains_: NDArray[Any]
    estimator_: Any
    estimators_: Sequence[Any]
    score_bases_: NDArray[np.float64]
    score_units_: NDArray[np.float64]

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores that are compared with the thresholds, examples × labels in the order of `classes_`.

        They are the estimator's scores, rescaled where labels or estimators must be comparable.
        """
        check_fitted(self)
        if not hasattr(self, "score_units_"):
            return scores_for(self.estimator_, X, self.classes_)
        scales = map(Scale, self.score_bases_, self.score_units_)
        levels = (self._levels(*each, X) for each in zip(self.predictors_, scales, strict=True))
        return reduce(np.maximum, levels)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        return sets_from_scores(self.label_scores(X), self.thresholds_)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label, averaged over the estimators."""
        return np.mean([probabilities_for(each, X, self.classes_) for each in self.predictors_], axis=0)

    @property
    def predictors_(self) -> Sequence[Any]:
        """The fitted estimators that predict: one, or several with "jackknife-minmax"."""
        check_fitted(self)
        return self.estimators_ if hasattr(self, "estimators_") else [self.estimator_]

    @property
    def training_domains_(self) -> NDArray[Any]:
        """The domains that the estimators were trained on, without those used only for calibration."""
        inner = [last_step(each) for each in self.predictors_]
        own = [each.training_domains_ for each in inner if isinstance(each, SetPredictor)]
        if not own:
            return self.fit_domains_
        names = dict.fromkeys(name for domains in own for name in domains.tolist())
        return np.fromiter(names, dtype=object, count=len(names))

    @property
    def seen_domains_(self) -> list[Any] | None:
        """All domains used in training or calibration; None if unknown."""
        seen = super().seen_domains_
        if self.calibration != "prefit" or seen is None:
            return seen
        inner = last_step(self.estimator_)
        before = inner.seen_domains_ if isinstance(inner, SetPredictor) else None
        return None if before is None else [*before, *seen]

    @property
    def input_encoder_(self) -> Any:
        """The encoder that turns a table's columns into numbers, or None."""
        return input_encoder_of(self.predictors_[0])

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen in `fit`, if the estimator has it."""
        return int(self.predictors_[0].n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, if the estimator has them."""
        first = self.predictors_[0]
        return first.feature_names_in_ if hasattr(first, "feature_names_in_") else np.array(first.feature_names_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "promise_")  # set last

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        """Return the unscaled scores, averaged over the estimators."""
        return np.mean([scores_for(estimator, X, self.classes_) for estimator in self.predictors_], axis=0)

    def _levels(self, estimator: Any, scale: Scale, X: Any) -> NDArray[Any]:
        """Return the scores in comparable units."""
        return (log_scores_for(estimator, X, self.classes_) - scale.base) / scale.unit


class ConformalPredictor(CalibratedPredictor):
    """Conformal sets, or without thresholds the most likely label alone."""

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return sets_from_scores(scores, self.thresholds_) if hasattr(self, "thresholds_") else single_label_sets(scores)
