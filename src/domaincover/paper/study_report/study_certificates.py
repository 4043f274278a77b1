"""Certificates of a study: number of unseen domains at target by model, and bounds for the next domain."""

from typing import NamedTuple

from domaincover.paper.study_report.results_rows import answers_with_one_label
from domaincover.paper.study_report.results_table import CheckedDomains, CheckedResults, main_target, of_experiment
from domaincover.paper.study_report.style import MethodStyle, method_styles
from domaincover.promises.clopper_pearson import lower_bound, upper_bound

CONFIDENCE = 0.95
RESTS_ON = (
    "Each line takes one model, that of the first seed, as fixed, and its unseen domains as drawn one by one from "
    "where the next will come from; the bounds are exact (Clopper and Pearson, 1934). The confidence is that of one "
    "line, not of all lines at once. At target means counted at target: with few examples of a label, luck takes part."
)


class StudyEvidence(NamedTuple):
    """Number of unseen domains at target, the interval of the share, and a bound for the next domain."""

    style: MethodStyle
    n_at_target: int
    n_domains: int
    share: float
    low: float
    high: float
    next_at_least: float


def study_evidence(results: CheckedResults, domains: CheckedDomains, dataset: str) -> list[StudyEvidence]:
    """Return a row per method that gives sets, at the main target: the unseen domains of its first seed."""
    target = main_target(results, dataset)
    rows = of_experiment(results, dataset, target)
    rows = rows[(rows["split"] == "unseen") & ~answers_with_one_label(rows)]
    styles = method_styles(results["method"])
    single = of_experiment(domains, dataset, target)
    single = single[(single["split"] == "unseen") & single["min_recall"].notna()]
    found = []
    for method in rows["method"]:
        own = single[single["method"] == method]
        own = own[own["seed"] == own["seed"].min()]
        if not own.empty:
            found.append(_evidence(styles[method], int((own["min_recall"] >= target).sum()), len(own)))
    return found


def _evidence(style: MethodStyle, n: int, n_domains: int) -> StudyEvidence:
    each_side = (1 + CONFIDENCE) / 2
    bounds = lower_bound(n, n_domains, each_side), upper_bound(n, n_domains, each_side)
    return StudyEvidence(
        style, n, n_domains, n / n_domains, *map(float, (*bounds, lower_bound(n, n_domains, CONFIDENCE)))
    )
