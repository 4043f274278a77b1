"""Reports of one or more methods on the same domains: checked, worst domain first, with printable names."""

import dataclasses
import itertools
import math
import re
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import TargetRecall
from domaincover.data.dataset import texts
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport
from domaincover.report.readable import ABSENT, printable
from domaincover.report.style import KNOWN_METHODS, unused_name

Reports = Mapping[str, DomainReport]
MOST_DECIMALS = 9


def worst_first(reports: Reports, target_recall: TargetRecall) -> dict[str, DomainReport]:
    """Return the reports with the first one's worst domain first; names are distinct and printable."""
    if not reports:
        raise InputError("no reports were given; at least one is needed.")
    reports = {name: report.under(target_recall) for name, report in reports.items()}
    (first_name, first), *others = reports.items()
    for name, other in others:
        _check_same_domains(first_name, first, name, other)
    domains, labels = shown_names(first.domain_names), shown_names(first.label_names)
    rows = worst_order(first, target_recall)
    names = shown_names([_method_label(name) for name in reports])
    return {
        name: _rows_of(report, rows, [domains[row] for row in rows], labels)
        for name, report in zip(names, reports.values(), strict=True)
    }


def worst_order(report: DomainReport, target_recall: TargetRecall) -> list[int]:
    """Return the rows of the domains that count, those farthest below their target first, ties by display name."""
    judged = report.under(target_recall)
    names, margin = shown_names(report.domain_names), dict(zip(judged.domain_names, judged.margin, strict=True))
    rows = [row for row, name in enumerate(report.domain_names) if name in margin]
    return sorted(rows, key=lambda row: (margin[report.domain_names[row]], _natural(names[row])))


def shown_names(names: Sequence[Hashable]) -> list[str]:
    r"""Return names without line breaks and control codes, each different from the others.

    >>> shown_names(["a", "a\n", "a ", ""])
    ['a', 'a-2', 'a-3', '(blank)']
    """
    used: set[str] = set()
    return [unused_name(printable(name).strip() or "(blank)", used) for name in texts(names)]


def shortened(names: Sequence[str], longest: int) -> list[str]:
    """Return names shortened with "…", still distinct: first, leading words common to all long names are cut.

    >>> shortened(["North clinic, ward 7", "North clinic, ward 12 for children", "South"], 12)
    ['…7', '…12 for chi…', 'South']
    """
    n_shared = _n_shared([name for name in names if len(name) > longest], longest)
    used: set[str] = set()
    return [unused_name(_cut(name, n_shared, longest) if len(name) > longest else name, used) for name in names]


def lowest_labels(report: DomainReport) -> NDArray[np.int64]:
    """Return the code of the constrained label with the smallest recall in each domain."""
    counts = ~np.isnan(report.recall)
    if report.criterion is not None:
        counts &= report.criterion.constrained
    return np.where(counts, report.recall, np.inf).argmin(axis=1)


def all_targets(target_recall: TargetRecall) -> list[float]:
    """Return the distinct targets, lowest first: what a recall is rounded against."""
    return sorted(set(target_recall.values())) if isinstance(target_recall, Mapping) else [target_recall]


def label_targets(report: DomainReport, target_recall: TargetRecall) -> list[float]:
    """Return the target that each label's recall is compared with: NaN, with coverage too, for none."""
    judged = report.under(target_recall)
    return [math.nan] * len(report.label_names) if judged.is_coverage else judged.targets(target_recall).tolist()


def recall_text(recall: float, targets: Sequence[float], decimals: int = 3) -> str:
    """Return a recall with more digits where rounding would take it to the other side of a target.

    >>> recall_text(0.89961, [0.9]), recall_text(0.8981, [0.9]), recall_text(0.79961, [0.8, 0.95])
    ('0.8996', '0.898', '0.7996')
    """
    if np.isnan(recall):
        return ABSENT
    text = f"{recall:.{decimals}f}"
    if decimals < MOST_DECIMALS and any((recall < target) != (float(text) < target) for target in targets):
        return recall_text(recall, targets, decimals + 1)
    return text


def bound_text(lowest: float, targets: Sequence[float]) -> str:
    """Return a short lower bound of the lowest recall: a target, or two digits rounded down.

    >>> bound_text(0.9384, [0.9]), bound_text(0.9049, [0.903])
    ('0.93', '0.903')
    """
    down = math.floor(100 * lowest) / 100
    reached = max((target for target in targets if target <= lowest), default=down)
    return f"{reached:g}" if down < reached else f"{down:.2f}"


def _n_shared(names: list[str], longest: int) -> int:
    """Return how many characters of the common leading words to cut, at most all of them."""
    if len(names) < 2:
        return 0
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False))
    ends = [match.end() for match in re.finditer(r"[\W_]+", "".join(char for char, _ in pairs))]
    n_most = max(map(len, names))
    return next((end for end in ends if n_most - end < longest), max(ends, default=0))


def _cut(name: str, n_shared: int, longest: int) -> str:
    rest = f"…{name[n_shared:]}" if n_shared else name
    return rest if len(rest) <= longest else f"{rest[: longest - 1]}…"


def _check_same_domains(first_name: str, first: DomainReport, name: str, other: DomainReport) -> None:
    for what in ("domain", "label"):
        ours, theirs = (getattr(report, f"{what}_names") for report in (first, other))
        if ours != theirs:
            raise InputError(
                f"the reports of {first_name!r} and {name!r} do not have the same {what}s ({len(ours)} and "
                f"{len(theirs)}); evaluate both on the same examples."
            )


def _rows_of(report: DomainReport, rows: list[int], domains: list[str], labels: list[str]) -> DomainReport:
    return dataclasses.replace(report.subset(rows), domain_names=tuple(domains), label_names=tuple(labels))


def _method_label(name: str) -> str:
    return KNOWN_METHODS[name].label if name in KNOWN_METHODS else name


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts "ward 9" before "ward 10"."""
    return [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]
