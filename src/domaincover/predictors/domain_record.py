"""What new domains give after a fit: thresholds by their unlabelled rows, and outcomes, recorded for a verdict.

The residual of a domain is by how much its thresholds may be raised until a label drops below its target, negative
where they have to be lowered. If a new domain is drawn like those that calibrated and those recorded, its residual is
equally likely to take any place among theirs: an order statistic of all of them, added to the thresholds of every
domain, makes the same promise again. Nothing is fitted anew, and no rows are kept.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import (
    AdaptiveThresholds,
    offset_of,
    recency_weights,
    rounded_down,
    self_calibrated_thresholds,
)
from domaincover.calibration.rules import cell_thresholds, order_ranks
from domaincover.criteria import Sets
from domaincover.data.dataset import texts
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport, Tallies, tallied
from domaincover.predictors.calibrated_predictors import Scored, promised_apart
from domaincover.predictors.set_predictor import as_names, coded_domains, label_codes
from domaincover.promises.certificates import seen_among
from domaincover.promises.verdict import HeldOut, Verdict, judged, residual_ranks
from domaincover.terminal.text import cut, listed

if TYPE_CHECKING:
    from domaincover.predictors.promised_predictor import PromisedPredictor

MOST_UNUSUAL = 5  # named in a warning
LONGEST_NAME = 60
HALF = 0.5  # of the rows are offered for labels
MOST_KEPT = 1000  # calibration domains whose residuals are kept, so that a model stays small


def sets_with_labels(
    model: PromisedPredictor, rows: Scored, labels: NDArray[np.int64], domains: NDArray[np.int64], n_labels: int
) -> tuple[Sets, NDArray[np.int64]]:
    """Return sets by models that have learned from labels of each domain, and the rows that these are of.

    Half of a domain's rows are offered for labels, at random; the sets are those of the others, in domains with rows
    enough. Rows have their features, and labels and domains are codes.
    """
    half = np.random.default_rng(0).random(len(labels)) < HALF  # the same rows for any number of labels
    sets, later = [np.empty((0, len(model.classes_)), dtype=bool)], [np.empty(0, np.int64)]
    for domain in np.unique(domains):  # each is a model of its own
        pool, others = (np.flatnonzero((domains == domain) & part) for part in (half, ~half))
        if len(pool) < n_labels or not len(others):
            continue
        given = np.full(len(pool), None, dtype=object)
        if n_labels:
            chosen = model.choose_rows(rows.of(pool), n_labels)
            given[chosen] = model.classes_[labels[pool][chosen]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # labels of one kind alone, or too few, teach nothing
            adapted = model.adapt(rows.of(pool), given)
        sets.append(adapted.corrected_scores(rows.of(others)) >= adapted.thresholds_)
        later.append(others)
    return np.concatenate(sets), np.concatenate(later)


class AdaptedDomains(NamedTuple):
    """Adapted and fixed thresholds, and the p-value of each domain."""

    thresholds: NDArray[np.float64]  # domains × labels
    p_values: NDArray[np.float64]  # domains; NaN for one with too few rows
    fixed: NDArray[np.float64]  # labels
    level: float  # domains with a p-value up to this are unusual

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Which domains have thresholds of their own: with few rows, or rows that say little, they are the fixed."""
        return np.asarray((self.thresholds != self.fixed).any(axis=1))

    @property
    def shift(self) -> NDArray[np.float64]:
        """Adapted less fixed thresholds, domains × labels; NaN for a label that is in every set."""
        with np.errstate(invalid="ignore"):
            found = self.thresholds - self.fixed
        return np.where(np.isfinite(found), found, np.nan)

    @property
    def mean_shift(self) -> NDArray[np.float64]:
        """The mean shift over the labels of each domain."""
        known = np.isfinite(self.shift)
        return np.nansum(self.shift, axis=1) / np.maximum(known.sum(axis=1), 1)

    def subset(self, rows: Any) -> AdaptedDomains:
        """Return the given domains in the given order."""
        return self._replace(thresholds=self.thresholds[rows], p_values=self.p_values[rows])

    def records(self, label_names: Sequence[Hashable]) -> list[dict[str, Any]]:
        """Return one record per domain for strict JSON."""
        labels = texts(label_names)
        shifts = self.shift.astype(object)
        shifts[np.isnan(self.shift)] = None
        return [
            {
                "p_value": None if np.isnan(p_value) else float(p_value),
                "threshold_shift": float(mean),
                "threshold_shift_by_label": dict(zip(labels, row.tolist(), strict=True)),
            }
            for p_value, mean, row in zip(self.p_values, self.mean_shift, shifts, strict=True)
        ]


