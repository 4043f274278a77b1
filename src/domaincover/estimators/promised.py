"""A promise about new domains, around any classifier; a new domain's own rows can set its thresholds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from domaincover.calibration.adaptation_fit import ScoredRows
from domaincover.calibration.confidence import order_ranks
from domaincover.calibration.joint import joint_thresholds
from domaincover.calibration.links import fit_link, log_odds, lowest_positive
from domaincover.criteria import TargetRecall, free_thresholds
from domaincover.errors import check_choice
from domaincover.estimators.adaptation_learning import learn_adaptation
from domaincover.estimators.base import Targets, generators
from domaincover.estimators.calibrated import CalibratedSetClassifier, cells_of, has_probabilities
from domaincover.estimators.folds import Part
from domaincover.estimators.scorer_fits import taken
from domaincover.networks.threads import one_thread
from domaincover.options import MIN_CELL_SIZE, CriterionName, OnRareLabel, PromiseCalibration
from domaincover.prediction_sets import check_share
from domaincover.predictors.label_scores import has_margins, log_scores_for
from domaincover.predictors.names import label_codes
from domaincover.predictors.promised_predictor import PromisedPredictor

FOLDS = 5  # their mean predicts, so more of them cost time at every prediction


class PromisedSetClassifier(PromisedPredictor, CalibratedSetClassifier):
    """Sets that hold every label of a new domain at the target recall with a given probability.

    The promise: in a new domain drawn like the calibration domains, the recall of every label is at least
    `target_recall`, with probability at least `domain_confidence`. So is the recall of each single label in a new
    domain that has it, however few others do. `predict_set(X)` uses fixed thresholds.
    `predict_set(X, domains=…)` and `adapt` make the same promise with thresholds that a domain's own unlabelled rows
    set, which gives smaller sets where domains differ (docs/promises.md has the proof, docs/new-domain.md a guide).
    Sets of a `Pipeline` or `GridSearchCV` that ends in it: `domaincover.predict_set(model, X)`, which has an example.

    Parameters
    ----------
    estimator : classifier
        A `SetCoverClassifier`, `ERMClassifier`, scikit-learn classifier or pipeline with `label_scores`,
        `predict_proba` or `decision_function`; clones of it are fitted.
    target_recall : float or mapping, default=0.9
        One target, or targets by label: all of them are promised together. A label left out of a mapping is not
        constrained: its threshold, for any domain, puts it into as many sets as there are calibration rows of it.
    criterion : {"min-recall", "coverage"}, default="min-recall"
        What is promised of a new domain: every label's recall, or the share of its rows whose set holds their label,
        with one threshold for all labels.
    domain_confidence : float, default=0.9
        Probability that a new domain is at target.
    calibration : {"cross-fit", "held-out-domains", "jackknife-minmax", "prefit"}, default="cross-fit"
        - "cross-fit" calibrates each of `folds` groups of domains with an estimator fitted on the others, and predicts
          with the mean of these estimators. It uses every domain. The promise is expected to hold but not proved, since
          the mean is not one of the estimators calibrated.
        - "held-out-domains" calibrates on domains that the estimator is not fitted on. The promise is proved; the
          estimator learns from fewer domains.
        - "jackknife-minmax" leaves one domain out at a time; a label is in the set if any of these estimators puts it
          there. The promise is proved and uses every domain; it takes as many fits and predictions as domains left
          out, and its thresholds are fixed.
        - "prefit" calibrates on all rows given, with an estimator that is fitted already and has not seen these
          domains. The promise is expected to hold: a few numbers are fitted on the calibration domains.
    calibration_domains : float or None, default=None
        Share of the domains held out; None is a quarter, or as many as the confidence needs.
    folds : int or None, default=None
        Number of groups for "cross-fit" (None is 5), or of domains left out for "jackknife-minmax" (None is 25, or as
        many as the confidence needs).
    min_cell_size : int, default=20
        (domain, label) cells with fewer examples count neither in calibration nor in the promise.
    on_infeasible : {"pool", "raise", "widen"}, default="pool"
        A label that occurs in too few domains for the confidence is promised by itself with the confidence that its
        domains allow ("pool"), raises an error, or is put into every set ("widen"). If no label can be promised, "pool"
        raises an error too.
    n_jobs : int or None, default=None
        Number of processes that fit the estimator, as joblib counts them; domaincover's networks train together anyway.
    random_state : int, RandomState or None, default=None
        Determines which domains calibrate.

    Attributes
    ----------
    classes_, domains_ : arrays
        Labels and domains seen in `fit`.
    thresholds_ : array
        Fixed threshold of every label; of an adapted model, the domain's own.
    promise_ : str
        The promise in a sentence.
    calibration_domains_ : array
        Domains that calibrated.
    adapted_ : dict
        Of an adapted model: number of rows, of labelled rows, and the p-value of `familiarity`.
    estimator_, estimators_
        The fitted estimator, or estimators whose mean predicts.

    >>> from domaincover import GaussianDomains, PromisedSetClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = PromisedSetClassifier(LogisticRegression(), random_state=0)
    >>> model = model.fit(data.examples, data.labels, domains=data.domains)
    >>> new = GaussianDomains.of_paper(n_features=10).sample(2, 200, np.random.default_rng(1))
    >>> model.predict_set(new.examples, domains=new.domains).shape
    (400, 2)
    >>> model.adapt(new.examples[new.domains == 0]).predict_set(new.examples[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        target_recall: TargetRecall = 0.9,
        criterion: CriterionName = "min-recall",
        domain_confidence: float = 0.9,
        calibration: PromiseCalibration = "cross-fit",
        calibration_domains: float | None = None,
        folds: int | None = None,
        min_cell_size: int = MIN_CELL_SIZE,
        on_infeasible: OnRareLabel = "pool",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.target_recall = target_recall
        self.criterion = criterion
        self.domain_confidence = domain_confidence
        self.calibration = calibration
        self.calibration_domains = calibration_domains
        self.folds = folds
        self.min_cell_size = min_cell_size
        self.on_infeasible = on_infeasible
        self.n_jobs = n_jobs
        self.random_state = random_state

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label: the normalised geometric mean of the estimators'."""
        return super().predict_proba(X)

    @property
    def _promised(self) -> float:
        return self.domain_confidence

    @property
    def _scales_scores(self) -> bool:
        return True  # one number lowers the thresholds of all labels, whose scores must then be comparable

    @property
    def _predicts_with_folds(self) -> bool:
        return self.calibration in ("cross-fit", "jackknife-minmax")

    @property
    def _infeasible_options(self) -> tuple[str, ...]:
        return get_args(OnRareLabel)

    def _check_settings(self) -> None:
        check_share(self.domain_confidence, "domain confidence")
        check_choice("calibration", self.calibration, get_args(PromiseCalibration))
        super()._check_settings()

    def _n_folds(self) -> int | None:
        return FOLDS if self.folds is None and self.calibration == "cross-fit" else self.folds

    def _rare_labels(self, n_by_cell: NDArray[np.int64]) -> OnRareLabel:
        """Return what happens to labels in too few domains: without any label to promise there is nothing to pool."""
        n_domains = np.count_nonzero(n_by_cell, axis=0)
        none_feasible = bool((order_ranks(n_domains, self.domain_confidence) < 1).all())
        return "raise" if self.on_infeasible == "pool" and none_feasible else self.on_infeasible

    def _calibrate(self, X: Any, targets: Targets, parts: Sequence[Part], fitted: Sequence[Any]) -> None:
        if self.calibration == "jackknife-minmax":  # every estimator has its own scale, which no rows can move
            super()._calibrate(X, targets, parts, fitted)
            self._count_calibration_cells(targets, np.concatenate([part.calibrate for part in parts]))
            return
        labels = label_codes(targets.classes, self.classes_)[targets.labels]  # a prefit estimator may know more
        rows = np.concatenate([part.calibrate for part in parts])
        training = parts[0].train if self.calibration == "held-out-domains" else None
        of_parts = zip(fitted, parts, strict=True)
        with one_thread():  # rounding may depend on how rows are dealt out to threads, and thresholds on rounding
            raw = np.concatenate(
                [log_scores_for(each, taken(X, part.calibrate), self.classes_) for each, part in of_parts]
            )
            raw_training = None if training is None else log_scores_for(fitted[0], taken(X, training), self.classes_)
        if has_margins(fitted[0]):
            on = (raw, rows) if raw_training is None or training is None else (raw_training, training)
            readable = ~np.isposinf(on[0]).any(axis=1)
            link = fit_link(on[0][readable], labels[on[1]][readable])
            self.link_: dict[str, Any] = link._asdict()
        else:
            seen = raw if raw_training is None else raw_training
            self.lowest_ = lowest_positive(np.exp(np.minimum(seen, 0.0)))
        self._count_calibration_cells(targets, rows[~np.isposinf(raw).any(axis=1)])
        calibration = self._rows_of(raw, labels[rows], targets.domains[rows])
        of_training = None
        if raw_training is not None and training is not None:
            of_training = self._rows_of(raw_training, labels[training], targets.domains[training])
        promise = (self.own_criterion, self.domain_confidence, self.min_cell_size, self.on_infeasible)
        learned = learn_adaptation(calibration, of_training, *promise, generators(self.random_state, "adaptation", 3))
        for name, value in learned._asdict().items():
            setattr(self, f"{name}_", value)
        if not self.own_criterion.constrained.all():
            self.free_thresholds_ = free_thresholds(calibration.scores, calibration.labels)
        self.thresholds_ = self._by_label(self.thresholds_)

    def _count_calibration_cells(self, targets: Targets, rows: NDArray[np.int64]) -> None:
        """Note the domains with a cell that counts, and how many there are for every label in `classes_`."""
        criterion = self._criterion_of(targets)
        counts = criterion.group_counts(cells_of(targets, rows)) >= self.min_cell_size
        self.calibration_domains_ = self.domains_[counts.any(axis=1)]
        self.domains_by_label_ = np.zeros(len(self.classes_), dtype=np.int64)
        by_label = criterion.by_label(counts.sum(axis=0), 0)
        self.domains_by_label_[label_codes(targets.classes, self.classes_)] = by_label

    def _thresholds(self, levels: NDArray[Any], labels: NDArray[np.int64], domains: NDArray[np.int64]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what cannot be promised was said before training
            return joint_thresholds(
                *(levels, labels, domains, self.own_criterion, self.domain_confidence, self.min_cell_size),
                *(self.classes_.tolist(), self.on_infeasible),
                comparable=True,  # levels, on scales from training rows
            )

    def _rows_of(self, raw: NDArray[Any], labels: NDArray[np.int64], domains: NDArray[np.int64]) -> ScoredRows:
        """Return calibration rows on the scale of the thresholds, without those that could not be read."""
        probabilities = self._probabilities(raw)
        readable = np.asarray(np.isfinite(probabilities).all(axis=1))
        return ScoredRows(log_odds(probabilities), probabilities, labels, domains).of(readable)
