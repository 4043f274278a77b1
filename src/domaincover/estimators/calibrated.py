"""Base of the classifiers that calibrate another classifier's scores on domains."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from domaincover.calibration.adaptation_fit import ScoredRows
from domaincover.calibration.links import fit_link, log_odds, lowest_positive
from domaincover.calibration.rules import check_feasible, order_ranks
from domaincover.criteria import Criterion, TargetRecall, check_criterion
from domaincover.data.dataset import count_cells
from domaincover.data.identity import in_words, look_alikes
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import SetClassifier, Targets, generators, indexed, takes_inputs_of
from domaincover.estimators.scorer_fits import (
    Part,
    check_takes_weights,
    fit_on_each,
    places_in_order,
    plan_parts,
    taken,
)
from domaincover.options import MIN_CELL_SIZE, Calibration, CriterionName, OnInfeasible, OnRareLabel
from domaincover.predictors.calibrated_predictors import (
    LEAVES_OUT,
    CalibratedPredictor,
    has_margins,
    last_step,
    log_scores_for,
)
from domaincover.predictors.set_predictor import label_codes
from domaincover.promises.certificates import seen_among
from domaincover.terminal.processes import one_thread

Fitted = tuple[Any, Part]  # an estimator, the rows that it was fitted on, and those that it scores


class FitPlan(NamedTuple):
    """A prepared fit: coded data, and the fitting and calibration rows of each scorer."""

    X: Any
    y: NDArray[Any]
    domains: Any
    targets: Targets
    parts: list[Part]
    inner_parts: list[Part]  # within the training rows of the only other part
    rows_to_fit: list[NDArray[np.int64]]
    is_infeasible: bool  # every set holds every label
    sample_weight: Any


class ScoredParts(NamedTuple):
    """Calibration rows, and training rows where those set the scale, scored by the estimators of their parts.

    The rows are those that the parts calibrate, one part after the other. Training rows are scored by the estimators of
    folds among them, or by the one that they trained.
    """

    calibration: ScoredRows
    calibrated_by: list[Fitted]
    training: ScoredRows | None
    trained_by: list[Fitted]


def has_probabilities(classifier: CalibratedSetClassifier) -> bool:
    """Tell whether the estimator gives probabilities."""
    return hasattr(classifier.estimator, "predict_proba")


@dataclass(kw_only=True, eq=False, repr=False)
class CalibratedSetClassifier(CalibratedPredictor, SetClassifier):
    """Sets from the scores of another classifier, by thresholds from calibration domains.

    Subclasses set the thresholds (`_calibrate`) and define their promise (`_promised`, `_promise_in_words`).
    """

    estimator: Any = field(kw_only=False)
    target_recall: TargetRecall = 0.9
    criterion: CriterionName = "min-recall"
    calibration: Calibration = "held-out-domains"
    calibration_domains: float | None = None
    folds: int | None = None
    min_cell_size: int = MIN_CELL_SIZE
    on_infeasible: OnRareLabel = "raise"
    n_jobs: int | None = None
    random_state: Any = None

    _infeasible_options: ClassVar[tuple[str, ...]] = get_args(OnInfeasible)
    _label_types = (str,)  # the only objects that scikit-learn's classifiers accept

    @abstractmethod
    def _calibrate(self, X: Any, targets: Targets, fitted: Sequence[Fitted], inner: Sequence[Fitted]) -> None:
        """Set the thresholds from the scores of each part's calibration rows by that part's estimator."""

    @abstractmethod
    def _promise_in_words(self) -> str | None:
        """Return the promise about a new domain, or None."""

    @property
    @abstractmethod
    def _promised(self) -> float | None:
        """The share whose order statistic is promised, or None without a promise."""

    def _promised_to(self, criterion: Criterion) -> tuple[Any, str]:  # noqa: ARG002
        """Return what is promised to each group of the criterion, and its name."""
        return self._promised, "domain confidence"

    def _criterion_of(self, targets: Targets) -> Criterion:
        """Return the criterion for the labels of the data, of which a prefit estimator may know more."""
        known = getattr(self.estimator, "classes_", None) if self.calibration == "prefit" else None
        if known is None:
            return self._criterion_for(targets.classes)
        return self._criterion_for(np.asarray(known)).of_labels(label_codes(targets.classes, np.asarray(known)))

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
        inner = [] if widened.all() else self._inner_parts(targets, parts)
        rows = [] if self.calibration == "prefit" else [part.train for part in (*parts, *inner)]
        return FitPlan(X, y, domains, targets, parts, inner, rows, bool(widened.all()), weights)

    def _inner_parts(self, targets: Targets, parts: Sequence[Part]) -> list[Part]:  # noqa: ARG002
        """Return folds of the training rows, where what is learned for calibration takes scores by others."""
        return []

    def _fitted_scorers(self, plan: FitPlan) -> list[Any]:
        """Fit a clone of the estimator on each set of rows of a plan."""
        alone = self.calibration == "jackknife-minmax"  # its proof needs estimators fitted independently
        options: dict[str, Any] = {"sample_weight": plan.sample_weight, "n_jobs": self.n_jobs}
        return fit_on_each(self.estimator, plan.X, plan.y, plan.domains, plan.rows_to_fit, alone, **options)

    def _calibrated(self, plan: FitPlan, fitted: list[Any]) -> Self:
        """Calibrate the fitted scorers of a plan."""
        X, targets, parts = plan.X, plan.targets, plan.parts
        fitted, inner = fitted[: len(parts)], list(zip(fitted[len(parts) :], plan.inner_parts, strict=True))
        if self.calibration == "prefit":
            check_is_fitted(self.estimator)
            self.estimator_, fitted = self.estimator, [self.estimator]
            label_codes(self.classes_, np.asarray(self.estimator_.classes_))  # rejects labels unknown to the estimator
            self.classes_ = np.asarray(self.estimator_.classes_)
        elif len(parts) > 1:
            self.estimators_ = fitted
        else:
            (self.estimator_,) = fitted
        self.lowest_, self.links_ = np.zeros((len(fitted), len(self.classes_))), list[dict[str, Any]]()
        if plan.is_infeasible:
            self.calibration_domains_ = self.domains_[:0]
            self.thresholds_ = np.full(len(self.classes_), -np.inf)
        else:
            self._calibrate(X, targets, list(zip(fitted, parts, strict=True)), inner)
        self.promise_ = self._promise_in_words()
        return self

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label: the normalised geometric mean of the estimators'."""
        return super().predict_proba(X)

    def __sklearn_tags__(self) -> Tags:
        return takes_inputs_of(super().__sklearn_tags__(), [self.estimator])

    def _check_settings(self) -> None:
        check_criterion(self.criterion, self.target_recall)
        check_choice("calibration", self.calibration, get_args(Calibration))
        if self.calibration_domains is not None and not 0 < self.calibration_domains < 1:
            raise InputError(
                f"calibration_domains is a share of the domains between 0 and 1, got {self.calibration_domains:g}."
            )
        if self.folds is not None and (not isinstance(self.folds, int | np.integer) or self.folds < 2):
            raise InputError(f"folds must be an integer of at least 2, or None, got {self.folds!r}.")
        takes_folds, holds_out = self.calibration in LEAVES_OUT, self.calibration == "held-out-domains"
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
        options = self.calibration, self.folds, self.calibration_domains, self._promised, rng
        return plan_parts(targets, *options, self._places(targets.domain_names))

    def _places(self, names: Sequence[Any]) -> NDArray[np.int64] | None:
        """Return the place of each domain in their order; None where it does not matter."""
        order = getattr(self, "domain_order", None)
        return None if order is None else places_in_order(names, order)

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
        rare = self.on_infeasible
        if rare == "pool" and (order_ranks(np.count_nonzero(counts, axis=0), self._promised) < 1).all():
            rare = "raise"  # without any label to promise there is nothing to pool
        few_left = "calibrate on more of them (calibration_domains, or calibration='cross-fit')"
        return check_feasible(
            counts,
            *self._promised_to(criterion),
            criterion.group_names(targets.classes.tolist()),
            rare,
            can_pool="pool" in self._infeasible_options,
            min_cell_size=self.min_cell_size,
            hint=few_left if self.calibration == "held-out-domains" and len(self.domains_) > 1 else "add domains",
        )

    def _label_codes(self, targets: Targets) -> NDArray[np.int64]:
        """Return the place of each row's label in `classes_`, of which a prefit estimator may know more."""
        return label_codes(targets.classes, self.classes_)[targets.labels]

    def _scored_rows(
        self, X: Any, targets: Targets, fitted: Sequence[Fitted], inner: Sequence[Fitted] = ()
    ) -> ScoredParts:
        """Return rows with their log-odds by the estimator of their part, and learn what makes these of its scores.

        That is learned from an estimator's training rows where the promise is proved, since no calibration row may move
        it, and else from all calibration rows together. Training rows are scored by the `inner` estimators of folds
        among them, if there are any.
        """
        labels, own = self._label_codes(targets), list(fitted)
        on_training = list(inner) or [(model, Part(part.train, part.train)) for model, part in own]
        with one_thread():  # rounding may depend on how rows are dealt out to threads, and thresholds on rounding
            scores = [log_scores_for(model, taken(X, part.calibrate), self.classes_) for model, part in own]
            if self.calibration in ("held-out-domains", "jackknife-minmax"):
                seen = [log_scores_for(model, taken(X, part.calibrate), self.classes_) for model, part in on_training]
        rows, training_rows = (np.concatenate([part.calibrate for _, part in each]) for each in (own, on_training))
        if self.calibration == "jackknife-minmax":
            learned = [self._learned_of(each, labels[part.train]) for each, (_, part) in zip(seen, own, strict=True)]
        elif self.calibration == "held-out-domains":
            learned = [self._learned_of(np.concatenate(seen), labels[training_rows])]
        else:
            learned = [self._learned_of(np.concatenate(scores), labels[rows])] * len(own)
        if has_margins(self.estimator):
            self.links_ = [link._asdict() for link in learned]
        else:
            self.lowest_ = np.stack(learned)

        def with_log_odds(by_part: list[NDArray[Any]], rows: NDArray[np.int64]) -> ScoredRows:
            each = enumerate(by_part) if len(by_part) == len(own) else ((0, scores) for scores in by_part)
            found = np.exp(np.concatenate([self.mean_.log_probabilities(*one) for one in each]))
            return ScoredRows(log_odds(found), found, labels[rows], targets.domains[rows])

        calibration = with_log_odds(scores, rows)
        if self.calibration != "held-out-domains":
            return ScoredParts(calibration, own, None, [])
        return ScoredParts(calibration, own, with_log_odds(seen, training_rows), on_training)

    def _learned_of(self, scores: NDArray[np.float64], labels: NDArray[np.int64]) -> Any:
        """Return the link of margins, or of probabilities what stands for 0 of each label."""
        if not has_margins(self.estimator):
            return lowest_positive(np.exp(np.minimum(scores, 0.0)))
        readable = ~np.isposinf(scores).any(axis=1)
        return fit_link(scores[readable], labels[readable])


def cells_of(targets: Targets, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of examples of every cell among the given rows, domains × labels."""
    shape = len(targets.domain_names), len(targets.classes)
    return count_cells(targets.domains[rows], targets.labels[rows], *shape)


def _check_unseen(estimator: Any, domains: NDArray[Any]) -> None:
    """Reject calibration domains that the estimator was fitted on, if it has `domains_`, and warn of look-alikes."""
    names, known = domains.tolist(), np.asarray(getattr(last_step(estimator), "domains_", ())).tolist()
    is_seen = seen_among(names, known)
    seen = [name for name, known in zip(names, is_seen, strict=True) if known]
    if seen:
        named = ", ".join(map(repr, seen[:3])) + (" …" if len(seen) > 3 else "")
        raise InputError(
            f"{len(seen)} of {len(names)} calibration domains were seen in training ({named}); "
            "a promise about new domains needs others."
        )
    if pairs := look_alikes(names, known):
        warnings.warn(
            f"calibration domains look like some of the training: {in_words(pairs)}; they were taken for new.",
            stacklevel=5,
        )
