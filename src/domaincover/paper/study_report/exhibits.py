"""The paper's tables and figures: as sections of a page, ours beside the paper's; and which figures a study draws.

A figure is one of the paper's, with its number, or one of a kind for what the paper's do not show.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from domaincover.errors import check_choice
from domaincover.options import FIGURES
from domaincover.paper.catalogue import DATASET_GROUPS
from domaincover.paper.published import WILDS_MISSING, Exhibit, Published, is_quotable
from domaincover.paper.study_report.study_charts import has_curves
from domaincover.paper.study_report.study_tables import (
    KEYS,
    NOT_RUN,
    NOTE,
    beside_table,
    compared_with_published,
    of_dataset,
    rank,
    sentences_of_notes,
    targets_of,
    times_caption,
    times_table,
    unseen_rows,
)
from domaincover.paper.study_report.style import dataset_label, short_label
from domaincover.paper.study_report.text_tables import TextTable
from domaincover.report.readable import unused_name

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


class Section(NamedTuple):
    """A table or figure of the paper on the page: what of it was not run and why, and its table if it is one."""

    exhibit: Exhibit
    status: str
    missing: str
    table: TextTable | None = None
    caption: str = ""

    @property
    def is_folded(self) -> bool:
        """Whether it shows nothing of ours."""
        return self.status == NOT_RUN


def exhibit_sections(published: Published, results: pd.DataFrame, times: pd.DataFrame) -> list[Section]:
    """Return a section for every table and figure of the paper, in its order; `times` are ours beside the paper's.

    Results of quick runs alone do not stand beside the paper's numbers.
    """
    if not is_quotable(results[NOTE]).any():
        published = published._replace(results=published.results[:0])
    return [
        Section(exhibit, "" if times["ratio"].notna().any() else NOT_RUN, "", times_table(times), times_caption(times))
        if exhibit.kind == "times"
        else _section(published, exhibit, results)
        for exhibit in published.exhibits
    ]


def rows_of(exhibit: Exhibit, results: pd.DataFrame) -> pd.DataFrame:
    """Return the results that a table or figure compares, of all data sets."""
    wanted = results["method"].isin([*exhibit.methods, *exhibit.ours])
    return results[wanted & results["target_recall"].isin(exhibit.target_recalls)]


def _section(published: Published, exhibit: Exhibit, results: pd.DataFrame) -> Section:
    rows = rows_of(exhibit, results)
    rows = unseen_rows(rows[rows["dataset"].isin(exhibit.datasets)])
    is_table = exhibit.kind == "results"
    run = set(rows["dataset"]) if is_table else set(_drawn(exhibit, results))
    missing: dict[str, list[str]] = {}
    for name in exhibit.datasets:
        if name not in run:
            reason = WILDS_MISSING if name in DATASET_GROUPS["wilds"] else NOT_RUN
            missing.setdefault(reason, []).append(short_label(name))
    status = f"{len(run)} of {len(exhibit.datasets)} run" if missing else ""
    said = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in missing.items())
    section = Section(exhibit, status if run else NOT_RUN, said)
    if not is_table:
        return section
    compared = compared_with_published(rows, published.results, exhibit.experiment)
    compared = pd.concat([compared[compared["source"] == exhibit.name], rows]).drop_duplicates(KEYS)
    compared = compared.sort_values(KEYS, key=rank, kind="stable")
    targets = ", ".join(f"{target:g}" for target in exhibit.target_recalls)
    caption = (
        f"Unseen domains at target {targets}, ± standard deviation over seeds; differences are ours less the paper’s."
    )
    caption = " ".join([*sentences_of_notes(rows), caption])
    return section._replace(table=beside_table(compared, ("target", "source")), caption=caption)


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
