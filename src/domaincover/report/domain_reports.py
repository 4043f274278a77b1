"""Reports of one or more methods on the same domains: checked, worst domain first; in sentences and as bars."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import TargetRecall
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport
from domaincover.report.readable import percent, recall_text, shortened, shown_names

Reports = Mapping[str, DomainReport]
MOST_SIZES = 9
LONGEST_NAME = 60
WHAT_TO_TRY = "Try a promise with a lower domain confidence, another base model, or a lower target."


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


def lowest(recalls: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place of the smallest recall, or distance from a target, in each row."""
    return np.where(np.isnan(recalls), np.inf, recalls).argmin(axis=1)


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


class Bar(NamedTuple):
    """How many sets have a size, as a share of all sets, and of the most frequent size."""

    name: str
    n: int
    share: float
    length: float


def size_bars(report: DomainReport) -> list[Bar]:
    """Return a bar for each size of sets from 0 (or 1, if no set is empty) to the largest; from ten on together."""
    counts = report.sets_by_size
    first, last = (0 if counts[0] else 1), max(int(np.flatnonzero(counts).max()), 1)
    by_name = {str(size): int(counts[size]) for size in range(first, min(last, MOST_SIZES) + 1)}
    if last > MOST_SIZES:
        by_name[f"{MOST_SIZES + 1}–{last}"] = int(counts[MOST_SIZES + 1 :].sum())
    n_all, most = sum(by_name.values()), max(by_name.values())
    return [Bar(name, n, n / n_all, n / most) for name, n in by_name.items()]


def sizes_in_words(counts: NDArray[np.int64]) -> str:
    """Return the share of sets of each size in a line; sizes from six on are counted together.

    >>> print(sizes_in_words(np.array([4, 140, 50, 6])))
    Labels per set (200 sets): none 2 %, one 70 %, two 25 %, three 3 %.
    >>> print(sizes_in_words(np.array([0, 99, 0, 0, 0, 0, 0, 1, 0])))
    Labels per set (100 sets): one 99 %, six or more 1 %.
    """
    n, names = int(counts.sum()), ("none", "one", "two", "three", "four", "five")
    by_name = dict(zip(names, counts.tolist(), strict=False)) | {"six or more": int(counts[len(names) :].sum())}
    shares = ", ".join(f"{name} {100 * count / n:.0f} %" for name, count in by_name.items() if count)
    return f"Labels per set ({n:,} sets): {shares}."


def track_start(lowest: float, targets: list[float]) -> float:
    """Return where an axis of recalls that ends at 1 begins, below the lowest recall and all targets."""
    lowest = min(lowest, *targets)
    return max(math.floor(10 * lowest) / 10 - 0.1, 0.0) if lowest < 1 else 0.0


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
