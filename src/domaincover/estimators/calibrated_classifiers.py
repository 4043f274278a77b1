"""Sets around any classifier, by thresholds from calibration domains: for each label, or promised for all together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration import rules
from domaincover.calibration.adaptation import recency_weights
from domaincover.calibration.adaptation_fit import Promise, ScoredRows, fit_adaptive_thresholds, fit_familiarity
from domaincover.calibration.few_labels import FeatureScale, TaughtRows, fit_few_labels, sampled_rows, with_scores
from domaincover.criteria import Criterion, check_share, free_thresholds
from domaincover.data.dataset import count_cells
from domaincover.data.encoding import TableEncoder
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import Targets, generators
from domaincover.estimators.calibrated import CalibratedSetClassifier, Fitted, ScoredParts, cells_of
from domaincover.estimators.scorer_fits import FOLDS, Part, encoder_of_tables, folds_of, taken
from domaincover.options import LabelRows, OnRareLabel, PromiseCalibration, SmallCells
from domaincover.predictors.calibrated_predictors import (
    LEAVES_OUT,
    ConformalPredictor,
    Scored,
    promise_in_words,
    scores_for,
)
from domaincover.predictors.domain_record import calibration_residuals
from domaincover.predictors.promised_predictor import PromisedPredictor, encoded_by, last_features, reads_sources

Rule = Literal["robust", "pooled", "hierarchical", "order", "single"]
RULES: dict[str, Callable[..., NDArray[np.float64]]] = {
    "robust": rules.robust_thresholds,
    "pooled": rules.pooled_thresholds,
    "hierarchical": rules.hierarchical_thresholds,
    "order": rules.order_thresholds,
}


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalSetClassifier(ConformalPredictor, CalibratedSetClassifier):
    """Sets from the scores of any classifier, with each label calibrated separately.

    A label is in the set if its score is at least the label's threshold, which comes from calibration domains:

    - "robust" (the paper): the lowest threshold of any domain;
    - "pooled" (Dunn, Wasserman and Ramdas): the threshold that reaches the target on average over them;
    - "hierarchical" (Lee, Barber and Willett): the same with a finite-sample guarantee: each label's expected recall in
      a new domain is at target;
    - "order" (Duchi, Gupta, Jiang and Sur): each label separately is at target in a new domain with probability
      `domain_confidence`;
    - "single": no calibration, the most likely label alone.

    `PromisedSetClassifier` promises all labels of a new domain together.
    Sets of a `Pipeline` or `GridSearchCV` that ends in it: `domaincover.predict_set(model, X)`, which has an example.

    Parameters
    ----------
    estimator : classifier
        Has `label_scores`, `predict_proba` or `decision_function`; a clone of it is fitted.
    rule : {"robust", "pooled", "hierarchical", "order", "single"}, default="robust"
    target_recall : float or mapping, default=0.9
        One target, or targets by label. A label left out of a mapping is not constrained: its threshold puts it into as
        many sets of the calibration rows as there are rows of it.
    criterion : {"min-recall", "coverage"}, default="min-recall"
        What a domain has to reach: every label's recall the target, or the share of its rows whose set holds their
        label. "coverage" has one threshold for all labels, whose scores should be comparable, as probabilities are.
    domain_confidence : float or None, default=None
        For "order": the probability that a label of a new domain is at target, such as 0.9.
    calibration : str, default="held-out-domains"
        - "held-out-domains", "cross-fit", "jackknife-minmax" and "prefit" calibrate as in `PromisedSetClassifier`. A
          promise is proved with each of them but "cross-fit".
        - "training-data" calibrates on the estimator's training rows, as in the paper, without a promise.
    min_cell_size : int, default=20
        A label's (domain, label) cells with fewer examples are pooled into one; with a promise, they are excluded from
        calibration and from the promise.
    small_cells : {"pool", "omit"}, default="pool"
        Without a promise: whether cells with fewer than `min_cell_size` examples are pooled, or left out of
        calibration. A label that has no other cells is then in every set, with a warning.
    on_infeasible : {"raise", "widen"}, default="raise"
        With too few domains for the confidence, overall or for one label: raise an error, or put the labels without a
        promise into every set.
    calibration_domains, folds, n_jobs, random_state
        As for `PromisedSetClassifier`.

    Attributes
    ----------
    classes_, domains_ : arrays
        Labels and domains seen in `fit`.
    thresholds_ : array
        Threshold of every label.
    calibration_domains_ : array
        Domains used for calibration.
    estimator_, estimators_
        The fitted estimator; with "cross-fit" and "jackknife-minmax", the fitted estimators.

    >>> from domaincover import ConformalSetClassifier, GaussianDomains
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = ConformalSetClassifier(LogisticRegression(), rule="robust", random_state=0)
    >>> model.fit(data.examples, data.labels, domains=data.domains).predict_set(data.examples[:3]).shape
    (3, 2)
    """

    rule: Rule = field(default="robust", kw_only=False)
    domain_confidence: float | None = None
    small_cells: SmallCells = "pool"

    @property
    def _needs_domains(self) -> bool:  # type: ignore[override]
        return self.rule != "single"

    @property
    def _promised(self) -> float | None:
        """The share whose order statistic is promised: a confidence, or for "hierarchical" the target."""
        targets = self.target_recall.values() if isinstance(self.target_recall, Mapping) else [self.target_recall]
        return {"order": self.domain_confidence, "hierarchical": max(targets)}.get(self.rule)

    def _promised_to(self, criterion: Criterion) -> tuple[Any, str]:
        hierarchical = criterion.group_targets, "target recall, on average,"
        return hierarchical if self.rule == "hierarchical" else super()._promised_to(criterion)

    def _check_settings(self) -> None:
        if self.rule not in get_args(Rule):
            known = ", ".join(map(repr, get_args(Rule)))
            raise InputError(
                f"rule must be one of {known}, got {self.rule!r}; for all labels together use PromisedSetClassifier."
            )
        check_choice("small_cells", self.small_cells, get_args(SmallCells))
        if self.rule == "order":
            if self.domain_confidence is None:
                raise InputError("rule='order' needs a domain_confidence, such as 0.9.")
            check_share(self.domain_confidence, "domain confidence")
        elif self.domain_confidence is not None:
            raise InputError(
                f"domain_confidence has no effect with rule={self.rule!r}; use rule='order', or PromisedSetClassifier "
                "for all labels together."
            )
        super()._check_settings()

    def _plan(self, targets: Targets) -> list[Part]:
        rows = np.arange(len(targets.labels))
        return [Part(rows, rows)] if self.rule == "single" else super()._plan(targets)

    def _calibrate(self, X: Any, targets: Targets, fitted: Sequence[Fitted], inner: Sequence[Fitted]) -> None:
        if self.rule == "single":
            return
        rows = np.concatenate([part.calibrate for _, part in fitted])
        labels, domains = self._label_codes(targets)[rows], targets.domains[rows]
        fewest = 1 if self._promised is None else self.min_cell_size
        counts = self._criterion_of(targets).group_counts(cells_of(targets, rows)) >= fewest
        self.calibration_domains_ = self.domains_[counts.any(axis=1)]
        if self.calibration in LEAVES_OUT:
            scores = self._scored_rows(X, targets, fitted, inner).calibration.scores
        else:
            scores = scores_for(fitted[0][0], taken(X, rows), self.classes_)
        self.thresholds_ = self._thresholds(scores, labels, domains)

    def _thresholds(
        self, scores: NDArray[Any], labels: NDArray[np.int64], domains: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the threshold of every label from the scores of calibration rows."""
        names = self.classes_.tolist()
        options: dict[str, Any] = {"target_recall": self.own_criterion, "label_names": names}
        if self._promised is None:
            domains = self.own_criterion.merged_domains(domains, labels, len(self.domains_), self.min_cell_size)
            if self.small_cells == "omit":
                is_large = domains < len(self.domains_)
                scores, labels, domains = scores[is_large], labels[is_large], domains[is_large]
            return RULES[self.rule](scores, labels, domains, **options)
        options |= {"min_cell_size": self.min_cell_size, "on_infeasible": self.on_infeasible}
        if self.rule == "order":
            options["domain_confidence"] = self.domain_confidence
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # already warned before training
            return RULES[self.rule](scores, labels, domains, **options)

    def _promise_in_words(self) -> str | None:
        if self._promised is None:
            return None
        which = "each label" if self.rule == "hierarchical" else "a label, each by itself,"
        return promise_in_words(self, which, self.domain_confidence)


