"""What labelled domains that came after the fit say of a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.confidence import order_ranks
from domaincover.evaluation import DomainReport
from domaincover.promises.certificates import seen_among
from domaincover.promises.verdict import HeldOut, Verdict, judged

if TYPE_CHECKING:
    from domaincover.predictors.promised_predictor import PromisedPredictor


def verdict_on(model: PromisedPredictor, report: DomainReport) -> Verdict | None:
    """Return the verdict of a report's new domains on a model's promise; None where they say nothing of it."""
    own, given, seen = model.own_criterion, report.criterion, model.seen_domains_
    same = given is not None and (given.name, given.given) == (own.name, own.given)
    if not same or seen is None or hasattr(model, "adapted_") or report.min_cell_size < model.min_cell_size:
        return None
    report = report.subset(~np.array(seen_among(report.domain_names, seen), dtype=bool))
    at_target = at_target_together(model, report)
    return judged(at_target, model.domain_confidence, held_out=held_out(model)) if len(at_target) else None


def at_target_together(model: PromisedPredictor, report: DomainReport) -> NDArray[np.bool_]:
    """Return which domains are at target in all labels that are promised together; others than these are left out."""
    above = report.group_recall - report.judged_by.group_targets
    if not report.is_coverage:
        apart = set(model.classes_[promised_apart(model)].tolist())
        names = report.judged_by.group_names(report.label_names)
        above = above[:, [name not in apart for name in names]]
    counts = ~np.isnan(above)
    return np.asarray(np.where(counts, above, np.inf).min(axis=1, initial=np.inf)[counts.any(axis=1)] >= 0)


def promised_apart(model: PromisedPredictor) -> NDArray[np.bool_]:
    """Return which labels are in too few calibration domains to be promised together with the others."""
    if not hasattr(model, "domains_by_label_"):  # every set holds every label
        return np.zeros(len(model.classes_), dtype=bool)
    few = order_ranks(model.domains_by_label_, model.domain_confidence) < 1
    return np.asarray(model.own_criterion.constrained & few & np.isfinite(model.thresholds_))


def held_out(model: PromisedPredictor) -> HeldOut | None:
    """Return what the offset of held-out domains is; None where domains calibrate in another way."""
    m = len(model.calibration_domains_)
    rank = int(order_ranks(m, model.domain_confidence))
    return HeldOut(m, rank) if model.calibration == "held-out-domains" and rank > 0 else None
