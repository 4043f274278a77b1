"""The paper's tables and figures as sections of a page: ours beside the paper's, and what was not run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from domaincover.paper.published import WILDS_MISSING, Exhibit, Published, is_quotable
from domaincover.paper.study_report.published_comparison import NOT_RUN, compared_with_published, signed
from domaincover.paper.study_report.results_table import NOTE, CheckedResults, notes_of, of_dataset
from domaincover.paper.study_report.tradeoffs import has_curves
from domaincover.paper.wilds.hyperparameters import PAPER as WILDS
from domaincover.prediction_sets import is_hardly_better_than_lot, size_by_lot
from domaincover.report.ranking import DAGGER, DEGENERATE, is_best, is_degenerate, rule_in_words
from domaincover.report.readable import ABSENT, percent, size_of, with_spread
from domaincover.report.style import (
    SINGLE_LABEL_METHODS,
    MethodStyle,
    dataset_label,
    method_styles,
    short_label,
    splits_in_order,
)

TABLES = ("results", "times", "settings")
NOT_IN_PAPER = "Not in the paper"


class BesidePaper(NamedTuple):
    """Ours, the paper's, and ours less the paper's, of one measure."""

    ours: str
    paper: str
    difference: str
    bold: bool = False


class Row(NamedTuple):
    """A method's min recall, set size and share at target."""

    style: MethodStyle
    cells: tuple[BesidePaper, BesidePaper, BesidePaper]


class Group(NamedTuple):
    """The rows of one data set, and why there are none of ours."""

    title: str
    note: str
    rows: list[Row]


class Panel(NamedTuple):
    """A plot of a figure: its data set's place in the page's data, and the split for plots of several."""

    number: int
    title: str
    split: int | None = None


class Section(NamedTuple):
    """A table or figure of the paper on the page; `others` and `other_groups` are on data that it does not have."""

    exhibit: Exhibit
    number: int
    status: str
    missing: str
    legend: list[tuple[str, list[MethodStyle]]]
    panels: list[Panel]
    others: list[Panel]
    groups: list[Group]
    other_groups: list[Group]
    rule: str
    notes: list[str]

    @property
    def is_figure(self) -> bool:
        """Whether it is drawn."""
        return self.exhibit.kind not in TABLES

    @property
    def is_folded(self) -> bool:
        """Whether it shows nothing of ours."""
        return self.exhibit.kind == "settings" or (self.status == NOT_RUN and not (self.others or self.other_groups))


def exhibit_sections(published: Published, results: CheckedResults) -> list[Section]:
    """Return a section for every table and figure of the paper, in its order.

    Results of quick runs alone do not stand beside the paper's numbers.
    """
    if not is_quotable(results[NOTE]).any():
        published = published._replace(results=published.results[:0])
    return [_section(published, place, results) for place in range(len(published.exhibits))]


def rows_of(exhibit: Exhibit, results: CheckedResults) -> CheckedResults:
    """Return the results that a table or figure compares, of all data sets."""
    wanted = results["method"].isin([*exhibit.methods, *exhibit.ours])
    return CheckedResults(results[wanted & results["target_recall"].isin(exhibit.target_recalls)])


def _section(published: Published, place: int, results: CheckedResults) -> Section:
    exhibit = published.exhibits[place]
    rows = rows_of(exhibit, results)
    if exhibit.kind == "curves":
        drawn = [name for name in rows["dataset"].unique() if has_curves(rows, name)]
        rows = CheckedResults(rows[rows["dataset"].isin(drawn)])
    if exhibit.kind != "cross-splits":
        rows = CheckedResults(rows[rows["split"] == "unseen"])
    run = [name for name in exhibit.datasets if name in set(rows["dataset"])]
    missing = [name for name in exhibit.datasets if name not in run]
    others = _others(published, place, rows)
    is_table = exhibit.kind in TABLES
    is_results = exhibit.kind == "results"
    return Section(
        exhibit=exhibit,
        number=place,
        status=_status(exhibit, run),
        missing="" if exhibit.kind == "settings" else _missing_in_words(missing),
        legend=[] if is_table else _legend(rows[rows["dataset"].isin([*run, *others])]),
        panels=[] if is_table else _panels(exhibit, results, run),
        others=[] if is_table else _panels(exhibit, results, others),
        groups=_groups(published, exhibit, rows, exhibit.datasets) if is_results else [],
        other_groups=_groups(published, exhibit, rows, others) if is_results else [],
        rule=_rule(published, exhibit, rows) if is_results else "",
        notes=notes_of(rows),
    )


def _status(exhibit: Exhibit, run: Sequence[str]) -> str:
    """Return how much of an exhibit was run, for the index."""
    if exhibit.kind in ("settings", "times"):
        return ""
    if not run:
        return NOT_RUN
    return "" if len(run) == len(exhibit.datasets) else f"{len(run)} of {len(exhibit.datasets)} run"


def _rule(published: Published, exhibit: Exhibit, rows: CheckedResults) -> str:
    """Return what bold and marked numbers of a table mean."""
    own = published.results[published.results["source"] == exhibit.name]
    is_marked = any(_is_marked(row, published.n_labels[row["dataset"]]) for row in own.to_dict("records"))
    said = rule_in_words(rows) if len(rows) else ""
    return said if DAGGER in said or not is_marked else f"{said} {DEGENERATE}".strip()


def _is_marked(row: Mapping[Any, Any], n_labels: int) -> bool:
    """Return whether published sets are hardly better than by lot; those of a single label never are."""
    by_lot = is_hardly_better_than_lot(row["set_size"], size_by_lot(n_labels, row["min_recall"]))
    return bool(by_lot) and row["method"] not in SINGLE_LABEL_METHODS


