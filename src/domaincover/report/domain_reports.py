"""Reports of one or more methods on the same domains: checked, worst domain first, with printable names."""

import dataclasses
import math
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import TargetRecall
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport
from domaincover.report.readable import shown_names

Reports = Mapping[str, DomainReport]


def worst_first(reports: Reports, target_recall: TargetRecall) -> dict[str, DomainReport]:
    """Return the reports under the target, the first one's worst domain first; names are distinct and printable."""
    if not reports:
        raise InputError("no reports were given; at least one is needed.")
    reports = {name: report.under(target_recall) for name, report in reports.items()}
    (first_name, first), *others = reports.items()
    for name, other in others:
        _check_same_domains(first_name, first, name, other)
    domains, labels = shown_names(first.domain_names), tuple(shown_names(first.label_names))
    rows = worst_order(first)
    names = tuple(domains[row] for row in rows)
    return {
        name: dataclasses.replace(report.subset(rows), domain_names=names, label_names=labels)
        for name, report in zip(shown_names(list(reports)), reports.values(), strict=True)
    }


def worst_order(report: DomainReport, target_recall: TargetRecall | None = None) -> list[int]:
    """Return the rows of the domains that count, those farthest below their target first, ties by display name."""
    judged = report.under(target_recall)
    names, margin = shown_names(report.domain_names), dict(zip(judged.domain_names, judged.margin, strict=True))
    rows = [row for row, name in enumerate(report.domain_names) if name in margin]
    return sorted(rows, key=lambda row: (margin[report.domain_names[row]], _natural(names[row])))


def lowest_labels(report: DomainReport) -> NDArray[np.int64]:
    """Return the code of the constrained label with the smallest recall in each domain."""
    is_free = np.zeros(len(report.label_names)) if report.criterion is None else ~report.criterion.constrained
    return _lowest(np.where(is_free, np.nan, report.recall))


def worst_labels(report: DomainReport) -> NDArray[np.int64]:
    """Return the code of the constrained label in each domain that is farthest below its target, or least above it."""
    return _lowest(report.recall - report.judged_by.targets)


def _lowest(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.where(np.isnan(values), np.inf, values).argmin(axis=1)


def all_targets(report: DomainReport) -> list[float]:
    """Return the distinct targets, lowest first: what a recall is rounded against."""
    return sorted(set(report.judged_by.group_targets.tolist()))


def label_targets(report: DomainReport) -> list[float]:
    """Return the target that each label's recall is compared with: NaN, with coverage too, for none."""
    targets = report.judged_by.targets
    return (targets * math.nan if report.is_coverage else targets).tolist()


def measure_of(report: DomainReport) -> str:
    """Return what is compared with the target."""
    return "coverage" if report.is_coverage else "min recall"


def n_at_target(report: DomainReport) -> int:
    """Return the number of domains at target."""
    return int(report.at_target().sum())


def _check_same_domains(first_name: str, first: DomainReport, name: str, other: DomainReport) -> None:
    for what in ("domain", "label"):
        ours, theirs = (getattr(report, f"{what}_names") for report in (first, other))
        if ours != theirs:
            raise InputError(
                f"the reports of {first_name!r} and {name!r} do not have the same {what}s ({len(ours)} and "
                f"{len(theirs)}); evaluate both on the same examples."
            )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts "ward 9" before "ward 10"."""
    return [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]
