"""Any scikit-learn classifier's scores as sets, by one threshold per label."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter

from domaincover.calibration.rules import pooled_thresholds, robust_thresholds
from domaincover.data.cells import merge_small_cells
from domaincover.data.splits import hold_out_rows
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier, Targets, label_codes
from domaincover.estimators.seeds import generators
from domaincover.prediction_sets import Sets, check_target_recall, sets_from_scores, single_label_sets

Rule = Literal["robust", "pooled", "single"]
Calibration = Literal["held-out-domains", "training-data", "prefit"]
RULES = {"robust": robust_thresholds, "pooled": pooled_thresholds}


class ConformalSetClassifier(SetClassifier):
    """Sets from the scores of any classifier that has `predict_proba` or `decision_function`.

    A label is in the set where its score reaches the label's threshold, which comes from calibration domains: the
    lowest that any of them asks for ("robust", after the paper), or the one that holds the target on average over
    them ("pooled", after Dunn, Wasserman and Ramdas). "single" is no calibration: the most likely label alone.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Gradient boosting, a pipeline, one of ours; a copy of it is fitted.
    rule : "robust", "pooled" or "single"
    target_recall : float
    calibration : "held-out-domains", "training-data" or "prefit"
        Domains (rows, where there is one domain) that the estimator is not fitted on; the rows that it is fitted on,
        as in the paper, which promises nothing for flexible estimators; or all rows given, around an estimator that
        is fitted already and left as it is.
    calibration_domains : float
        Share of the domains held out.
    min_cell_size : int
        A label's (domain, label) cells with fewer examples calibrate as one: recall of a handful is noise.
    random_state : int, RandomState or None
        Fixes which domains calibrate.

    Attributes
    ----------
    classes_, domains_, thresholds_ : arrays
        Labels and domains of the data, and a threshold per label.
    training_domains_, calibration_domains_ : arrays
        The domains that the estimator was fitted on, and those that calibrated.
    estimator_ : the fitted estimator

    >>> from domaincover import ConformalSetClassifier, GaussianDomains
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = ConformalSetClassifier(LogisticRegression(), rule="robust", random_state=0)
    >>> model.fit(data.examples, data.labels, domains=data.domains).predict_set(data.examples[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        estimator: Any,
        rule: Rule = "robust",
        *,
        target_recall: float = 0.9,
        calibration: Calibration = "held-out-domains",
        calibration_domains: float = 0.25,
        min_cell_size: int = 20,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.target_recall = target_recall
        self.calibration = calibration
        self.calibration_domains = calibration_domains
        self.min_cell_size = min_cell_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Fit the estimator and calibrate it; None for `domains` means that there is one domain."""
        self._check_settings()
        X, y, domains = indexable(X, y, domains)
        targets = self._learn_targets(y, domains, _num_samples(X))
        train, calibrate = self._split(targets)
        self.training_domains_ = self.domains_[np.unique(targets.domains[train])]
        self._fit_estimator(X, targets.classes[targets.labels], domains, train)
        if self.rule == "single":
            for name in ("thresholds_", "calibration_domains_"):  # of an earlier fit
                self.__dict__.pop(name, None)
            return self
        self.calibration_domains_ = self.domains_[np.unique(targets.domains[calibrate])]
        labels = label_codes(targets.classes, self.classes_)[targets.labels[calibrate]]  # prefit may know more
        codes = targets.domains[calibrate]
        codes = merge_small_cells(codes, labels, len(self.domains_), len(self.classes_), self.min_cell_size)
        scores = self.label_scores(_taken(X, calibrate))
        thresholds = RULES[self.rule]
        self.thresholds_ = thresholds(scores, labels, codes, self.target_recall, label_names=self.classes_.tolist())
        return self

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return the estimator's scores, examples × labels in the order of `classes_`."""
        check_is_fitted(self, "estimator_")
        scores = _scores(self.estimator_, X)
        if scores.shape[1] == len(self.classes_) and np.array_equal(self.estimator_.classes_, self.classes_):
            return scores
        # A label that only calibration domains have gets the lowest score, and is then in every set.
        known = label_codes(self.estimator_.classes_, self.classes_)
        widened = np.full((len(scores), len(self.classes_)), -np.inf)
        widened[:, known] = scores
        return widened

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return single_label_sets(scores) if self.rule == "single" else sets_from_scores(scores, self.thresholds_)

    @property
    def n_features_in_(self) -> int:
        """How many columns `fit` was given, where the estimator tells."""
        check_is_fitted(self, "estimator_")
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns' names, where the estimator learned them."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    def _check_settings(self) -> None:
        check_target_recall(self.target_recall)
        if self.rule not in get_args(Rule):
            raise InputError(f"rule must be 'robust', 'pooled' or 'single', got {self.rule!r}.")
        if self.calibration not in get_args(Calibration):
            raise InputError(
                f"calibration must be 'held-out-domains', 'training-data' or 'prefit', got {self.calibration!r}."
            )
        if not 0 < self.calibration_domains < 1:
            raise InputError(
                f"calibration_domains is a share of the domains between 0 and 1, got {self.calibration_domains:g}."
            )
        if not any(hasattr(self.estimator, method) for method in ("predict_proba", "decision_function")):
            raise InputError(
                f"{type(self.estimator).__name__} has neither predict_proba nor decision_function; sets need scores."
            )

    def _split(self, targets: Targets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that train and those that calibrate."""
        rows = np.arange(len(targets.labels))
        if self.calibration != "held-out-domains" or self.rule == "single":
            return rows, rows
        (rng,) = generators(self.random_state, "calibration")
        n_domains, share = len(targets.domain_names), self.calibration_domains
        n_held_out = min(max(1, round(share * n_domains)), n_domains - 1)
        held_out = hold_out_rows(targets.domains, targets.labels, n_held_out, share, rng)
        if not held_out.any():
            raise InputError(f"there are too few rows of each label to hold {share:.0%} of them out for calibration.")
        return rows[~held_out], rows[held_out]

    def _fit_estimator(self, X: Any, y: Any, domains: Any, rows: NDArray[np.int64]) -> None:
        if self.calibration == "prefit":
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            label_codes(self.classes_, np.asarray(self.estimator_.classes_))  # refuses labels that it does not know
            self.classes_ = np.asarray(self.estimator_.classes_)
            return
        own = None if domains is None else _taken(domains, rows)
        self.estimator_ = clone(self.estimator)
        params = _domain_params(self.estimator_, own)
        self.estimator_.fit(_taken(X, rows), _taken(y, rows), **params)


def _taken(part: Any, rows: NDArray[np.int64]) -> Any:
    """Return the given rows; where they are all, nothing is copied."""
    return part if len(rows) == _num_samples(part) else _safe_indexing(part, rows)


def _scores(estimator: BaseEstimator, X: Any) -> NDArray[Any]:
    """Return one score per label: our own, probabilities, or decision values; two-label ones as −d and d."""
    for method in ("label_scores", "predict_proba", "decision_function"):
        if hasattr(estimator, method):
            scores = np.asarray(getattr(estimator, method)(X))
            scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
            one_vs_one = method == "decision_function" and getattr(estimator, "decision_function_shape", "") == "ovo"
            if scores.shape[1] != len(estimator.classes_) or (one_vs_one and len(estimator.classes_) > 2):
                raise InputError(
                    f"{type(estimator).__name__}.{method} must give one score per label, {len(estimator.classes_)}; "
                    f"it gives {scores.shape[1]}{' of pairs' if one_vs_one else ''}."
                )
            return scores
    raise InputError(f"{type(estimator).__name__} has neither predict_proba nor decision_function; sets need scores.")


def _domain_params(estimator: BaseEstimator, domains: Any) -> dict[str, Any]:
    """Return how to hand domains to an estimator that wants them: one of ours, or a pipeline that ends in one."""
    if domains is None:
        return {}
    is_routed = get_config()["enable_metadata_routing"]
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        if not has_fit_parameter(last, "domains"):
            return {}
        if is_routed:
            last.set_fit_request(domains=True)  # the estimator is our copy, and we know that it wants them
        return {"domains" if is_routed else f"{name}__domains": domains}
    requested = is_routed and get_routing_for_object(estimator).consumes("fit", ["domains"])  # such as a search
    return {"domains": domains} if requested or has_fit_parameter(estimator, "domains") else {}
