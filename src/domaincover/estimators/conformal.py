"""Any scikit-learn classifier's scores as sets, by one threshold per label."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted

from domaincover.calibration.confidence import check_feasible
from domaincover.calibration.joint import joint_thresholds
from domaincover.calibration.rules import (
    hierarchical_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.calibration.scales import Scale, as_they_are, quantile_scale
from domaincover.data.cells import count_cells, merge_small_cells
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier, Targets, indexed, label_codes
from domaincover.estimators.folds import Part, plan_parts
from domaincover.estimators.scorer_fits import fit_on_each, last_step, log_scores_for, scores_for, taken
from domaincover.estimators.seeds import generators
from domaincover.options import Calibration, OnInfeasible
from domaincover.prediction_sets import Sets, check_share, check_target_recall, sets_from_scores, single_label_sets
from domaincover.promises.certificates import seen_among

Rule = Literal["robust", "pooled", "hierarchical", "order", "joint", "single"]
RULES: dict[str, Callable[..., NDArray[np.float64]]] = {
    "robust": robust_thresholds,
    "pooled": pooled_thresholds,
    "hierarchical": hierarchical_thresholds,
    "order": order_thresholds,
    "joint": joint_thresholds,
}
CROSS_FITTED = ("cross-fit", "jackknife-minmax")
WITH_CONFIDENCE = ("order", "joint")
PROMISING = (*WITH_CONFIDENCE, "hierarchical")
LEARNED = (
    "calibration_domains_",
    "estimator_",
    "estimators_",
    "promise_",
    "score_bases_",
    "score_units_",
    "thresholds_",
    "training_domains_",
)


class ConformalSetClassifier(SetClassifier):
    """Sets from the scores of any classifier that has `predict_proba` or `decision_function`.

    A label is in the set where its score reaches the label's threshold, which comes from calibration domains:

    - "robust" (the paper): the lowest that any of them asks for;
    - "pooled" (Dunn, Wasserman and Ramdas): the one that holds the target on average over them;
    - "hierarchical" (Lee, Barber and Willett): the same with a promise: each label's expected recall in a new domain is
      at target;
    - "order" (Duchi, Gupta, Jiang and Sur): each label by itself is at target in a new domain with `domain_confidence`;
    - "joint": all labels of a new domain are at target, together, with `domain_confidence`;
    - "single" is no calibration: the most likely label alone.

    The promises are for domains drawn like the calibration domains, and need calibration domains that the estimator has
    not seen: see `calibration`.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Gradient boosting, a pipeline, one of ours; a copy of it is fitted.
    rule : one of those above, or None
        None is "joint" where a domain confidence is given, and "robust" where none is.
    target_recall : float
    domain_confidence : float or None
        For "order" and "joint": the probability that a new domain is at target, such as 0.9.
    calibration : str
        - "held-out-domains" are not fitted on (rows, where there is one domain and nothing is promised). The promise
          is exact; the estimator learns from fewer domains.
        - "cross-fit" calibrates each of `folds` groups of domains with an estimator that was fitted on the others, and
          predicts with one fitted on all. No domain is lost, and `folds` + 1 fits; the promise is not proved, since
          the estimator that predicts is none of those calibrated, but one that saw more domains.
        - "jackknife-minmax" leaves one domain out at a time, and a label is in the set where any of these estimators
          puts it there. The promise is exact and no domain is lost; as many fits, and predictions, as domains left out.
        - "training-data": the rows that it is fitted on, as in the paper, which promises nothing.
        - "prefit": all rows given, around an estimator that is fitted already and left as it is. The promise is exact
          if their domains are not those that it was fitted on.
    calibration_domains : float or None
        Share of the domains held out; None is a quarter, or as many as the confidence needs.
    folds : int or None
        How many groups "cross-fit" makes, or how many domains "jackknife-minmax" leaves out. None is 10, and 25 or as
        many as the confidence needs. As many as there are domains leaves out one at a time.
    min_cell_size : int
        A label's (domain, label) cells with fewer examples calibrate as one; where something is promised, they count
        neither in calibration nor in the promise.
    on_infeasible : "raise" or "widen"
        What to do where there are too few domains for the confidence, of all or of a label: refuse, or put what cannot
        be promised into every set.
    random_state : int, RandomState or None
        Fixes which domains calibrate.

    Attributes
    ----------
    classes_, domains_, thresholds_ : arrays
        Labels and domains of the data, and a threshold per label.
    training_domains_, calibration_domains_ : arrays
        The domains that the estimator (one of them, when cross-fitted) was fitted on, and those that calibrated.
    estimator_ : the fitted estimator
        With "jackknife-minmax" there is none, but `estimators_`.
    scale_ : what makes the scores of labels, and of several estimators, comparable, where that is needed

    >>> from domaincover import ConformalSetClassifier, GaussianDomains
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = ConformalSetClassifier(LogisticRegression(), rule="robust", random_state=0)
    >>> model.fit(data.examples, data.labels, domains=data.domains).predict_set(data.examples[:3]).shape
    (3, 2)
    """

    _label_types = (str,)  # scikit-learn's classifiers take no other objects

    def __init__(
        self,
        estimator: Any,
        rule: Rule | None = None,
        *,
        target_recall: float = 0.9,
        domain_confidence: float | None = None,
        calibration: Calibration = "held-out-domains",
        calibration_domains: float | None = None,
        folds: int | None = None,
        min_cell_size: int = 20,
        on_infeasible: OnInfeasible = "raise",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.rule = rule
        self.target_recall = target_recall
        self.domain_confidence = domain_confidence
        self.calibration = calibration
        self.calibration_domains = calibration_domains
        self.folds = folds
        self.min_cell_size = min_cell_size
        self.on_infeasible = on_infeasible
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, domains: Any = None) -> Self:
        """Fit the estimator and calibrate it; None for `domains` means that there is one domain."""
        self._check_settings()
        X, y, domains = indexed(X, y, domains)
        targets = self._learn_targets(y, domains, _num_samples(X))
        for name in LEARNED:  # of an earlier fit
            self.__dict__.pop(name, None)
        parts = self._plan(targets)
        widened = self._check_promise(targets, parts)
        if widened.all():  # nothing can be calibrated: the sets hold every label
            parts = [Part(np.arange(len(targets.labels)), parts[0].calibrate)]
        y = targets.classes[targets.labels]
        trained = np.concatenate([part.train for part in parts])
        self.training_domains_ = self.domains_[np.unique(targets.domains[trained])]
        fitted = self._fit_parts(X, y, domains, parts)
        if widened.all():
            self.calibration_domains_ = self.domains_[:0]
            self.thresholds_ = np.full(len(self.classes_), -np.inf)
        elif self._rule != "single":
            self._calibrate(X, targets, parts, fitted)
        self.promise_ = self._promise_in_words()
        return self

    def label_scores(self, X: Any) -> NDArray[Any]:
        """Return what is compared with the thresholds, examples × labels in the order of `classes_`.

        The estimator's scores; in units that make them comparable for "joint" and where several estimators calibrated.
        """
        check_is_fitted(self)
        if not hasattr(self, "score_units_"):
            return scores_for(self.estimator_, X, self.classes_)
        scales = map(Scale, self.score_bases_, self.score_units_)
        levels = (self._levels(*each, X) for each in zip(self.predictors_, scales, strict=True))
        return reduce(np.maximum, levels)

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return sets_from_scores(scores, self.thresholds_) if hasattr(self, "thresholds_") else single_label_sets(scores)

    @property
    def predictors_(self) -> Sequence[Any]:
        """The estimators that predict: one, or with "jackknife-minmax" several."""
        check_is_fitted(self)
        return self.estimators_ if hasattr(self, "estimators_") else [self.estimator_]

    @property
    def n_features_in_(self) -> int:
        """How many columns `fit` was given, where the estimator tells."""
        return int(self.predictors_[0].n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns' names, where the estimator learned them."""
        return self.predictors_[0].feature_names_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    @property
    def _rule(self) -> Rule:
        return self.rule or ("robust" if self.domain_confidence is None else "joint")

    def _likelihoods(self, X: Any) -> NDArray[Any]:
        """Return the estimator's own scores, the mean of several."""
        return np.mean([scores_for(estimator, X, self.classes_) for estimator in self.predictors_], axis=0)

    def _promise_in_words(self) -> str | None:
        """Say what the sets promise about a new domain; None where they promise nothing."""
        if self._rule not in PROMISING:
            return None
        widened = self.classes_[np.isneginf(self.thresholds_)].tolist()
        if len(widened) == len(self.classes_):
            return "Every set holds every label, since there are too few domains to promise anything else."
        promise = f"In a new domain drawn like the {len(self.calibration_domains_)} that calibrated, "
        counting = f"with at least {self.min_cell_size} examples there" if self.min_cell_size > 1 else "that it has"
        if self._rule == "hierarchical":
            promise += f"the recall of each label {counting} is {self.target_recall:g} or more on average"
        else:
            promise += "every label" if self._rule == "joint" else "a label, each by itself,"
            promise += f" {counting} has recall {self.target_recall:g} or more"
            promise += f" with probability {self.domain_confidence:g} or more"
        if self.calibration == "cross-fit":
            promise += "; cross-fitted, so this is expected but not proved"
        if widened:
            promise += f"; in every set, since too few domains have them: {', '.join(map(repr, widened))}"
        return f"{promise}."

    def _check_settings(self) -> None:
        check_target_recall(self.target_recall)
        if self._rule not in get_args(Rule):
            raise InputError(f"rule must be one of {', '.join(map(repr, get_args(Rule)))}, got {self.rule!r}.")
        if self.calibration not in get_args(Calibration):
            known = ", ".join(map(repr, get_args(Calibration)))
            raise InputError(f"calibration must be one of {known}, got {self.calibration!r}.")
        if self.calibration_domains is not None and not 0 < self.calibration_domains < 1:
            raise InputError(
                f"calibration_domains is a share of the domains between 0 and 1, got {self.calibration_domains:g}."
            )
        if self.folds is not None and (not isinstance(self.folds, int | np.integer) or self.folds < 2):
            raise InputError(f"folds must be a whole number from 2, or None, got {self.folds!r}.")
        if self.on_infeasible not in get_args(OnInfeasible):
            raise InputError(f"on_infeasible must be 'raise' or 'widen', got {self.on_infeasible!r}.")
        if not any(hasattr(self.estimator, method) for method in ("predict_proba", "decision_function")):
            raise InputError(
                f"{type(self.estimator).__name__} has neither predict_proba nor decision_function; sets need scores."
            )
        self._check_confidence()

    def _check_confidence(self) -> None:
        if self._rule in WITH_CONFIDENCE:
            if self.domain_confidence is None:
                raise InputError(f"rule={self._rule!r} needs a domain_confidence, such as 0.9.")
            check_share(self.domain_confidence, "domain confidence")
        elif self.domain_confidence is not None:
            raise InputError(
                f"rule={self._rule!r} promises nothing about a new domain, so domain_confidence has no meaning; "
                "take rule='joint' or 'order'."
            )
        if self._rule in PROMISING and self.calibration == "training-data":
            raise InputError(
                f"rule={self._rule!r} is a promise about new domains, which domains that the estimator was fitted on "
                "cannot give; take calibration='held-out-domains', 'cross-fit' or 'jackknife-minmax'."
            )

    @property
    def _promised(self) -> float | None:
        """The share whose order statistic promises something: a confidence, or for "hierarchical" the target."""
        return self.target_recall if self._rule == "hierarchical" else self.domain_confidence

    def _plan(self, targets: Targets) -> list[Part]:
        rows = np.arange(len(targets.labels))
        if self._rule == "single":
            return [Part(rows, rows)]
        if self._rule in PROMISING and self.on_infeasible == "widen" and len(targets.domain_names) == 1:
            return [Part(rows, rows[:0])]
        (rng,) = generators(self.random_state, "calibration")
        return plan_parts(targets, self.calibration, self.folds, self.calibration_domains, self._promised, rng)

    def _check_promise(self, targets: Targets, parts: Sequence[Part]) -> NDArray[np.bool_]:
        """Say before training where there are too few domains, or such as the estimator has seen.

        Returns which labels cannot be promised and will be in every set.
        """
        if self._rule not in PROMISING:
            return np.array([False])
        if self.calibration == "prefit":
            _check_unseen(self.estimator, self.domains_)
        counts = _cells_of(targets, np.concatenate([part.calibrate for part in parts]))
        few_left = "calibrate on more of them (calibration_domains, or calibration='cross-fit')"
        return check_feasible(
            np.where(counts < self.min_cell_size, 0, counts),
            self._promised or 0.0,
            "target recall, on average," if self._rule == "hierarchical" else "domain confidence",
            targets.classes.tolist(),
            self.on_infeasible,
            min_cell_size=self.min_cell_size,
            hint=few_left if self.calibration == "held-out-domains" and len(self.domains_) > 1 else "add domains",
        )

    def _fit_parts(self, X: Any, y: Any, domains: Any, parts: Sequence[Part]) -> list[Any]:
        """Fit an estimator for each part, and the one that predicts; return those that calibrate."""
        if self.calibration == "prefit":
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            label_codes(self.classes_, np.asarray(self.estimator_.classes_))  # refuses labels that it does not know
            self.classes_ = np.asarray(self.estimator_.classes_)
            return [self.estimator_]
        trained = [part.train for part in parts]
        if self._rule != "single" and self.calibration == "cross-fit" and len(parts) > 1:
            trained.append(np.arange(len(y)))
        alone = self.calibration == "jackknife-minmax"  # its proof needs estimators that know nothing of other rows
        fitted = fit_on_each(self.estimator, X, y, domains, trained, as_if_alone=alone)
        if self._rule != "single" and self.calibration == "jackknife-minmax" and len(parts) > 1:
            self.estimators_ = fitted
        else:
            self.estimator_ = fitted[-1]
        return fitted[: len(parts)]

    def _calibrate(self, X: Any, targets: Targets, parts: Sequence[Part], fitted: Sequence[Any]) -> None:
        """Find the thresholds by the scores of each part's calibration rows under the estimator of that part."""
        labels = label_codes(targets.classes, self.classes_)[targets.labels]  # prefit may know more
        scaled = self._rule == "joint" or self.calibration in CROSS_FITTED
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
        counts = _cells_of(targets, rows) >= (self.min_cell_size if self._rule in PROMISING else 1)
        self.calibration_domains_ = self.domains_[counts.any(axis=1)]
        self.thresholds_ = self._thresholds(np.concatenate(levels), labels[rows], targets.domains[rows])

    def _levels(self, estimator: Any, scale: Scale, X: Any) -> NDArray[Any]:
        """Return the scores in units that compare."""
        return (log_scores_for(estimator, X, self.classes_) - scale.base) / scale.unit

    def _thresholds(self, levels: NDArray[Any], labels: NDArray[np.int64], domains: NDArray[np.int64]) -> Any:
        names = self.classes_.tolist()
        options: dict[str, Any] = {"target_recall": self.target_recall, "label_names": names}
        if self._rule not in PROMISING:
            domains = merge_small_cells(domains, labels, len(self.domains_), len(names), self.min_cell_size)
            return RULES[self._rule](levels, labels, domains, **options)
        options |= {"min_cell_size": self.min_cell_size - 1, "on_infeasible": self.on_infeasible}
        if self._rule in WITH_CONFIDENCE:
            options["domain_confidence"] = self.domain_confidence
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what cannot be promised was said before training
            return RULES[self._rule](levels, labels, domains, **options)

    def _scale(self, estimator: Any, X: Any, labels: NDArray[np.int64], rows: NDArray[np.int64]) -> Scale:
        """Return the scale that an estimator's own training rows give."""
        if self.calibration == "prefit":
            return as_they_are(len(self.classes_))  # which rows those were is not known
        scores = log_scores_for(estimator, taken(X, rows), self.classes_)
        scale = quantile_scale(scores, labels[rows], self.target_recall)
        # Margins are in one unit already, and only those of different networks have to be made comparable.
        return scale.for_all_labels() if getattr(last_step(estimator), "scores_are_margins", False) else scale


def _cells_of(targets: Targets, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of examples of every cell among the given rows, domains × labels."""
    shape = len(targets.domain_names), len(targets.classes)
    return count_cells(targets.domains[rows], targets.labels[rows], *shape)


def _check_unseen(estimator: Any, domains: NDArray[Any]) -> None:
    """Refuse to promise by domains that the estimator was fitted on, where it knows them."""
    names = domains.tolist()
    is_seen = seen_among(names, list(getattr(last_step(estimator), "domains_", ())))
    seen = [name for name, known in zip(names, is_seen, strict=True) if known]
    if seen:
        named = ", ".join(map(repr, seen[:3])) + (" …" if len(seen) > 3 else "")
        raise InputError(
            f"{len(seen)} of {len(names)} calibration domains were seen in training ({named}); "
            "a promise about new domains needs others."
        )
