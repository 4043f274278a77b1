"""The paper's tables and figures: as sections of a page, ours beside the paper's; and which figures a study draws.

A figure is one of the paper's, with its number, or one of a kind for what the paper's do not show.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from domaincover.errors import check_choice
from domaincover.options import FIGURES
from domaincover.paper.catalogue import DATASET_GROUPS
from domaincover.paper.published import WILDS_MISSING, Exhibit, Published, is_quotable
from domaincover.paper.study_report.chart_data import caption, has_curves
from domaincover.paper.study_report.results_table import (
    DEGENERATE,
    NOTE,
    is_best,
    is_degenerate,
    notes_of,
    of_dataset,
    rules_in_words,
    targets_of,
    unseen_rows,
)
from domaincover.paper.study_report.study_tables import COMPARED, NOT_RUN, compared_with_published
from domaincover.paper.study_report.style import (
    COMPARISON_LABELS,
    SINGLE_LABEL_METHODS,
    MethodStyle,
    comparisons_of,
    dataset_label,
    method_styles,
    short_label,
    splits_in_order,
)
from domaincover.prediction_sets import is_hardly_better_than_lot, size_by_lot
from domaincover.report.readable import sentence, unused_name

TABLES = ("results", "times")
LONGEST_SLUG = 80
# What the figures of each kind show, as a title; {target} is their target recall.
SUBJECTS = {
    "cross": "min recall against set size at target {target}",
    "cross-splits": "min recall against set size at target {target}, by split",
    "share": "share of unseen domains at target {target}",
    "min-recall": "min recall of unseen domains at target {target}",
    "curves": "min recall against set size by target recall",
    "coverage": "share of unseen domains at target {target} against set size",
}


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


def exhibit_sections(published: Published, results: pd.DataFrame) -> list[Section]:
    """Return a section for every table and figure of the paper, in its order.

    Results of quick runs alone do not stand beside the paper's numbers.
    """
    if not is_quotable(results[NOTE]).any():
        published = published._replace(results=published.results[:0])
    return [_section(published, place, results) for place in range(len(published.exhibits))]


def rows_of(exhibit: Exhibit, results: pd.DataFrame) -> pd.DataFrame:
    """Return the results that a table or figure compares, of all data sets."""
    wanted = results["method"].isin([*exhibit.methods, *exhibit.ours])
    return results[wanted & results["target_recall"].isin(exhibit.target_recalls)]


def _section(published: Published, place: int, results: pd.DataFrame) -> Section:
    exhibit = published.exhibits[place]
    rows = rows_of(exhibit, results)
    rows = rows[rows["dataset"].isin(exhibit.datasets)]
    if exhibit.kind != "cross-splits":
        rows = unseen_rows(rows)
    run = [name for name in exhibit.datasets if name in set(rows["dataset"])]
    if exhibit.kind == "curves":
        run = [name for name in run if has_curves(rows, name)]
    status = f"{len(run)} of {len(exhibit.datasets)} run" if len(run) < len(exhibit.datasets) else ""
    status = "" if exhibit.kind == "times" else status if run else NOT_RUN
    missing: dict[str, list[str]] = {}
    for name in exhibit.datasets:
        if name not in run:
            missing.setdefault(_why_missing(name), []).append(short_label(name))
    is_table = exhibit.kind in TABLES
    groups = _groups(published, exhibit, rows) if exhibit.kind == "results" else []
    n_seeds = 1 if rows.empty else int(rows["n_seeds"].max())
    return Section(
        exhibit=exhibit,
        number=place,
        status=status,
        missing="; ".join(f"{', '.join(names)}: {reason}" for reason, names in missing.items()),
        legend=[] if is_table else list(method_styles(rows[rows["dataset"].isin(run)]["method"]).values()),
        panels=[] if is_table else _panels(exhibit, results, run),
        groups=groups,
        caption=_rule(groups, rows) if is_table else caption(exhibit.kind, n_seeds),
        notes=notes_of(rows),
    )


def _rule(groups: Sequence[Group], rows: pd.DataFrame) -> str:
    """Return what bold and marked numbers of a table mean."""
    said = rules_in_words(rows) if len(rows) else []
    is_marked = any(row["degenerate_published"] for group in groups for _, row in group.rows)
    return " ".join(map(sentence, [*said, *([DEGENERATE] if is_marked and DEGENERATE not in said else [])]))


def _why_missing(dataset: str) -> str:
    return WILDS_MISSING if dataset in DATASET_GROUPS["wilds"] else NOT_RUN


def _panels(exhibit: Exhibit, results: pd.DataFrame, datasets: Sequence[str]) -> list[Panel]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(results["dataset"]))}
    if exhibit.kind != "cross-splits":
        return [Panel(numbers[name], dataset_label(name)) for name in datasets]
    splits = splits_in_order(results["split"])
    return [
        Panel(numbers[name], f"{dataset_label(name)}: {split}", splits.index(split))
        for name in datasets
        for split in reversed(splits_in_order(of_dataset(results, name)["split"]))
    ]


def _groups(published: Published, exhibit: Exhibit, rows: pd.DataFrame) -> list[Group]:
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


class PlannedFigure(NamedTuple):
    """A figure: the name of its file, its title, its kind, the data sets of its plots, and the rows that it shows."""

    name: str
    title: str
    kind: str
    datasets: tuple[str, ...]
    target_recall: float
    results: pd.DataFrame


def planned_figures(
    results: pd.DataFrame, kinds: Collection[str] | None = None, exhibits: Sequence[Exhibit] = ()
) -> list[PlannedFigure]:
    """Return the figures of these kinds, or of all that apply; first those that are exhibits of a paper.

    What no exhibit shows, such as other data sets, methods and targets, is in one figure of each kind and target.
    """
    for kind in kinds or ():
        check_choice("kind of figure", kind, FIGURES)
    wanted = [kind for kind in SUBJECTS if kinds is None or kind in kinds]
    used: set[str] = set()
    figures = []
    for kind in wanted:
        own = [exhibit for exhibit in exhibits if exhibit.kind == kind]
        figures += [figure for exhibit in own if (figure := _exhibited(exhibit, results)) is not None]
    for kind in wanted:
        own = [exhibit for exhibit in exhibits if exhibit.kind == kind]
        figures += [figure._replace(name=unused_name(figure.name, used)) for figure in _others(results, kind, own)]
    return figures


def _exhibited(exhibit: Exhibit, results: pd.DataFrame) -> PlannedFigure | None:
    """Return one of the paper's figures, with its data sets on which all its methods were run; None without any."""
    rows = rows_of(exhibit, results)
    run = [name for name in exhibit.datasets if set(exhibit.methods) <= set(of_dataset(rows, name)["method"])]
    drawn = tuple(name for name in run if _can_be_drawn(rows, name, exhibit.kind))
    title = f"{exhibit.name}. {exhibit.title}"
    return PlannedFigure(exhibit.slug, title, exhibit.kind, drawn, exhibit.target_recalls[-1], rows) if drawn else None


