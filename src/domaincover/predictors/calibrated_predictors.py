"""Sets from the scores of other classifiers, by thresholds that were calibrated on domains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.links import Link, log_odds
from domaincover.criteria import TargetRecall
from domaincover.options import Calibration, CriterionName
from domaincover.prediction_sets import Sets, sets_from_scores, single_label_sets
from domaincover.predictors.label_scores import MeanOfModels, ReadsColumns, last_step, scores_for
from domaincover.predictors.names import check_fitted, n_rows_of
from domaincover.predictors.set_predictor import SetPredictor

LEAVES_OUT = ("cross-fit", "jackknife-minmax")  # calibrations with an estimator for each group of domains left out


class Scored(NamedTuple):
    """Scores on the scale of the thresholds, and probabilities; +∞ and NaN for rows that could not be read.

    `encoded` are the features that labels of a domain are learned by, where they are needed.
    """

    scores: NDArray[Any]
    probabilities: NDArray[Any]
    encoded: NDArray[Any] | None = None

    @classmethod
    def joined(cls, blocks: Sequence[Scored], n_labels: int) -> Scored:
        """Return the rows of several blocks, or of none, as those of one."""
        nothing = np.empty((0, n_labels))
        scores, probabilities, encoded = zip(*(blocks or [cls(nothing, nothing)]), strict=True)
        features = None if encoded[0] is None else np.concatenate(encoded)
        return cls(np.concatenate(scores), np.concatenate(probabilities), features)

    def of(self, rows: NDArray[Any]) -> Scored:
        """Return some of the rows."""
        encoded = None if self.encoded is None else self.encoded[rows]
        return Scored(self.scores[rows], self.probabilities[rows], encoded)

    @property
    def is_readable(self) -> NDArray[np.bool_]:
        """Which rows could be read."""
        return np.asarray(np.isfinite(self.probabilities).all(axis=1))


class CalibratedPredictor(ReadsColumns, SetPredictor):
    """Log-odds of the mean of one or several classifiers, and the thresholds of their sets."""

    target_recall: TargetRecall
    criterion: CriterionName
    calibration: Calibration
    min_cell_size: int
    thresholds_: NDArray[np.float64]
    fit_domains_: NDArray[Any]
    calibration_domains_: NDArray[Any]
    estimator_: Any
    estimators_: Sequence[Any]
    lowest_: NDArray[np.float64]
    links_: Sequence[dict[str, Any]]

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores that are compared with the thresholds, examples × labels in the order of `classes_`.

        They are log-odds of the mean of the estimators; with "jackknife-minmax", the highest of any estimator.
        """
        return self.scored(X).scores

    def scored(self, X: Any) -> Scored:
        """Return the scores and probabilities of rows, which methods take in their place (in blocks, for instance)."""
        check_fitted(self)
        if isinstance(X, Scored):
            return X
        if n_rows_of(X) == 0:  # which scikit-learn's classifiers reject
            nothing = np.empty((0, len(self.classes_)))
            return Scored(nothing, nothing)
        if self.calibration == "jackknife-minmax":
            scores = reduce(np.maximum, (log_odds(np.exp(each)) for each in self.mean_.by_model(X)))
            return Scored(scores, scores)
        probabilities = self.mean_.probabilities(X)
        return Scored(log_odds(probabilities), probabilities)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        return sets_from_scores(self.label_scores(X), self.thresholds_)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label: the normalised geometric mean of the estimators'."""
        check_fitted(self)
        found = self.mean_.probabilities(X)
        return np.where(np.isnan(found), 1 / found.shape[1], found)  # a row that could not be read may be anything

    @property
    def mean_(self) -> MeanOfModels:
        """The mean of the fitted estimators."""
        links = tuple(Link(**each) for each in self.links_)
        return MeanOfModels(self.predictors_, self.classes_, self.lowest_, links)

    @property
    def leaves_out(self) -> bool:
        """Whether several estimators predict, each fitted without a group of the domains."""
        return hasattr(self, "estimators_")

    @property
    def predictors_(self) -> Sequence[Any]:
        """The fitted estimators that predict: one, or several with "cross-fit" and "jackknife-minmax"."""
        return self.estimators_ if self.leaves_out else [self.estimator_]

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
    def _reader(self) -> Any:
        return self.predictors_[0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "promise_")  # set last

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        """Return log-odds of the mean of the estimators, which rank the labels of an example."""
        return log_odds(self.mean_.probabilities(X)) if n_rows_of(X) else self.label_scores(X)


class ConformalPredictor(CalibratedPredictor):
    """Conformal sets, or without thresholds the most likely label alone.

    Scores of a single estimator are compared as they are: rules set the threshold of each label by itself.
    """

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores that are compared with the thresholds, examples × labels in the order of `classes_`.

        They are the estimator's; with "cross-fit" log-odds of the mean of the estimators, and with "jackknife-minmax"
        the highest log-odds of any estimator.
        """
        check_fitted(self)
        if self.leaves_out:
            return super().label_scores(X)
        return scores_for(self.estimator_, X, self.classes_)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return sets_from_scores(scores, self.thresholds_) if hasattr(self, "thresholds_") else single_label_sets(scores)

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        return super()._likelihoods(X) if self.leaves_out else self.label_scores(X)
