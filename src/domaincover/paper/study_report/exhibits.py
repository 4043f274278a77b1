"""The paper's tables and figures as sections of a page: ours beside the paper's, and what was not run."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from domaincover.paper.catalogue import DATASET_GROUPS
from domaincover.paper.published import WILDS_MISSING, Exhibit, Published, is_quotable
from domaincover.paper.study_report.chart_data import caption, has_curves
from domaincover.paper.study_report.published_comparison import (
    COMPARED,
    NOT_RUN,
    compared_with_published,
)
from domaincover.paper.study_report.results_rows import DEGENERATE, is_best, is_degenerate, rules_in_words
from domaincover.paper.study_report.results_table import NOTE, CheckedResults, notes_of, of_dataset
from domaincover.paper.study_report.style import (
    SINGLE_LABEL_METHODS,
    MethodStyle,
    dataset_label,
    method_styles,
    short_label,
    splits_in_order,
)
from domaincover.prediction_sets import is_hardly_better_than_lot, size_by_lot
from domaincover.report.readable import sentence

TABLES = ("results", "times")


class Group(NamedTuple):
    """The rows of one data set, ours and the paper's, and why there are none of ours."""

    title: str
    note: str
    rows: list[tuple[MethodStyle, dict[Any, Any]]]


class Panel(NamedTuple):
    """A plot of a figure: its data set's place in the page's data, and the split for plots of several."""

    number: int
    title: str
    split: int | None = None


class Section(NamedTuple):
    """A table or figure of the paper on the page."""

    exhibit: Exhibit
    number: int
    status: str
    missing: str
    legend: list[MethodStyle]
    panels: list[Panel]
    groups: list[Group]
    caption: str
    notes: list[str]

    @property
    def is_figure(self) -> bool:
        """Whether it is drawn."""
        return self.exhibit.kind not in TABLES

    @property
    def is_folded(self) -> bool:
        """Whether it shows nothing of ours."""
        return self.status == NOT_RUN


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
    rows = CheckedResults(rows[rows["dataset"].isin(exhibit.datasets)])
    if exhibit.kind != "cross-splits":
        rows = CheckedResults(rows[rows["split"] == "unseen"])
    run = [name for name in exhibit.datasets if name in set(rows["dataset"])]
    if exhibit.kind == "curves":
        run = [name for name in run if has_curves(rows, name)]
    is_table = exhibit.kind in TABLES
    groups = _groups(published, exhibit, rows) if exhibit.kind == "results" else []
    n_seeds = 1 if rows.empty else int(rows["n_seeds"].max())
    return Section(
        exhibit=exhibit,
        number=place,
        status=_status(exhibit, run),
        missing=_missing_in_words([name for name in exhibit.datasets if name not in run]),
        legend=[] if is_table else list(method_styles(rows[rows["dataset"].isin(run)]["method"]).values()),
        panels=[] if is_table else _panels(exhibit, results, run),
        groups=groups,
        caption=_rule(groups, rows) if is_table else caption(exhibit.kind, n_seeds),
        notes=notes_of(rows),
    )


def _status(exhibit: Exhibit, run: Sequence[str]) -> str:
    """Return how much of an exhibit was run, for the index."""
    if exhibit.kind == "times":
        return ""
    if not run:
        return NOT_RUN
    return "" if len(run) == len(exhibit.datasets) else f"{len(run)} of {len(exhibit.datasets)} run"


def _rule(groups: Sequence[Group], rows: CheckedResults) -> str:
    """Return what bold and marked numbers of a table mean."""
    said = rules_in_words(rows) if len(rows) else []
    is_marked = any(row["degenerate_published"] for group in groups for _, row in group.rows)
    return " ".join(map(sentence, [*said, *([DEGENERATE] if is_marked and DEGENERATE not in said else [])]))


def _missing_in_words(datasets: Sequence[str]) -> str:
    """Return what was not run and why, or an empty text."""
    reasons: dict[str, list[str]] = {}
    for dataset in datasets:
        reasons.setdefault(_why_missing(dataset), []).append(short_label(dataset))
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def _why_missing(dataset: str) -> str:
    return WILDS_MISSING if dataset in DATASET_GROUPS["wilds"] else NOT_RUN


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


def _groups(published: Published, exhibit: Exhibit, rows: CheckedResults) -> list[Group]:
    """Return the rows of each data set: what was published, what was run, or both."""
    compared = compared_with_published(rows, published.results, exhibit.experiment)
    compared = compared[compared["source"] == exhibit.name]
    n_labels = compared["dataset"].map(published.n_labels).astype(float)
    by_lot = size_by_lot(n_labels, compared["min_recall_published"])
    says_little = is_hardly_better_than_lot(compared["set_size_published"], by_lot)
    compared = compared.assign(degenerate_published=says_little & ~compared["method"].isin(SINGLE_LABEL_METHODS))
    marked = rows.assign(best=is_best(rows), degenerate=is_degenerate(rows)) if len(rows) else rows
    unknown = dict.fromkeys(COMPARED, math.nan)
    unknown |= dict.fromkeys(("best", "degenerate", "degenerate_published"), False)
    records: dict[tuple[str, str], dict[Any, Any]] = {}
    for row in (*marked.to_dict("records"), *compared.to_dict("records")):
        key = (str(row["dataset"]), str(row["method"]))
        records[key] = {**records.get(key, unknown), **row}
    styles = method_styles([*exhibit.methods, *rows["method"]])
    groups = []
    for dataset in exhibit.datasets:
        title = f"{dataset_label(dataset)}, {published.n_labels[dataset]} labels"
        note = "" if dataset in set(rows["dataset"]) else _why_missing(dataset)
        shown = [(style, records[dataset, method]) for method, style in styles.items() if (dataset, method) in records]
        groups.append(Group(title, note, shown))
    return [group for group in groups if group.rows]
