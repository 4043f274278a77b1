"""Sets with a promise about new domains, by fixed thresholds or by those that a domain's own rows set."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import MISSING_LABEL, AdaptiveThresholds
from domaincover.calibration.familiarity import FamiliarityTable
from domaincover.calibration.self_calibration import self_calibrated_thresholds
from domaincover.criteria import Criterion
from domaincover.errors import InputError, check_choice
from domaincover.evaluation import DomainReport
from domaincover.options import ThresholdKind
from domaincover.prediction_sets import Sets
from domaincover.predictors.calibrated_predictors import CalibratedPredictor, Scored
from domaincover.predictors.names import ONLY_DOMAIN, check_fitted, coded_domains, known_label_codes, n_rows_of
from domaincover.predictors.promise_text import promise_in_words
from domaincover.predictors.record import Record, recalibrated, record_report, recorded, verdict_on
from domaincover.promises.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

UNFAMILIAR = 0.05  # p-values below are reported as unusual
MOST_ROWS = np.iinfo(np.int64).max


class AdaptedDomains(NamedTuple):
    """The thresholds (domains × labels) and p-values that domains get from their own unlabelled rows."""

    thresholds: NDArray[np.float64]
    p_values: NDArray[np.float64]


def moved_domains(thresholds: NDArray[np.float64], fixed: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which domains have thresholds of their own: with few rows, or rows that say little, they are the fixed."""
    return np.asarray((thresholds != fixed).any(axis=1))


def thresholds_of_domain(
    adaptation: AdaptiveThresholds,
    criterion: Criterion,
    scores: NDArray[Any],
    probabilities: NDArray[Any],
    labels: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the thresholds of the groups of one domain from its rows, some of which may be labelled (else −1)."""
    is_labelled = labels != MISSING_LABEL
    evidence = self_calibrated_thresholds(scores, probabilities, np.zeros(len(scores), np.int64), criterion, 1)
    if is_labelled.any() and criterion.is_coverage:  # their mean score is that of all labels, whichever were picked
        raise InputError("labelled rows cannot adapt criterion='coverage'; adapt with unlabelled rows: adapt(X).")
    if not is_labelled.any() or adaptation.entry_of(np.array(len(scores))) == 0:  # too few rows to learn from
        return adaptation.of_evidence(evidence, np.array([len(scores)]))[0]
    groups = np.where(is_labelled, criterion.group_of_label[labels], MISSING_LABEL)
    columns = criterion.constrained
    return adaptation.of_labelled(scores[:, columns], probabilities[:, columns], groups, evidence)


class PromisedPredictor(CalibratedPredictor):
    """A model with a promise; its thresholds can adapt to a domain if it has `adaptation_`."""

    domain_confidence: float
    adaptation_: dict[str, Any]
    later_adaptation_: dict[str, Any]
    residuals_: NDArray[np.float32]
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
        thresholds = self.adapted_domains(scored, coded.codes, len(coded.names)).thresholds
        kind: ThresholdKind = "adapted" if moved_domains(thresholds, self.thresholds_).any() else "fixed"
        return np.asarray(scored.scores >= thresholds[coded.codes]), kind

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
        readable = np.isfinite(scored.probabilities).all(axis=1)
        if not readable.all():
            scored, domains = Scored(scored.scores[readable], scored.probabilities[readable]), domains[readable]
        thresholds, evidence = self.thresholds_of_rows(scored, domains, n_domains)
        n_rows = np.bincount(domains, minlength=n_domains)
        table = FamiliarityTable(**self.familiarity_)
        p_values = table.of_evidence(evidence, *scored, domains)
        return AdaptedDomains(thresholds, np.where(n_rows >= table.n_rows.min(initial=MOST_ROWS), p_values, np.nan))

    def thresholds_of_rows(
        self, scored: Scored, domains: NDArray[np.int64], n_domains: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the thresholds that readable rows set, domains × labels, and the evidence in these rows."""
        evidence = self_calibrated_thresholds(*scored, domains, self.own_criterion, n_domains)
        adaptation = AdaptiveThresholds(**self.adaptation_, residuals=np.empty(0))
        found = adaptation.of_evidence(evidence, np.bincount(domains, minlength=n_domains))
        return self._by_label(found), evidence

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

        Parameters
        ----------
        X : array-like or DataFrame
            Rows of one domain, a first batch for instance. The promise is for the domain's later rows.
        y : array-like or None, default=None
            Their labels, as far as known: missing values (None or NaN) elsewhere.

        Returns
        -------
        model of the same type
            Predicts row by row with the domain's thresholds; it can be saved.
        """
        self._checked_adaptive(required=True)
        return self.adapt_to_scored(self.scored(X), y)

    def adapt_to_scored(self, scored: Scored, y: Any = None) -> Self:
        """Return what `adapt` does, for rows that were scored in blocks."""
        self._checked_adaptive(required=True)
        labels = known_label_codes(y, self.classes_, len(scored.scores))
        readable = np.isfinite(scored.probabilities).all(axis=1)
        scores, probabilities = scored.scores[readable], scored.probabilities[readable]
        domains = np.zeros(len(scores), dtype=np.int64)
        labels = labels[readable]
        is_labelled = labels != MISSING_LABEL
        adaptation = AdaptiveThresholds(**self.later_adaptation_, residuals=self.residuals_.astype(float))
        thresholds = thresholds_of_domain(adaptation, self.own_criterion, scores, probabilities, labels)
        p_value = float(self.adapted_domains(Scored(scores, probabilities), domains, 1).p_values[0])
        adapted = copy.copy(self)
        for name in ("adaptation_", "later_adaptation_", "residuals_", "familiarity_", "calibration_residuals_"):
            delattr(adapted, name)
        vars(adapted).pop("record_", None)
        adapted.thresholds_ = self._by_label(thresholds)
        adapted.adapted_ = {
            "rows": len(labels),
            "labelled_rows": int(is_labelled.sum()),
            "p_value": None if np.isnan(p_value) else p_value,
            "moved": bool(moved_domains(adapted.thresholds_[None], self.thresholds_).any()),
        }
        adapted.promise_ = self._promise_in_words(adapted.adapted_)
        return adapted

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
        return self.record_scored(self.scored(X), y, domains)

    def record_scored(self, scored: Scored, y: Any, domains: Any) -> Self:
        """Do what `record` does, for rows that were scored in blocks."""
        self.record_ = recorded(self, scored, y, domains)
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
        labelled = f", {adapted['labelled_rows']:,} of them labelled" if adapted["labelled_rows"] else ""
        return f"{promise} The thresholds are set by {adapted['rows']:,} rows of one domain{labelled}, for later rows."
