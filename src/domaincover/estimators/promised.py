"""A promise about new domains, around any classifier; a new domain's own rows can set its thresholds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from domaincover.calibration.adaptation import recency_weights
from domaincover.calibration.adaptation_fit import Promise, ScoredRows, fit_adaptive_thresholds, fit_familiarity
from domaincover.calibration.few_labels import FeatureScale, TaughtRows, fit_few_labels, sampled_rows, with_scores
from domaincover.calibration.rules import joint_thresholds
from domaincover.criteria import check_share, free_thresholds
from domaincover.data.dataset import count_cells
from domaincover.data.encoding import TableEncoder
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import Targets, generators
from domaincover.estimators.calibrated import CalibratedSetClassifier, Fitted, ScoredParts, has_probabilities
from domaincover.estimators.scorer_fits import FOLDS, Part, encoder_of_tables, folds_of, taken
from domaincover.options import LabelRows, OnRareLabel, PromiseCalibration
from domaincover.predictors.calibrated_predictors import Scored
from domaincover.predictors.domain_record import calibration_residuals
from domaincover.predictors.promised_predictor import PromisedPredictor, encoded_by, last_features, reads_sources


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

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label: the normalised geometric mean of the estimators'."""
        return super().predict_proba(X)

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
                self.thresholds_ = joint_thresholds(*calibration.labelled_scores, *promise, **options)
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
        features = LabelFeatures.of(X, scored.trained_by or scored.calibrated_by)
        of_calibration, present = _taught(features, scored.calibration, scored.calibrated_by, rng)
        taught = [of_calibration]
        if scored.training is not None:
            taught.append(_taught(features, scored.training, scored.trained_by, rng)[0])
        if promise.weights is not None:
            promise = promise._replace(weights=promise.weights[present])
        scale = FeatureScale.of(taught[-1].features)
        calibration, *training = (each._replace(features=scale.standardised(each.features)) for each in taught)
        self.feature_encoder_, self.feature_scale_ = features.encoder, scale._asdict()
        options = self.few_labels, self.label_rows, rng
        found = fit_few_labels(promise, calibration, training[0] if training else None, *options)
        self.few_labels_ = {level: each.as_dict() for level, each in found.by_number.items()}
        self.label_pool_, self.label_gain_ = found.n_pool, found.gain

    def _count_calibration_cells(self, rows: ScoredRows) -> None:
        """Note the domains with a cell that counts, and how many there are for every label in `classes_`."""
        n_by_cell = count_cells(rows.domains, rows.labels, len(self.domains_), len(self.classes_))
        counts = self.own_criterion.group_counts(n_by_cell) >= self.min_cell_size
        self.calibration_domains_ = self.domains_[counts.any(axis=1)]
        self.domains_by_label_ = self.own_criterion.by_label(counts.sum(axis=0), 0)


class LabelFeatures(NamedTuple):
    """Rows whose features labels teach with; without an encoder of tables, the scorer of each part gives them."""

    X: Any
    encoder: TableEncoder | None

    @classmethod
    def of(cls, X: Any, scored_by: Sequence[Fitted]) -> LabelFeatures:
        """Fit an encoder of tables to the rows that these parts calibrate."""
        if reads_sources(scored_by[0][0]):
            return cls(X, None)
        rows = np.sort(np.concatenate([part.calibrate for _, part in scored_by]))
        return cls(X, encoder_of_tables(X, rows))

    def encoded(self, model: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the features of some rows as they are."""
        own = taken(self.X, rows)
        return last_features(model, own) if self.encoder is None else encoded_by(self.encoder, own)


def _taught(
    features: LabelFeatures, rows: ScoredRows, scored_by: Sequence[Fitted], rng: np.random.Generator
) -> tuple[TaughtRows, NDArray[np.int64]]:
    """Return some rows of some domains, with their features, and these domains.

    `rows` are those that the parts calibrate, in order.
    """
    readable = np.flatnonzero(rows.is_readable)
    kept = readable[sampled_rows(rows.of(readable), rng)]
    ends = np.cumsum([len(part.calibrate) for _, part in scored_by])
    of_part = np.split(kept, np.searchsorted(kept, ends[:-1]))
    encoded = [
        features.encoded(model, part.calibrate[own - end])  # counted from the end of the part
        for (model, part), end, own in zip(scored_by, ends, of_part, strict=True)
    ]
    some = rows.of(kept)
    present, codes = np.unique(some.domains, return_inverse=True)
    with_features = with_scores(np.concatenate(encoded), some.probabilities)
    return TaughtRows(some._replace(domains=codes), with_features), present