def unusual_domains(names: Sequence[Hashable], p_values: NDArray[np.float64], level: float) -> str | None:
    """Return a warning with the domains least like the calibration domains; None if there are none.

    >>> unusual_domains(["a", "b", "c"], np.array([0.5, 0.01, 0.05]), 0.05)
    '2 of 3 domains are unlike those that calibrated (p ≤ 0.05; 5 % are so by chance): b (p = 0.01), c (p = 0.05). \
The promise may not hold there.'
    """
    unusual = np.flatnonzero(p_values <= level)
    if len(unusual) == 0:
        return None
    lowest = unusual[np.argsort(p_values[unusual], kind="stable")]
    shown = texts([names[row] for row in lowest])
    named = [f"{cut(name, LONGEST_NAME)} (p = {p_values[row]:.2g})" for name, row in zip(shown, lowest, strict=True)]
    verb = "domain is" if len(names) == 1 else "domains is" if len(unusual) == 1 else "domains are"
    return (
        f"{len(unusual)} of {len(names)} {verb} unlike those that calibrated (p ≤ {level:.2g}; {100 * level:.0f} % are "
        f"so by chance): {listed(named, MOST_UNUSUAL)}. The promise may not hold there."
    )


class Record(NamedTuple):
    """Domains in the order in which they were recorded, with the counts of the sets that the model predicts.

    Residuals are +∞ where a label does not count: of the thresholds that predict, then of the fixed ones.
    """

    names: NDArray[Any]
    p_values: NDArray[np.float64]
    n_by_cell: NDArray[np.int64]  # domains × labels
    hits_by_cell: NDArray[np.int64]
    n_by_size: NDArray[np.int64]  # domains × sizes
    residuals: NDArray[np.float64]  # domains × 2 × groups of the criterion

    def then(self, other: Record) -> Record:
        """Return this record with the domains of another at its end."""
        names = as_names((*self.names.tolist(), *other.names.tolist()))
        joined: list[Any] = [np.concatenate(both) for both in zip(self[1:], other[1:], strict=True)]
        return Record(names, *joined)


def recorded(model: PromisedPredictor, scored: Scored, y: Any, domains: Any) -> Record:
    """Return the record with the outcome of new domains; reject one that is seen, recorded, or too small to count."""
    coded, labels = coded_domains(domains, len(scored.scores)), label_codes(y, model.classes_)
    if len(labels) != len(scored.scores):
        raise InputError(f"there are {len(scored.scores)} rows and {len(labels)} labels; every row needs one.")
    _check_new(model, coded.names)
    n, codes = len(coded.names), coded.codes
    predicted, p_values = np.tile(model.thresholds_, (n, 1)), np.full(n, np.nan)
    if model.can_adapt:
        predicted, p_values = model.adapted_domains(scored, codes, n)[:2]
    tallies = tallied(scored.scores >= predicted[codes], labels, codes, n)
    residuals = _residuals(model, scored.scores, labels, codes, predicted)
    is_small = (model.own_criterion.group_counts(tallies.n_by_cell) < model.min_cell_size).all(axis=1)
    if is_small.any():
        small = [texts(coded.names)[k] for k in np.flatnonzero(is_small)]
        raise InputError(
            f"domain {listed(small, 5)}: no label has {model.min_cell_size} rows there, so nothing was recorded; a "
            "domain is recorded once, with all of its rows."
        )
    order = np.argsort(np.unique(codes, return_index=True)[1])  # of their first rows
    parts: list[Any] = [part[order] for part in (as_names(coded.names), p_values, *tallies, residuals)]
    return Record(*parts) if not hasattr(model, "record_") else model.record_.then(Record(*parts))


