"""A report of domains in sentences: number of domains at target, and the worst domain."""

from collections.abc import Mapping

import numpy as np

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.report.domain_reports import Reports, all_targets, label_targets, n_at_target, worst_first
from domaincover.report.readable import percent, recall_text, shortened

LONGEST_NAME = 60
WHAT_TO_TRY = "Try a promise with a lower domain confidence, another base model, or a lower target."


def summary_lines(reports: Reports, target_recall: TargetRecall, *, kind: str = "unseen") -> list[str]:
    """Return the headline, the worst domain, and the share by chance alone; `kind` describes the domains."""
    shown = worst_first(reports, target_recall)
    model = next(iter(shown.values()))
    lines = [_headline(shown, f"{kind} ".lstrip()), _worst(model)]
    return lines if len(model.domain_names) == 1 else [*lines, _chance(model)]


def target_in_words(target_recall: TargetRecall) -> str:
    """Return the target in percent, or each label's own.

    >>> target_in_words(0.9), target_in_words(0.975)
    ('90 %', '97.5 %')
    >>> target_in_words({"sick": 0.95, "well": 0.8})
    '95 % (sick) and 80 % (well)'
    """
    if isinstance(target_recall, Mapping):
        return " and ".join(f"{100 * value:.6g} % ({name})" for name, value in target_recall.items())
    return f"{100 * target_recall:.6g} %"


def claim_in_words(report: DomainReport) -> str:
    """Return what holds in a domain at target."""
    at_least = f"is at least {target_in_words(report.judged_by.given)}"
    if report.is_coverage:
        return f"the coverage {at_least}"
    if isinstance(report.judged_by.given, Mapping):
        return f"the recall {at_least}"
    all_count = not np.isnan(report.recall).all(axis=0).any()
    return f"every {'' if all_count else 'counted '}label's recall {at_least}"


def _headline(shown: dict[str, DomainReport], kind: str) -> str:
    (_, model), *others = shown.items()
    n_domains, n_held = len(model.domain_names), n_at_target(model)
    claim = claim_in_words(model)
    if n_domains == 1:
        where = f"the only {kind}domain" + ("" if n_held else " not")
    elif n_held in (0, n_domains):
        where = f"{'all' if n_held else 'none of the'} {n_domains} {kind}domains"
    else:
        where = f"{n_held} of {n_domains} {kind}domains"
    median = " at the median" if n_domains > 1 else ""
    rivals = [_rival(shortened([name], LONGEST_NAME)[0], report) for name, report in others]
    if not model.is_useless:
        own = f"In {where} {claim}, with {size_text(model)} labels per set{median}, {_by_lot(model)} drawn by lot"
        return "; ".join([own, *rivals]) + "."
    useless = (
        f"The sets are useless: {size_text(model)} labels per set{median}, and sets drawn by lot would have "
        f"{np.median(model.size_by_lot):.2f} at the same recall."
    )
    return " ".join([useless, "; ".join([f"In {where} {claim}", *rivals]) + ".", WHAT_TO_TRY])


def size_text(report: DomainReport) -> str:
    """Return the set size in the median domain, with the number of labels that there are."""
    return f"{np.median(report.set_size):.2f} of {len(report.label_names)}"


def _by_lot(report: DomainReport) -> str:
    return f"against {np.median(report.size_by_lot):.2f}"


def _rival(name: str, report: DomainReport) -> str:
    n_domains = len(report.domain_names)
    is_single = bool((report.single_rate == 1).all())
    who = f"a single-label model ({name})" if is_single else name
    size = "" if is_single else f", with {size_text(report)} labels per set, {_by_lot(report)} by lot"
    if n_domains == 1:
        lowest = recall_text(report.min_recall[0], all_targets(report))
        return f"the {'coverage' if report.is_coverage else 'lowest recall'} of {who} is {lowest}{size}"
    return f"{who} does so in {n_at_target(report)} of {n_domains}{size}"


def _worst(model: DomainReport) -> str:
    measure = "coverage" if model.is_coverage else "recall"
    if (model.min_recall == 1).all():
        return f"The lowest {measure} is 1."
    if model.is_coverage:
        label, value, n = 0, float(model.coverage[0]), int(model.n[0])
    else:
        label = int(np.nanargmin(model.recall[0] - label_targets(model)))
        value, n = float(model.recall[0, label]), int(model.n_by_label[0, label])
    label_name, domain = (
        shortened([str(name)], LONGEST_NAME)[0] for name in (model.label_names[label], model.domain_names[0])
    )
    where = f"in domain “{domain}”, from {n} example{'' if n == 1 else 's'}."
    own = " against its label’s target" if isinstance(model.judged_by.given, Mapping) else ""
    lowest = f"The lowest {measure}{own} is {recall_text(value, all_targets(model))}:"
    return f"{lowest} {where}" if model.is_coverage else f"{lowest} label “{label_name}” {where}"


def _chance(model: DomainReport) -> str:
    share = percent(model.share_by_noise())
    return (
        f"If no domain differed from another, chance alone would put {share} of domains at the target; "
        f"{n_at_target(model)} of {len(model.domain_names)} are."
    )
