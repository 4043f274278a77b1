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
from domaincover.paper.study_report.study_charts import has_curves
from domaincover.paper.study_report.study_tables import (
    COMPARED,
    NOT_RUN,
    NOTE,
    compared_with_published,
    is_degenerate,
    notes_of,
    of_dataset,
    rules_in_words,
    targets_of,
    unseen_rows,
)
from domaincover.paper.study_report.style import (
    MethodStyle,
    dataset_label,
    method_styles,
    short_label,
)
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


class Section(NamedTuple):
    """A table or figure of the paper on the page."""

    exhibit: Exhibit
    status: str
    missing: str
    groups: list[Group]
    caption: str
    notes: list[str]

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
    return [_section(published, exhibit, results) for exhibit in published.exhibits]


def rows_of(exhibit: Exhibit, results: pd.DataFrame) -> pd.DataFrame:
    """Return the results that a table or figure compares, of all data sets."""
    wanted = results["method"].isin([*exhibit.methods, *exhibit.ours])
    return results[wanted & results["target_recall"].isin(exhibit.target_recalls)]


def _section(published: Published, exhibit: Exhibit, results: pd.DataFrame) -> Section:
    rows = rows_of(exhibit, results)
    rows = unseen_rows(rows[rows["dataset"].isin(exhibit.datasets)])
    is_table = exhibit.kind in TABLES
    run = [name for name in exhibit.datasets if name in set(rows["dataset"])]
    run = run if is_table else list(_drawn(exhibit, results))
    status = f"{len(run)} of {len(exhibit.datasets)} run" if len(run) < len(exhibit.datasets) else ""
    status = "" if exhibit.kind == "times" else status if run else NOT_RUN
    missing: dict[str, list[str]] = {}
    for name in exhibit.datasets:
        if name not in run:
            missing.setdefault(_why_missing(name), []).append(short_label(name))
    groups = _groups(published, exhibit, rows) if exhibit.kind == "results" else []
    return Section(
        exhibit=exhibit,
        status=status,
        missing="; ".join(f"{', '.join(names)}: {reason}" for reason, names in missing.items()),
        groups=groups,
        caption=" ".join(map(sentence, rules_in_words(rows))) if len(rows) else "",
        notes=notes_of(rows),
    )


def _why_missing(dataset: str) -> str:
    return WILDS_MISSING if dataset in DATASET_GROUPS["wilds"] else NOT_RUN


def _groups(published: Published, exhibit: Exhibit, rows: pd.DataFrame) -> list[Group]:
    """Return the rows of each data set: what was published, what was run, or both."""
    compared = compared_with_published(rows, published.results, exhibit.experiment)
    compared = compared[compared["source"] == exhibit.name]
    marked = rows.assign(degenerate=is_degenerate(rows)) if len(rows) else rows
    unknown = dict.fromkeys(COMPARED, math.nan) | {"degenerate": False}
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
    own = {kind: [exhibit for exhibit in exhibits if exhibit.kind == kind] for kind in wanted}
    figures = [
        PlannedFigure(one.slug, f"{one.name}. {one.title}", kind, drawn, one.target_recalls[-1], rows_of(one, results))
        for kind in wanted
        for one in own[kind]
        if (drawn := _drawn(one, results))
    ]
    used: set[str] = set()
    others = (figure for kind in wanted for figure in _others(results, kind, own[kind]))
    return figures + [figure._replace(name=unused_name(figure.name, used)) for figure in others]


def _drawn(exhibit: Exhibit, results: pd.DataFrame) -> tuple[str, ...]:
    """Return the data sets of one of the paper's figures on which all its methods were run."""
    rows = rows_of(exhibit, results)
    run = [name for name in exhibit.datasets if set(exhibit.methods) <= set(of_dataset(rows, name)["method"])]
    return tuple(name for name in run if _can_be_drawn(rows, name, exhibit.kind))


def _others(results: pd.DataFrame, kind: str, exhibits: Sequence[Exhibit]) -> Iterable[PlannedFigure]:
    """Yield the figures of a kind for what its exhibits leave out, by target recall."""
    targets = sorted(set(results["target_recall"]))
    for target in targets[-1:] if kind == "curves" else targets:
        rows = results[results["target_recall"] == target]
        if kind == "curves":
            rows = results[results.groupby("method")["target_recall"].transform("nunique") > 1]
        drawn = tuple(_left_out(rows, kind, [one for one in exhibits if target in one.target_recalls], results))
        if not drawn:
            continue
        subject = SUBJECTS[kind].format(target=f"{target:g}")
        title = f"{dataset_label(drawn[0])}: {subject}" if len(drawn) == 1 else f"{subject[0].upper()}{subject[1:]}"
        parts = [kind, *([_slug(drawn[0])] if len(drawn) == 1 else [])]
        parts += [] if kind == "curves" or len(targets) == 1 else [f"target-{target!r}"]
        yield PlannedFigure("-".join(parts), title, kind, drawn, target, rows)


def _left_out(rows: pd.DataFrame, kind: str, exhibits: Sequence[Exhibit], results: pd.DataFrame) -> Iterable[str]:
    """Yield the data sets that no exhibit shows with all these methods."""
    methods = set(rows["method"])
    able = [one for one in exhibits if methods <= {*one.methods, *one.ours}]
    shown = {name for one in able for name in _drawn(one, results)}
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