def _missing_in_words(datasets: Sequence[str]) -> str:
    """Return what was not run and why, or an empty text."""
    reasons: dict[str, list[str]] = {}
    for dataset in datasets:
        reasons.setdefault(_why_missing(dataset), []).append(short_label(dataset))
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def _why_missing(dataset: str) -> str:
    return WILDS_MISSING if dataset in WILDS else NOT_RUN


def _others(published: Published, place: int, rows: CheckedResults) -> list[str]:
    """Return the data sets that were run and that no like exhibit has; the last of these exhibits shows them."""
    exhibit = published.exhibits[place]
    alike = [other for other in published.exhibits if other.compares == exhibit.compares]
    if alike[-1] is not exhibit:
        return []
    theirs = {name for other in alike for name in other.datasets}
    return [name for name in dict.fromkeys(rows["dataset"]) if name not in theirs]


def _panels(exhibit: Exhibit, results: CheckedResults, datasets: Sequence[str]) -> list[Panel]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(results["dataset"]))}
    if exhibit.kind != "cross-splits":
        return [Panel(numbers[name], dataset_label(name)) for name in datasets]
    splits = splits_in_order(results["split"])
    return [
        Panel(numbers[name], f"{dataset_label(name)}: {split}", splits.index(split))
        for name in datasets
        for split in reversed(splits_in_order(of_dataset(results, name)["split"]))
    ]


def _legend(rows: pd.DataFrame) -> list[tuple[str, list[MethodStyle]]]:
    """Return the methods of a figure in groups: the paper's, and others."""
    styles = list(method_styles(rows["method"]).values())
    groups = [("", [style for style in styles if not style.ours]), (NOT_IN_PAPER, [s for s in styles if s.ours])]
    return [(name, members) for name, members in groups if members]


def _groups(published: Published, exhibit: Exhibit, rows: CheckedResults, datasets: Sequence[str]) -> list[Group]:
    """Return the rows of these data sets: what was published, what was run, or both."""
    compared = compared_with_published(rows, published.results, exhibit.experiment)
    compared = compared[compared["source"] == exhibit.name]
    theirs = {(row["dataset"], row["method"]): row for row in compared.to_dict("records")}
    marked = rows.assign(best=is_best(rows), degenerate=is_degenerate(rows)) if len(rows) else rows
    ours = {(row["dataset"], row["method"]): row for row in marked.to_dict("records")}
    styles = method_styles([*exhibit.methods, *rows["method"]])
    groups = []
    for dataset in datasets:
        methods = [method for method in styles if (dataset, method) in ours or (dataset, method) in theirs]
        own = [
            Row(styles[method], _cells(ours.get((dataset, method)), theirs.get((dataset, method)), published, dataset))
            for method in methods
        ]
        n_labels = published.n_labels.get(dataset)
        title = dataset_label(dataset) + (f", {n_labels} labels" if n_labels else "")
        is_missing = not any((dataset, method) in ours for method in methods)
        groups.append(Group(title, _why_missing(dataset) if is_missing else "", own))
    return [group for group in groups if group.rows]


def _cells(
    ours: Mapping[Any, Any] | None, theirs: Mapping[Any, Any] | None, published: Published, dataset: str
) -> tuple[BesidePaper, BesidePaper, BesidePaper]:
    """Return the three measures; bold is the share of the method that comes first."""
    own = [ABSENT] * 3
    if ours is not None:
        own = [
            with_spread(ours["min_recall"], ours["min_recall_std"], decimals=2),
            size_of(ours["set_size"], ours["set_size_std"], ours["n_labels"], bool(ours["degenerate"])),
            percent(ours["share_at_target"], ours["share_at_target_std"]),
        ]
    paper = [ABSENT] * 3
    gaps = [""] * 3
    if theirs is not None:
        size, recall = theirs["set_size_published"], theirs["min_recall_published"]
        printed = {"method": theirs["method"], "set_size": size, "min_recall": recall}
        mark = f" {DAGGER}" if _is_marked(printed, published.n_labels[dataset]) else ""
        paper = [
            with_spread(recall, theirs["min_recall_published_std"], decimals=2),
            with_spread(size, theirs["set_size_published_std"], decimals=2) + mark,
            percent(theirs["share_at_target_published"], theirs["share_at_target_published_std"]),
        ]
        names = ("min_recall", "set_size", "share_at_target")
        differences = [theirs[f"{name}_difference"] for name in names]
        scales = ((1, 2), (1, 2), (100, 0))
        gaps = [
            "" if math.isnan(value) else signed(scale * value, decimals)
            for value, (scale, decimals) in zip(differences, scales, strict=True)
        ]
    bold = ours is not None and bool(ours["best"])
    first, second, third = (BesidePaper(*texts) for texts in zip(own, paper, gaps, strict=True))
    return first, second, third._replace(bold=bold)


CAPTIONS = {
    "cross": "Points are medians over domains, bars run from the 25th to the 75th percentile; the line is the target.",
    "curves": "A line per method through its target recalls, which stand beside its points.",
    "share": "Share of unseen domains whose min recall is at least the target; thin lines are one standard deviation.",
    "min-recall": "Box: the middle half of the domains of all seeds; whiskers within 1.5 box lengths; points beyond.",
    "coverage": "Share of unseen domains at target against set size; thin lines are one standard deviation over seeds.",
}
CAPTIONS["cross-splits"] = CAPTIONS["cross"]