def _others(results: pd.DataFrame, kind: str, exhibits: Sequence[Exhibit]) -> Iterable[PlannedFigure]:
    """Yield the figures of a kind for what its exhibits leave out, by target recall and by comparison of methods."""
    targets = sorted(set(results["target_recall"]))
    for target in targets[-1:] if kind == "curves" else targets:
        at_target = results[results["target_recall"] == target]
        if kind == "curves":
            several = results.groupby("method")["target_recall"].transform("nunique") > 1
            at_target = results[several]
        comparisons = {name: group for name, group in comparisons_of(at_target["method"]).items() if name != "all"}
        comparisons = comparisons or {"all": list(at_target["method"])}
        for comparison, methods in comparisons.items():
            rows = at_target[at_target["method"].isin(methods)]
            drawn = tuple(_left_out(rows, kind, [one for one in exhibits if target in one.target_recalls], results))
            if not drawn:
                continue
            subject = SUBJECTS[kind].format(target=f"{target:g}")
            subject += f", {COMPARISON_LABELS[comparison]}" if len(comparisons) > 1 else ""
            title = f"{dataset_label(drawn[0])}: {subject}" if len(drawn) == 1 else f"{subject[0].upper()}{subject[1:]}"
            parts = [kind, *([_slug(drawn[0])] if len(drawn) == 1 else [])]
            parts += [comparison] if len(comparisons) > 1 else []
            parts += [] if kind == "curves" or len(targets) == 1 else [f"target-{target!r}"]
            yield PlannedFigure("-".join(parts), title, kind, drawn, target, rows)


def _left_out(rows: pd.DataFrame, kind: str, exhibits: Sequence[Exhibit], results: pd.DataFrame) -> Iterable[str]:
    """Yield the data sets that no exhibit shows with all these methods."""
    methods = set(rows["method"])
    figures = [_exhibited(one, results) for one in exhibits if methods <= {*one.methods, *one.ours}]
    shown = {name for figure in figures if figure is not None for name in figure.datasets}
    for name in dict.fromkeys(rows["dataset"]):
        if name not in shown and _can_be_drawn(rows, name, kind):
            yield name


def _can_be_drawn(rows: pd.DataFrame, dataset: str, kind: str) -> bool:
    own = of_dataset(rows, dataset)
    if own.empty or (kind != "cross-splits" and "unseen" not in set(own["split"])):
        return False
    return kind != "curves" or (len(targets_of(rows, dataset)) > 1 and has_curves(rows, dataset))


def _slug(name: str) -> str:
    """Return a name for files: lower-case ASCII letters, digits and hyphens.

    >>> _slug("Camelyon 17/<b>")
    'camelyon-17-b'
    """
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_SLUG] or "data-set"