def _check_new(model: PromisedPredictor, names: Sequence[Any]) -> None:
    if hasattr(model, "adapted_"):
        raise InputError("this model is adapted to one domain; the record is that of the model that it came from.")
    known = {
        "in the record already, where a domain counts once": model.record_.names if hasattr(model, "record_") else (),
        "seen in training, and a record is about new domains": model.seen_domains_ or (),
    }
    for what, others in known.items():
        again = [name for name, is_known in zip(texts(names), seen_among(names, others), strict=True) if is_known]
        if again:
            raise InputError(f"domain {listed(again, 5)}: {what}; nothing was recorded.")


def _residuals(
    model: PromisedPredictor,
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    predicted: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return by how much thresholds may be raised: those that each domain is predicted with, and the fixed ones."""
    criterion, thresholds = model.own_criterion, np.stack(np.broadcast_arrays(predicted, model.thresholds_), axis=1)
    own = thresholds[..., :1] if criterion.is_coverage else thresholds[..., criterion.constrained]
    asked = cell_thresholds(scores, labels, domains, criterion, model.min_cell_size)[:, None]
    never = np.isneginf(own)  # a label that is in every set
    return np.where(never, np.inf, asked - np.where(never, 0.0, own))


def calibration_residuals(
    model: PromisedPredictor,
    scored: Scored,
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    places: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return residuals of whole calibration domains, as in a record: what it is compared with.

    With places of the domains in an order, they are in it; else in a random one.
    """
    present, codes = np.unique(domains, return_inverse=True)
    predicted = np.tile(model.thresholds_, (len(present), 1))
    if model.can_adapt:
        evidence = self_calibrated_thresholds(*scored[:2], codes, model.own_criterion, len(present))
        own = AdaptiveThresholds(**model.adaptation_).of_evidence(evidence, np.bincount(codes))
        predicted = model._by_label(own)
    found = _residuals(model, scored.scores, labels, codes, predicted)
    counting = np.flatnonzero(np.isfinite(found).any(axis=(1, 2)))
    if places is not None:
        return found[counting[np.argsort(places[present[counting]])][-MOST_KEPT:]]
    return found[np.random.default_rng(0).permutation(counting)[:MOST_KEPT]]


def record_report(model: PromisedPredictor) -> DomainReport:
    """Return the report of the recorded domains, in the order in which they were recorded."""
    if not hasattr(model, "record_"):
        raise InputError("nothing is recorded yet; add domains with their labels: model.record(X, y, domains).")
    names, _, *tallies, _ = model.record_
    about: dict[str, Any] = {"min_cell_size": model.min_cell_size, "criterion": model.own_criterion}
    about["thresholds"] = "adapted" if model.can_adapt else "fixed"
    return DomainReport(tuple(names.tolist()), tuple(model.classes_.tolist()), Tallies(*tallies), **about)


def judged_report(model: PromisedPredictor, report: DomainReport | None = None) -> DomainReport | None:
    """Return what a promise is judged by: new domains, with the labels promised together; None where there is nothing.

    The report is that of the record if none is given.
    """
    own, seen = model.own_criterion, model.seen_domains_
    report = record_report(model) if report is None else report
    criterion = report.criterion
    if criterion is None or (criterion.name, criterion.given) != (own.name, own.given) or hasattr(model, "adapted_"):
        return None
    if seen is None or report.min_cell_size < model.min_cell_size:
        return None
    if not report.is_coverage:
        apart = set(model.classes_[promised_apart(model)].tolist())
        targets = np.where([name in apart for name in report.label_names], np.nan, criterion.targets)
        report = replace(report, criterion=criterion._replace(targets=targets))
    is_new = ~np.array(seen_among(report.domain_names, seen), dtype=bool)
    report = report.subset(is_new & ~np.isnan(report.group_recall).all(axis=1))
    return report if report.domain_names else None


def verdict_on(model: PromisedPredictor, report: DomainReport | None = None) -> Verdict | None:
    """Return the verdict of a report's new domains, or of the record, on a promise; None where they say nothing."""
    found = judged_report(model, report)
    if found is None:
        return None
    held_out, ranks = _held_out(model), None
    if report is None and held_out is not None:
        lowest = [residuals[:, 0].min(axis=1) for residuals in (model.calibration_residuals_, model.record_.residuals)]
        ranks = residual_ranks(*lowest)
    return judged(found.at_target(), model.domain_confidence, held_out=held_out, ranks=ranks)


def _held_out(model: PromisedPredictor) -> HeldOut | None:
    """Return what the offset of held-out domains is; None where domains calibrate in another way, or labels apart."""
    m = len(model.calibration_domains_)
    rank = int(order_ranks(m, model.domain_confidence))
    is_alike = model.calibration == "held-out-domains" and getattr(model, "domain_order", None) is None
    known = is_alike and rank > 0 and not promised_apart(model).any()
    return HeldOut(m, rank) if known else None


def recalibrated(model: PromisedPredictor) -> Any:
    """Return a copy of a model in which the domains of its record calibrate, too; its own record begins anew."""
    names = list(record_report(model).domain_names)
    criterion, confidence = model.own_criterion, model.domain_confidence
    if not hasattr(model, "calibration_residuals_"):
        raise InputError(
            "every set holds every label, since too few domains calibrated; fit again with those recorded."
        )
    allowed = np.concatenate([model.calibration_residuals_, model.record_.residuals])
    n_by_group = np.isfinite(allowed[:, 0]).sum(axis=0)
    promised = order_ranks(n_by_group, confidence) >= 1
    never_raised = np.where(promised, np.inf, 0.0)  # what their pooled rows allow is not known any more
    weights = None if getattr(model, "domain_order", None) is None else recency_weights(len(allowed), confidence)
    shifts = [offset_of(allowed[None, :, kind], promised, never_raised, confidence, weights) for kind in (0, 1)]
    new = copy.copy(model)
    del new.record_
    new.thresholds_ = rounded_down(model.thresholds_, criterion.by_label(shifts[1], 0.0))
    if model.can_adapt:
        new.adaptation_ = _shifted(model.adaptation_, shifts[0])
        new.later_adaptation_ = _shifted(model.later_adaptation_, np.minimum(shifts[0], 0.0))
        new.few_labels_ = {
            level: {**found, "thresholds": _shifted(found["thresholds"], np.minimum(shifts[0], 0.0))}
            for level, found in getattr(model, "few_labels_", {}).items()
        }
    new.calibration_residuals_ = allowed - np.stack(shifts)
    new.domains_ = as_names((*model.domains_.tolist(), *names))
    new.calibration_domains_ = as_names((*model.calibration_domains_.tolist(), *names))
    new.domains_by_label_ = model.domains_by_label_ + criterion.by_label(
        np.isfinite(model.record_.residuals[:, 0]).sum(axis=0), 0
    )
    new.n_recorded_ = getattr(model, "n_recorded_", 0) + len(names)
    new.promise_ = f"{new._promise_in_words()} Of them, {new.n_recorded_} came after the fit, from the record."
    return new


def _shifted(adaptation: dict[str, Any], shift: NDArray[np.float64]) -> dict[str, Any]:
    return {**adaptation, "offset": adaptation["offset"] + shift}