@dataclass(kw_only=True, eq=False, repr=False)
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
    few_labels : sequence of int, default=(30, 100, 300)
        Numbers of labels of a new domain that `adapt` can learn from, each calibrated as far as the domains have the
        rows: half of a domain's rows are offered for labels, and the others count. Empty for none. Where labels make
        sets less than 1 % smaller, a number is left out. With "held-out-domains" this takes five fits more, on folds of
        the training domains.
    label_rows : {"uncertain", "random"}, default="uncertain"
        Which rows of a new domain `choose_rows` chooses to be labelled: uncertain ones that lie apart, or random ones.
        Calibration labels rows of its domains by the same rule.
    domain_order : sequence or None, default=None
        The names of the domains from the first to the last, such as years, where new domains come after them and drift.
        No estimator is fitted on domains that come after those that it calibrates: "cross-fit" goes forward in `folds`
        blocks after a first one that only trains, and "held-out-domains" calibrates on the last domains. Recent domains
        weigh more, with the factor (1 + domain_confidence) / 2 for each step back. `assess` holds out the last domains.
        docs/promises.md says what is proved. None draws domains at random.
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
    label_gain : DataFrame
        Mean set size and share of domains at target by number of labels of a new domain, in the calibration domains.
    adapted_ : dict
        Of an adapted model: numbers of rows and labels, for which number of labels it is calibrated, the prior scale of
        what they taught, the mean set size before and after in the rows without label, and the p-value of
        `familiarity`.
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

    domain_confidence: float = 0.9
    calibration: PromiseCalibration = "cross-fit"
    on_infeasible: OnRareLabel = "pool"
    few_labels: Sequence[int] = (30, 100, 300)
    label_rows: LabelRows = "uncertain"
    domain_order: Sequence[Any] | None = None

    _infeasible_options = get_args(OnRareLabel)

    @property
    def _promised(self) -> float:
        return self.domain_confidence

    def _check_settings(self) -> None:
        check_share(self.domain_confidence, "domain confidence")
        check_choice("calibration", self.calibration, get_args(PromiseCalibration))
        check_choice("label_rows", self.label_rows, get_args(LabelRows))
        numbers = np.atleast_1d(np.asarray(self.few_labels))
        if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 2):
            raise InputError(f"few_labels must be whole numbers of at least 2, or empty, got {self.few_labels!r}.")
        if self.domain_order is not None and self.calibration == "jackknife-minmax":
            raise InputError("domain_order has no effect with calibration='jackknife-minmax'; choose 'cross-fit'.")
        super()._check_settings()

    def _inner_parts(self, targets: Targets, parts: Sequence[Part]) -> list[Part]:
        """Return folds of the domains that train, whose scores by others say what labels are worth in a new domain."""
        domains = targets.domains[parts[0].train]
        if self.calibration != "held-out-domains" or not len(self.few_labels) or len(np.unique(domains)) < 2:
            return []
        (rng,) = generators(self.random_state, "inner folds")
        return folds_of(targets.domains, parts[0].train, FOLDS, rng)

    def _calibrate(self, X: Any, targets: Targets, fitted: Sequence[Fitted], inner: Sequence[Fitted]) -> None:
        """Calibrate fixed thresholds, thresholds for the rows given and for later rows, labels, and familiarity."""
        scored = self._scored_rows(X, targets, fitted, inner)
        calibration = scored.calibration.of(scored.calibration.is_readable)
        training = scored.training and scored.training.of(scored.training.is_readable)
        self._count_calibration_cells(calibration)
        criterion, rngs = self.own_criterion, generators(self.random_state, "adaptation", 4)
        promise = criterion, self.domain_confidence
        options: dict[str, Any] = {"min_cell_size": self.min_cell_size, "on_infeasible": self.on_infeasible}
        options["label_names"] = self.classes_.tolist()
        places = self._places(targets.domain_names)
        weights = None if places is None else recency_weights(len(places), self.domain_confidence)[places]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what cannot be promised was said before training
            if self.calibration == "jackknife-minmax":
                self.thresholds_ = rules.joint_thresholds(*calibration.labelled_scores, *promise, **options)
                self._keep_residuals(calibration, None)
                return
            options_of_rows = options | {"training": training, "weights": weights}
            given = fit_adaptive_thresholds(calibration, *promise, **options_of_rows, rng=rngs[0])
            options_of_rows["recall_on"] = "later rows"
            later = fit_adaptive_thresholds(calibration, *promise, **options_of_rows, rng=rngs[1])
            self.adaptation_, self.later_adaptation_ = given._asdict(), later._asdict()
            if len(self.few_labels):
                for_labels = Promise.of(calibration, *promise, **options)._replace(weights=weights)
                self._calibrate_labels(X, for_labels, scored, rngs[3])
        self.familiarity_ = fit_familiarity(*calibration[:2], calibration.domains, criterion, rng=rngs[2])._asdict()
        if not criterion.constrained.all():
            self.free_thresholds_ = free_thresholds(calibration.scores, calibration.labels)
        self.thresholds_ = self._by_label(given.fixed)
        self._keep_residuals(calibration, places)

    def _keep_residuals(self, rows: ScoredRows, places: NDArray[np.int64] | None) -> None:
        """Keep what a record of later domains is compared with, and calibrates with."""
        own = Scored(*rows[:2]), rows.labels, rows.domains
        self.calibration_residuals_ = calibration_residuals(self, *own, places)

    def _calibrate_labels(self, X: Any, promise: Promise, scored: ScoredParts, rng: np.random.Generator) -> None:
        """Calibrate what labels of a new domain teach."""
        encoded_like = scored.trained_by or scored.calibrated_by
        encoder = None
        if not reads_sources(encoded_like[0][0]):
            encoder = encoder_of_tables(X, np.sort(np.concatenate([part.calibrate for _, part in encoded_like])))
        of_calibration, present = _taught(X, encoder, scored.calibration, scored.calibrated_by, rng)
        taught = [of_calibration]
        if scored.training is not None:
            taught.append(_taught(X, encoder, scored.training, scored.trained_by, rng)[0])
        if promise.weights is not None:
            promise = promise._replace(weights=promise.weights[present])
        scale = FeatureScale.of(taught[-1].features)
        calibration, *training = (each._replace(features=scale.standardised(each.features)) for each in taught)
        self.feature_encoder_, self.feature_scale_ = encoder, scale._asdict()
        options = self.few_labels, self.label_rows, rng
        of_training = training[0] if training else None
        found, self.label_pool_, self.label_gain_ = fit_few_labels(promise, calibration, of_training, *options)
        self.few_labels_ = {level: each.as_dict() for level, each in found.items()}

    def _count_calibration_cells(self, rows: ScoredRows) -> None:
        """Note the domains with a cell that counts, and how many there are for every label in `classes_`."""
        n_by_cell = count_cells(rows.domains, rows.labels, len(self.domains_), len(self.classes_))
        counts = self.own_criterion.group_counts(n_by_cell) >= self.min_cell_size
        self.calibration_domains_ = self.domains_[counts.any(axis=1)]
        self.domains_by_label_ = self.own_criterion.by_label(counts.sum(axis=0), 0)


def _taught(
    X: Any,
    encoder: TableEncoder | None,
    rows: ScoredRows,
    scored_by: Sequence[Fitted],
    rng: np.random.Generator,
) -> tuple[TaughtRows, NDArray[np.int64]]:
    """Return some rows of some domains, with their features, and these domains.

    `rows` are those that the parts calibrate, in order. Without an encoder of tables, the scorer of each part gives
    features.
    """
    readable = np.flatnonzero(rows.is_readable)
    kept = readable[sampled_rows(rows.of(readable), rng)]
    ends = np.cumsum([len(part.calibrate) for _, part in scored_by])
    encoded = []
    for (model, part), end, of_part in zip(
        scored_by, ends, np.split(kept, np.searchsorted(kept, ends[:-1])), strict=True
    ):
        own = taken(X, part.calibrate[of_part - end])  # counted from the end of the part
        encoded.append(last_features(model, own) if encoder is None else encoded_by(encoder, own))
    some = rows.of(kept)
    present, codes = np.unique(some.domains, return_inverse=True)
    with_features = with_scores(np.concatenate(encoded), some.probabilities)
    return TaughtRows(some._replace(domains=codes), with_features), present
