"""Network classifiers that also promise something about new domains."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, get_args

from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from domaincover.errors import InputError
from domaincover.estimators.conformal import ConformalSetClassifier
from domaincover.estimators.network import NetworkClassifier
from domaincover.options import OnInfeasible, PromiseCalibration
from domaincover.prediction_sets import Sets

CALIBRATIONS = get_args(PromiseCalibration)


class PromisedNetwork(NetworkClassifier):
    """A network classifier which, given a `domain_confidence`, is calibrated by the joint rule."""

    target_recall: float
    domain_confidence: float | None
    calibration: PromiseCalibration
    folds: int | None
    on_infeasible: OnInfeasible

    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Train on examples, labels and the domain of each example; None means that there is one domain."""
        for name in [name for name in vars(self) if name.endswith("_")]:  # of an earlier fit
            delattr(self, name)
        if self.domain_confidence is None:
            return super().fit(X, y, domains=domains)
        if self.calibration not in CALIBRATIONS:
            known = ", ".join(map(repr, CALIBRATIONS))
            raise InputError(f"calibration must be one of {known}, got {self.calibration!r}.")
        bare = clone(self).set_params(domain_confidence=None)
        calibrated = ConformalSetClassifier(
            bare,
            "joint",
            target_recall=self.target_recall,
            domain_confidence=self.domain_confidence,
            calibration=self.calibration,
            folds=self.folds,
            min_cell_size=self.min_cell_size,
            on_infeasible=self.on_infeasible,
            random_state=self.random_state,
        )
        self.calibrated_ = calibrated.fit(X, y, domains=domains)
        for name in ("classes_", "domains_", "thresholds_", "promise_", "n_features_in_", "feature_names_in_"):
            if hasattr(calibrated, name):
                setattr(self, name, getattr(calibrated, name))
        return self

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores, examples × labels in the order of `classes_`."""
        check_is_fitted(self)
        return self.calibrated_.label_scores(X) if self._is_calibrated else super().label_scores(X)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        check_is_fitted(self)
        return self.calibrated_.predict_set(X) if self._is_calibrated else self._own_sets(X)

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        return self.calibrated_._likelihoods(X) if self._is_calibrated else self.label_scores(X)

    @abstractmethod
    def _own_sets(self, X: Any) -> Sets:
        """Return the sets without a promise."""

    @property
    def _is_calibrated(self) -> bool:
        return hasattr(self, "calibrated_")
