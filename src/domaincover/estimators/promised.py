"""Network classifiers that also promise something about new domains."""

from __future__ import annotations

from typing import Any, Literal, Self

from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from domaincover.calibration.confidence import OnInfeasible
from domaincover.estimators.conformal import ConformalSetClassifier
from domaincover.estimators.network import NetworkClassifier
from domaincover.prediction_sets import Sets


class PromisedNetwork(NetworkClassifier):
    """A network classifier which, given a `domain_confidence`, is calibrated by the joint rule."""

    target_recall: float
    domain_confidence: float | None
    calibration: Literal["held-out-domains", "cross-fit", "jackknife-minmax"]
    folds: int | None
    on_infeasible: OnInfeasible

    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Train on examples, labels and the domain of each example; None means that there is one domain."""
        for name in [name for name in vars(self) if name.endswith("_")]:  # of an earlier fit
            delattr(self, name)
        if self.domain_confidence is None:
            return super().fit(X, y, domains=domains)
        bare = clone(self).set_params(domain_confidence=None)
        self.calibrated_ = ConformalSetClassifier(
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
        self.calibrated_.fit(X, y, domains=domains)
        for name in ("classes_", "domains_", "thresholds_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.calibrated_, name):
                setattr(self, name, getattr(self.calibrated_, name))
        return self

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores, examples × labels in the order of `classes_`."""
        check_is_fitted(self)
        return self.calibrated_.label_scores(X) if self._is_calibrated else super().label_scores(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return one label for each example: the one with the highest score, whether or not it is in the set."""
        check_is_fitted(self)
        return self.calibrated_.predict(X) if self._is_calibrated else super().predict(X)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        check_is_fitted(self)
        return self.calibrated_.predict_set(X) if self._is_calibrated else self._own_sets(X)

    @property
    def promise(self) -> str | None:
        """What the fitted sets promise about a new domain, in a sentence; None where they promise nothing."""
        return self.calibrated_.promise if self._is_calibrated else None

    def _own_sets(self, X: Any) -> Sets:
        """Return the sets without a promise."""
        raise NotImplementedError

    @property
    def _is_calibrated(self) -> bool:
        return hasattr(self, "calibrated_")
