"""Base of the classifiers that calibrate another classifier's scores on domains."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from domaincover.calibration.confidence import check_feasible
from domaincover.calibration.scales import Scale, as_they_are, quantile_scale
from domaincover.criteria import Criterion, check_criterion
from domaincover.data.cells import count_cells
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import SetClassifier, Targets, generators, indexed
from domaincover.estimators.folds import Part, plan_parts
from domaincover.estimators.scorer_fits import check_takes_weights, fit_on_each, taken
from domaincover.options import Calibration, OnInfeasible, OnRareLabel
from domaincover.predictors.calibrated_predictors import CalibratedPredictor
from domaincover.predictors.label_scores import last_step, log_scores_for, scores_for
from domaincover.predictors.names import label_codes
from domaincover.promises.certificates import seen_among

CROSS_FITTED = ("cross-fit", "jackknife-minmax")


class FitPlan(NamedTuple):
    """A prepared fit: coded data, and the fitting and calibration rows of each scorer."""

    X: Any
    y: NDArray[Any]
    domains: Any
    targets: Targets
    parts: list[Part]
    rows_to_fit: list[NDArray[np.int64]]
    is_infeasible: bool  # every set holds every label
    sample_weight: Any


def has_probabilities(classifier: CalibratedSetClassifier) -> bool:
    """Tell whether the estimator gives probabilities."""
    return hasattr(classifier.estimator, "predict_proba")


class CalibratedSetClassifier(CalibratedPredictor, SetClassifier):
    """Sets from the scores of another classifier, by thresholds from calibration domains.

    Subclasses define the thresholds (`_thresholds`) and their promise (`_promised`, `_promise_in_words`).
    """

    estimator: Any
    calibration_domains: float | None
    folds: int | None
    on_infeasible: OnRareLabel
    n_jobs: int | None
    random_state: Any

    _label_types = (str,)  # the only objects that scikit-learn's classifiers accept

    @abstractmethod
    def _thresholds(self, levels: NDArray[Any], labels: NDArray[np.int64], domains: NDArray[np.int64]) -> Any:
        """Return the threshold of every label from the scores of calibration rows."""

    @abstractmethod
    def _promise_in_words(self) -> str | None:
        """Return the promise about a new domain, or None."""

    @property
    @abstractmethod
    def _promised(self) -> float | None:
        """The share whose order statistic is promised, or None without a promise."""

    def _promised_share(self, criterion: Criterion) -> Any:  # noqa: ARG002
        """Return what is promised to each group of the criterion."""
        return self._promised

    def _criterion_of(self, targets: Targets) -> Criterion:
        """Return the criterion for the labels of the data, of which a prefit estimator may know more."""
        known = getattr(self.estimator, "classes_", None) if self.calibration == "prefit" else None
        if known is None:
            return self._criterion_for(targets.classes)
        return self._criterion_for(np.asarray(known)).of_labels(label_codes(targets.classes, np.asarray(known)))

    @property
    def _promised_what(self) -> str:
        return "domain confidence"

    @property
    def _scales_scores(self) -> bool:
        """Whether scores are rescaled by label or estimator before calibration."""
        return self.calibration in CROSS_FITTED

    @property
    def _predicts_with_folds(self) -> bool:
        """Whether the estimators that calibrate also predict."""
        return self.calibration == "jackknife-minmax"

    @property
    def _infeasible_options(self) -> tuple[str, ...]:
        return get_args(OnInfeasible)

    def _n_folds(self) -> int | None:
        return self.folds

    def _rare_labels(self, n_by_cell: NDArray[np.int64]) -> OnRareLabel:  # noqa: ARG002
        """Return how labels in too few domains are handled."""
        return self.on_infeasible

    def fit(self, X: Any, y: Any, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Fit the estimator and calibrate its scores.

        Parameters
        ----------
        X : array-like or DataFrame
        y : array-like
            Labels.
        domains : array-like or None
            The domain of each row; None means a single domain.
        sample_weight : array-like or None
            The weight of each row in the fits of the estimator. Calibration counts rows: recalls have no weights.
        """
        plan = self._planned(X, y, domains, sample_weight)
        return self._calibrated(plan, self._fitted_scorers(plan))

    def _planned(self, X: Any, y: Any, domains: Any, sample_weight: Any = None) -> FitPlan:
        """Check and code the data, and choose the fitting and calibration rows."""
        self._check_settings()
        if domains is None and self._promised is not None and self.on_infeasible != "widen":
            raise InputError(
                f"{type(self).__name__}.fit needs the domain of each row for a promise about new domains: "
                "fit(X, y, domains=…)."
            )
        if self.calibration == "prefit" and sample_weight is not None:
            raise InputError(
                "sample_weight has no effect with calibration='prefit', which fits no estimator and counts rows; leave "
                "it out."
            )
        check_takes_weights(self.estimator, sample_weight)
        X, y, domains, weights = indexed(X, y, domains, sample_weight)
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)  # of an earlier fit
        targets = self._learn_targets(y, domains, _num_samples(X))
        self._criterion_of(targets)  # rejects targets of unknown labels before training
        parts = self._plan(targets)
        widened = self._check_promise(targets, parts)
        if widened.all():  # nothing can be calibrated: every set holds every label
            parts = [Part(np.arange(len(targets.labels)), parts[0].calibrate)]
        y = targets.classes[targets.labels]
        self.fit_domains_ = self.domains_[np.unique(targets.domains[np.concatenate([part.train for part in parts])])]
        rows = [] if self.calibration == "prefit" else [part.train for part in parts]
        if self.calibration == "cross-fit" and len(parts) > 1 and not self._predicts_with_folds:
            rows.append(np.arange(len(y)))
        return FitPlan(X, y, domains, targets, parts, rows, bool(widened.all()), weights)

    def _fitted_scorers(self, plan: FitPlan) -> list[Any]:
        """Fit a clone of the estimator on each set of rows of a plan."""
        alone = self.calibration == "jackknife-minmax"  # its proof needs estimators fitted independently
        options: dict[str, Any] = {"sample_weight": plan.sample_weight, "n_jobs": self.n_jobs}
        return fit_on_each(self.estimator, plan.X, plan.y, plan.domains, plan.rows_to_fit, alone, **options)

    def _calibrated(self, plan: FitPlan, fitted: list[Any]) -> Self:
        """Calibrate the fitted scorers of a plan."""
        X, targets, parts = plan.X, plan.targets, plan.parts
        if self.calibration == "prefit":
            check_is_fitted(self.estimator)
            self.estimator_, fitted = self.estimator, [self.estimator]
            label_codes(self.classes_, np.asarray(self.estimator_.classes_))  # rejects labels unknown to the estimator
            self.classes_ = np.asarray(self.estimator_.classes_)
        elif self._predicts_with_folds and len(parts) > 1:
            self.estimators_ = fitted
        else:
            self.estimator_ = fitted[-1]
        if plan.is_infeasible:
            self.calibration_domains_ = self.domains_[:0]
            self.thresholds_ = np.full(len(self.classes_), -np.inf)
        else:
            self._calibrate(X, targets, parts, fitted[: len(parts)])
        self.promise_ = self._promise_in_words()
        return self

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label, averaged over the estimators."""
        return super().predict_proba(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    def _check_settings(self) -> None:
        check_criterion(self.criterion, self.target_recall)
        check_choice("calibration", self.calibration, get_args(Calibration))
        if self.calibration_domains is not None and not 0 < self.calibration_domains < 1:
            raise InputError(
                f"calibration_domains is a share of the domains between 0 and 1, got {self.calibration_domains:g}."
            )
        if self.folds is not None and (not isinstance(self.folds, int | np.integer) or self.folds < 2):
            raise InputError(f"folds must be an integer of at least 2, or None, got {self.folds!r}.")
        takes_folds, holds_out = self.calibration in CROSS_FITTED, self.calibration == "held-out-domains"
        for name, is_used in (("folds", takes_folds), ("calibration_domains", holds_out)):
            if getattr(self, name) is not None and not is_used:
                raise InputError(f"{name} has no effect with calibration={self.calibration!r}; leave it out.")
        check_choice("on_infeasible", self.on_infeasible, self._infeasible_options)
        if not any(hasattr(self.estimator, method) for method in ("predict_proba", "decision_function")):
            raise InputError(f"{type(self.estimator).__name__} has neither predict_proba nor decision_function.")
        if self._promised is not None and self.calibration == "training-data":
            raise InputError(
                "a promise about new domains cannot be calibrated on the training domains; choose "
                "calibration='held-out-domains', 'cross-fit' or 'jackknife-minmax'."
            )

    def _plan(self, targets: Targets) -> list[Part]:
        rows = np.arange(len(targets.labels))
        if self._promised is not None and self.on_infeasible == "widen" and len(targets.domain_names) == 1:
            return [Part(rows, rows[:0])]
        (rng,) = generators(self.random_state, "calibration")
        return plan_parts(targets, self.calibration, self._n_folds(), self.calibration_domains, self._promised, rng)

    def _check_promise(self, targets: Targets, parts: Sequence[Part]) -> NDArray[np.bool_]:
        """Reject, before training, too few calibration domains, or domains that the estimator has seen.

        Returns a mask of the constrained labels without a promise, which will be in every set.
        """
        if self._promised is None:
            return np.array([False])
        if self.calibration == "prefit":
            _check_unseen(self.estimator, self.domains_)
        criterion = self._criterion_of(targets)
        counts = criterion.group_counts(cells_of(targets, np.concatenate([part.calibrate for part in parts])))
        counts = np.where(counts < self.min_cell_size, 0, counts)
        few_left = "calibrate on more of them (calibration_domains, or calibration='cross-fit')"
        return check_feasible(
            counts,
            self._promised_share(criterion),
            self._promised_what,
            criterion.group_names(targets.classes.tolist()),
            self._rare_labels(counts),
            can_pool="pool" in self._infeasible_options,
            min_cell_size=self.min_cell_size,
            hint=few_left if self.calibration == "held-out-domains" and len(self.domains_) > 1 else "add domains",
        )

    def _calibrate(self, X: Any, targets: Targets, parts: Sequence[Part], fitted: Sequence[Any]) -> None:
        """Compute the thresholds from the scores of each part's calibration rows by that part's estimator."""
        labels = label_codes(targets.classes, self.classes_)[targets.labels]  # a prefit estimator may know more
        scaled = self._scales_scores
        levels, scales = [], []
        for estimator, part in zip(fitted, parts, strict=True):
            scales += [self._scale(estimator, X, labels, part.train)] if scaled else []
            own = taken(X, part.calibrate)
            levels.append(
                self._levels(estimator, scales[-1], own) if scaled else scores_for(estimator, own, self.classes_)
            )
        if self.calibration == "cross-fit":
            scales = [self._scale(self.estimator_, X, labels, np.arange(len(labels)))]
        if scaled:
            self.score_bases_, self.score_units_ = (np.stack(values) for values in zip(*scales, strict=True))
        rows = np.concatenate([part.calibrate for part in parts])
        least = self.min_cell_size if self._promised is not None else 1
        counts = self._criterion_of(targets).group_counts(cells_of(targets, rows)) >= least
        self.calibration_domains_ = self.domains_[counts.any(axis=1)]
        self.thresholds_ = self._thresholds(np.concatenate(levels), labels[rows], targets.domains[rows])

    def _scale(self, estimator: Any, X: Any, labels: NDArray[np.int64], rows: NDArray[np.int64]) -> Scale:
        """Return the scale from an estimator's training rows."""
        if self.calibration == "prefit":
            return as_they_are(len(self.classes_))  # its training rows are unknown
        scores = log_scores_for(estimator, taken(X, rows), self.classes_)
        scale = quantile_scale(scores, labels[rows], self.own_criterion)
        # Margins share one unit across labels; only different networks need rescaling.
        return scale.for_all_labels() if getattr(last_step(estimator), "scores_are_margins", False) else scale


def cells_of(targets: Targets, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of examples of every cell among the given rows, domains × labels."""
    shape = len(targets.domain_names), len(targets.classes)
    return count_cells(targets.domains[rows], targets.labels[rows], *shape)


def _check_unseen(estimator: Any, domains: NDArray[Any]) -> None:
    """Reject calibration domains that the estimator was fitted on, if it has `domains_`."""
    names = domains.tolist()
    is_seen = seen_among(names, list(getattr(last_step(estimator), "domains_", ())))
    seen = [name for name, known in zip(names, is_seen, strict=True) if known]
    if seen:
        named = ", ".join(map(repr, seen[:3])) + (" …" if len(seen) > 3 else "")
        raise InputError(
            f"{len(seen)} of {len(names)} calibration domains were seen in training ({named}); "
            "a promise about new domains needs others."
        )
