"""Sets with a promise about new domains, by fixed thresholds or by those that a domain's own rows set."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import AdaptiveThresholds, FamiliarityTable, self_calibrated_thresholds
from domaincover.calibration.few_labels import (
    Correction,
    FeatureScale,
    Level,
    learn_correction,
    rows_to_label,
    with_scores,
)
from domaincover.calibration.links import log_odds
from domaincover.criteria import MISSING_LABEL, Sets, set_sizes, sets_from_scores
from domaincover.data.tables import DiskTable
from domaincover.errors import InputError, check_choice
from domaincover.evaluation import DomainReport
from domaincover.options import LabelRows, ThresholdKind
from domaincover.predictors.calibrated_predictors import (
    CalibratedPredictor,
    MeanOfModels,
    Scored,
    last_step,
    promise_in_words,
)
from domaincover.predictors.domain_record import (
    AdaptedDomains,
    Record,
    recalibrated,
    record_report,
    recorded,
    verdict_on,
)
from domaincover.predictors.set_predictor import (
    ONLY_DOMAIN,
    check_fitted,
    coded_domains,
    known_label_codes,
    n_rows_of,
)
from domaincover.promises.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

LEARNED_TO_ADAPT = (
    *("adaptation_", "later_adaptation_", "few_labels_", "label_gain_", "label_pool_", "familiarity_"),
    *("calibration_residuals_", "record_"),
)
UNFAMILIAR = 0.05  # p-values below are reported as unusual
MOST_ROWS = np.iinfo(np.int64).max


class PromisedPredictor(CalibratedPredictor):
    """A model with a promise; its thresholds can adapt to a domain if it has `adaptation_`.

    With `few_labels_` a domain's labelled rows also correct the probabilities; an adapted model may have `correction_`.
    """

    domain_confidence: float
    few_labels: Sequence[int]
    label_rows: LabelRows
    domain_order: Sequence[Any] | None
    adaptation_: dict[str, Any]
    later_adaptation_: dict[str, Any]
    few_labels_: dict[int, dict[str, Any]]  # by number of labels: `prior_scale` and `thresholds`
    label_gain_: dict[str, Any]
    label_pool_: int  # rows that labels are chosen among
    feature_encoder_: Any  # of a table; None where the scorer gives features, or there are none
    feature_scale_: dict[str, Any]
    correction_: dict[str, Any]
    familiarity_: dict[str, Any]
    adapted_: dict[str, Any]
    calibration_residuals_: NDArray[np.float64]
    domains_by_label_: NDArray[np.int64]
    record_: Record
    n_recorded_: int

    def predict_set(self, X: Any, domains: Any = None) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`.

        Parameters
        ----------
        X : array-like or DataFrame
        domains : array-like or None, default=None
            The domain of each row. If given, the rows of each domain set its thresholds, so give all rows of a domain
            in one call; None uses the fixed thresholds.
        """
        if domains is None or not self._checked_adaptive():
            return super().predict_set(X)
        return self.adapted_sets(X, domains)[0]

    def adapted_sets(self, X: Any, domains: Any) -> tuple[Sets, ThresholdKind]:
        """Return sets by thresholds that each domain's rows set; "fixed" says that these are the fixed ones in all."""
        scored, coded = self._scored_domains(X, domains)
        found = self.adapted_domains(scored, coded.codes, len(coded.names))
        kind: ThresholdKind = "adapted" if found.moved.any() else "fixed"
        return np.asarray(scored.scores >= found.thresholds[coded.codes]), kind

    @property
    def threshold_kind(self) -> ThresholdKind:
        """Which thresholds `predict_set(X)` takes: "adapted" for a model of one domain whose rows moved them."""
        return "adapted" if getattr(self, "adapted_", {}).get("moved") else "fixed"

    def adapted_domains(self, scored: Scored, domains: NDArray[np.int64], n_domains: int) -> AdaptedDomains:
        """Return each domain's thresholds and p-value from the scores of all its rows; `domains` are codes from 0.

        It is what `predict_set` and `familiarity` compute, for rows that were scored in blocks. A domain with fewer
        rows than calibration had batches of has no p-value (NaN).
        """
        self._checked_adaptive(required=True)
        readable = scored.is_readable
        if not readable.all():
            scored, domains = scored.of(readable), domains[readable]
        evidence = self_calibrated_thresholds(*scored[:2], domains, self.own_criterion, n_domains)
        adaptation = AdaptiveThresholds(**self.adaptation_)
        n_rows = np.bincount(domains, minlength=n_domains)
        table = FamiliarityTable(**self.familiarity_)
        p_values = table.of_evidence(evidence, *scored[:2], domains)
        p_values = np.where(n_rows >= table.n_rows.min(initial=MOST_ROWS), p_values, np.nan)
        thresholds = self._by_label(adaptation.of_evidence(evidence, n_rows))
        return AdaptedDomains(thresholds, p_values, self.thresholds_, self.unfamiliar_level)

    def _by_label(self, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the thresholds of groups for every label; unconstrained labels have one for all domains."""
        return self.own_criterion.by_label(thresholds, getattr(self, "free_thresholds_", -np.inf))

    def domain_thresholds(self, X: Any, domains: Any = None) -> pd.DataFrame:
        """Return the thresholds that each domain's rows set: a row per domain, a column per label."""
        import pandas as pd

        scored, coded = self._scored_domains(X, domains)
        found = self.adapted_domains(scored, coded.codes, len(coded.names)).thresholds
        return pd.DataFrame(
            found,
            index=pd.Index(coded.names, name="domain", tupleize_cols=False),
            columns=pd.Index(self.classes_, name="label", tupleize_cols=False),
        )

    def familiarity(self, X: Any, domains: Any = None) -> pd.Series:
        """Return for each domain a p-value of "this domain is drawn like the calibration domains".

        It is computed from unlabelled rows: if the domain is drawn like the calibration domains, it is at most α with
        probability at most α, exactly with "held-out-domains" and approximately with "cross-fit". Where it is small,
        the promise should not be relied on. It is NaN for a domain with fewer than 30 rows.
        """
        import pandas as pd

        scored, coded = self._scored_domains(X, domains)
        found = self.adapted_domains(scored, coded.codes, len(coded.names)).p_values
        index = pd.Index(coded.names, name="domain", tupleize_cols=False)
        return pd.Series(found, index=index, name="p_value")

    def adapt(self, X: Any, y: Any = None) -> Self:
        """Return a model for one domain, whose thresholds are set by some of its rows.

        With labels of as many rows as `few_labels` has, or more, the scorer learns from them, too.

        Parameters
        ----------
        X : array-like or DataFrame
            Rows of one domain, a first batch for instance. The promise is for the domain's later rows.
        y : array-like or None, default=None
            Their labels, as far as known: missing values (None or NaN) elsewhere. Label rows that `choose_rows` chose,
            or rows at random; of rows picked because they look difficult, nothing is promised.

        Returns
        -------
        model of the same type
            Predicts row by row with the domain's thresholds; it can be saved.
        """
        self._checked_adaptive(required=True)
        rows = self.scored(X) if y is None else self.scored_with_features(X)
        labels = known_label_codes(y, self.classes_, len(rows.scores))[rows.is_readable]
        rows = rows.of(rows.is_readable)
        n_labels = int(np.count_nonzero(labels != MISSING_LABEL))
        level = max((level for level in self._label_levels if level <= n_labels), default=0)
        if n_labels and not level:
            warnings.warn(self._too_few_labels(n_labels), stacklevel=3)
        p_value = float(self.adapted_domains(rows, np.zeros(len(labels), np.int64), 1).p_values[0])
        adapted = copy.copy(self)
        for name in LEARNED_TO_ADAPT if level else (*LEARNED_TO_ADAPT, "feature_encoder_", "feature_scale_"):
            vars(adapted).pop(name, None)
        adapted.thresholds_ = self._of_later_rows(self.later_adaptation_, rows, len(labels))
        is_other, sizes = labels == MISSING_LABEL, list[float | None]()
        sizes.append(_mean_size(rows.of(is_other), adapted.thresholds_))
        if level and rows.encoded is not None:
            adapted.correction_ = self._learned(level, rows, labels)
            corrected = adapted._corrected(rows.probabilities, rows.encoded)
            rows, kept = Scored(log_odds(corrected), corrected), self.few_labels_[level]
            n_evidence = int(Level.of(kept).n_evidence(np.array(len(labels)), n_labels))
            adapted.thresholds_ = self._of_later_rows(kept["thresholds"], rows, n_evidence)
        sizes.append(_mean_size(rows.of(is_other), adapted.thresholds_))
        adapted.adapted_ = {
            "rows": len(labels),
            "labels": n_labels,
            "level": level,
            "prior_scale": self.few_labels_[level]["prior_scale"] if level else None,
            "set_size_before": sizes[0],
            "set_size": sizes[1],
            "p_value": None if np.isnan(p_value) else p_value,
            "moved": bool(level or (adapted.thresholds_ != self.thresholds_).any()),
        }
        adapted.promise_ = self._promise_in_words(adapted.adapted_)
        return adapted

    def choose_rows(self, X: Any, n_rows: int, *, random_state: int = 0) -> NDArray[np.int64]:
        """Return which rows of one domain to label, in order, as places from 0.

        They are uncertain and lie apart, or random with `label_rows="random"`; chosen among as many random rows as in
        calibration, so that `adapt` keeps the promise. Fewer where X has fewer rows.
        """
        self._checked_adaptive(required=True)
        scored = self.scored_with_features(X)
        if not hasattr(self, "feature_scale_"):
            raise InputError(f"this model has nothing to learn from labels: {self._no_labels_in_words}.")
        if not self._label_levels:
            warnings.warn(f"labels will change nothing: {self._no_labels_in_words}.", stacklevel=3)
        if n_rows < 1:
            raise InputError(f"the number of rows to label must be 1 or more, got {n_rows}.")
        rng = np.random.default_rng(random_state)
        pool = rng.permutation(np.flatnonzero(scored.is_readable))[: max(self.label_pool_, n_rows)]
        if not len(pool):
            return pool
        rows = scored.of(pool)
        inputs = self._features(rows)[None], rows.probabilities[None], np.ones((1, len(pool)), dtype=bool)
        return pool[rows_to_label(*inputs, min(n_rows, len(pool)), self.label_rows, rng)[0]]

    @property
    def label_gain(self) -> pd.DataFrame:
        """Mean set size and share of domains at target by number of labels of a new domain.

        It comes from the calibration domains, each treated as new with the offset of the others. Numbers of labels
        that make sets less than 1 % smaller are left out.
        """
        import pandas as pd

        check_fitted(self)
        table = pd.DataFrame(getattr(self, "label_gain_", {"labels": [], "set_size": [], "share_at_target": []}))
        return table.set_index("labels")

    def scored_with_features(self, X: Any) -> Scored:
        """Return what `scored` does, with the features of rows that labels are learned by."""
        return X if isinstance(X, Scored) else self.scored(X)._replace(encoded=self.encoded_features(X))

    def _features(self, rows: Scored) -> NDArray[np.float64]:
        """Return the standardised features of rows, their scores beside them."""
        found = with_scores(np.asarray(rows.encoded), rows.probabilities)
        return FeatureScale(**self.feature_scale_).standardised(found)

    def encoded_features(self, X: Any) -> NDArray[Any]:
        """Return the features of rows that labels are learned by: a table's encoded columns, or a network's last."""
        if n_rows_of(X) == 0 or not hasattr(self, "feature_scale_"):
            of_scores = len(self.classes_)  # which come beside these
            width = len(self.feature_scale_["mean"]) - of_scores if hasattr(self, "feature_scale_") else 0
            return np.empty((n_rows_of(X), width))
        if self.feature_encoder_ is None:
            return last_features(self.predictors_[0], X)
        return encoded_by(self.feature_encoder_, X)

    @property
    def _label_levels(self) -> Sequence[int]:
        """The numbers of labels that are calibrated."""
        return tuple(getattr(self, "few_labels_", ()))

    def _learned(self, level: int, rows: Scored, labels: NDArray[Any]) -> dict[str, Any]:
        """Return the correction that the labelled rows of a domain teach, of features that are cut."""
        known = labels != MISSING_LABEL
        taught, projection = rows.of(known), FeatureScale(**self.feature_scale_).projection
        stack = self._features(taught)[None], taught.probabilities[None], labels[known][None]
        weights, bias = (part[0] for part in learn_correction(*stack, self.few_labels_[level]["prior_scale"]))
        return {"weights": weights if projection is None else projection @ weights, "bias": bias}

    @property
    def mean_(self) -> MeanOfModels:
        """The mean of the fitted estimators, with what an adapted model has learned from labels of its domain."""
        if not hasattr(self, "correction_"):
            return super().mean_
        return replace(super().mean_, correct=lambda found, X: self._corrected(found, self.encoded_features(X)))

    def corrected_scores(self, rows: Scored) -> NDArray[np.float64]:
        """Return the scores of rows that the model it came from has scored, with their features."""
        if not hasattr(self, "correction_") or rows.encoded is None:
            return rows.scores
        return log_odds(self._corrected(rows.probabilities, rows.encoded))

    def _corrected(self, probabilities: NDArray[Any], encoded: NDArray[Any]) -> NDArray[np.float64]:
        features = FeatureScale(**self.feature_scale_).cut(with_scores(encoded, probabilities))
        return Correction(**self.correction_).probabilities(probabilities, features)

    def _of_later_rows(self, adaptation: dict[str, Any], rows: Scored, n_evidence: int) -> NDArray[np.float64]:
        """Return the thresholds of later rows that rows of one domain set, by label; they count as so many rows."""
        domains = np.zeros(len(rows.scores), np.int64)
        evidence = self_calibrated_thresholds(*rows[:2], domains, self.own_criterion, 1)
        return self._by_label(AdaptiveThresholds(**adaptation).of_evidence(evidence, np.array([n_evidence]))[0])

    def _too_few_labels(self, n_labels: int) -> str:
        what = f"{n_labels} row{'s are' if n_labels > 1 else ' is'} labelled"
        if not self._label_levels:
            return f"{what}, which changes nothing: {self._no_labels_in_words}."
        return f"{what}, which changes nothing: this model learns from {min(self._label_levels)} labels or more."

    @property
    def _no_labels_in_words(self) -> str:
        if not self.few_labels:
            return "it was fitted with few_labels=()"
        return "its calibration domains are too small, or labels make their sets less than 1 % smaller"

    def domain_report(
        self,
        X: Any,
        y: Any,
        domains: Any = None,
        *,
        min_cell_size: int | None = None,
        thresholds: ThresholdKind | None = None,
    ) -> DomainReport:
        """Report recall and set size in each domain.

        Parameters
        ----------
        X, y, domains
            Examples, their labels and domains.
        min_cell_size : int or None, default=None
            (domain, label) cells with fewer examples do not count; None is the model's own, or 1 with a warning where
            no cell has so many.
        thresholds : {"adapted", "fixed"} or None, default=None
            Which thresholds to report on; None is "adapted" where the model can adapt and domains are given. An
            adapted model has one kind. Where no domain's rows moved its thresholds, the report says "fixed".
        """
        check_choice("thresholds", thresholds, (*get_args(ThresholdKind), None))
        adapts = thresholds == "adapted" and not hasattr(self, "adapted_")
        if adapts:
            self._checked_adaptive(required=True)
        adapts = adapts or (thresholds is None and domains is not None and self.can_adapt)
        given = np.full(n_rows_of(X), ONLY_DOMAIN) if domains is None else domains
        sets, kind = self.adapted_sets(X, given) if adapts else (self.predict_set(X), self.threshold_kind)
        return replace(self.report_on_sets(sets, y, domains, min_cell_size=min_cell_size), thresholds=kind)

    def record(self, X: Any, y: Any, domains: Any) -> Self:
        """Add the outcome of new domains to the model's record, and return the model.

        All rows of a domain come in one call; a domain that is in the record already, or that training has seen, is
        rejected. The record keeps counts and residuals, no rows, and is saved with the model.
        """
        self.record_ = recorded(self, self.scored(X), y, domains)
        return self

    def record_report(self) -> DomainReport:
        """Report the domains of the record in the order in which they came; with adapted thresholds if it can adapt."""
        return record_report(self)

    def recalibrated(self) -> Self:
        """Return a copy in which the domains of the record calibrate, too, without a new fit.

        With "held-out-domains" the promise is exact for new domains drawn like all of these, if it was fixed before
        after how many recorded domains to calibrate again; docs/promises.md says what else is expected.
        """
        return recalibrated(self)

    def verdict(self, report: DomainReport | None = None) -> Verdict | None:
        """Return whether the new domains of a report, or of the record, contradict the promise.

        None where they say nothing of it: another target, smaller cells, or no domain that the model has not seen. The
        tests may be read at any time, and after every domain (docs/promises.md).
        """
        return verdict_on(self, report)

    @property
    def can_adapt(self) -> bool:
        """Whether the fitted model has thresholds that adapt to a domain's rows."""
        return hasattr(self, "adaptation_")

    @property
    def unfamiliar_level(self) -> float:
        """The p-value up to which a domain is reported as unusual: 0.05, or the smallest that there can be."""
        return max(UNFAMILIAR, 1 / (self.familiarity_["summaries"].shape[1] + 1))

    def _scored_domains(self, X: Any, domains: Any) -> tuple[Scored, Any]:
        self._checked_adaptive(required=True)
        scored = self.scored(X)
        return scored, coded_domains(domains, len(scored.scores))

    def _checked_adaptive(self, required: bool = False) -> bool:
        """Tell whether thresholds can adapt; raise an error or warn where they cannot."""
        check_fitted(self)
        if hasattr(self, "adapted_"):
            raise InputError("this model is adapted to one domain already; adapt the model that it came from.")
        if self.can_adapt:
            return True
        reason = "its thresholds are fixed (jackknife-minmax, or too few domains); use calibration='cross-fit'"
        if required:
            raise InputError(f"this model cannot adapt: {reason}.")
        warnings.warn(f"domains were given, but the model cannot adapt: {reason}.", stacklevel=3)
        return False

    def _promise_in_words(self, adapted: dict[str, Any] | None = None) -> str:
        promise = promise_in_words(self, "every label", self.domain_confidence)
        if adapted is None or not adapted["moved"]:
            return promise
        rows = f"{adapted['rows']:,} rows of one domain"
        if not adapted["level"]:
            return f"{promise} The thresholds are set by {rows}, for later rows."
        calibrated = adapted["level"]
        promise += f" The scorer has learned from {adapted['labels']:,} labels of {rows}, which set the thresholds"
        if adapted["labels"] == calibrated:
            return f"{promise}, for later rows."
        return f"{promise}, for later rows; calibrated with {calibrated} labels, this is expected but not proved."


def _mean_size(rows: Scored, thresholds: NDArray[np.float64]) -> float | None:
    """Return the mean set size of rows, None without any."""
    return float(set_sizes(sets_from_scores(rows.scores, thresholds)).mean()) if len(rows.scores) else None


def reads_sources(scorer: Any) -> bool:
    """Tell whether a scorer is a network on images or texts."""
    inputs = getattr(last_step(scorer), "_inputs", None)
    return inputs is not None and inputs.reads_sources


def last_features(scorer: Any, X: Any) -> NDArray[Any]:
    """Return the last features of a network on images or texts; none of other scorers."""
    return last_step(scorer).last_features(X) if reads_sources(scorer) else np.empty((n_rows_of(X), 0))


def encoded_by(encoder: Any, X: Any) -> NDArray[np.float32]:
    """Return a table's encoded columns; an encoder that was loaded to predict checks nothing."""
    encode = encoder.transform if hasattr(encoder, "transform") else encoder.encode
    if isinstance(X, DiskTable):
        return np.concatenate([encode(block) for _, block in X.blocks()])
    return np.asarray(encode(X))
