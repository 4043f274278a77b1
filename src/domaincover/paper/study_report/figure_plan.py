"""Which figures a study has: those of the paper, with its numbers, and one of each kind for what they do not show."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from domaincover.errors import check_choice
from domaincover.options import FIGURES
from domaincover.paper.published import Exhibit
from domaincover.paper.study_report.chart_data import has_curves
from domaincover.paper.study_report.exhibits import rows_of
from domaincover.paper.study_report.results_table import CheckedResults, of_dataset, targets_of
from domaincover.paper.study_report.style import COMPARISON_LABELS, comparisons_of, dataset_label
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


class PlannedFigure(NamedTuple):
    """A figure: the name of its file, its title, its kind, the data sets of its plots, and the rows that it shows."""

    name: str
    title: str
    kind: str
    datasets: tuple[str, ...]
    target_recall: float
    results: CheckedResults


def planned_figures(
    results: CheckedResults, kinds: Collection[str] | None = None, exhibits: Sequence[Exhibit] = ()
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


def _exhibited(exhibit: Exhibit, results: CheckedResults) -> PlannedFigure | None:
    """Return one of the paper's figures, with its data sets on which all its methods were run; None without any."""
    rows = rows_of(exhibit, results)
    run = [name for name in exhibit.datasets if set(exhibit.methods) <= set(of_dataset(rows, name)["method"])]
    drawn = tuple(name for name in run if _can_be_drawn(rows, name, exhibit.kind))
    title = f"{exhibit.name}. {exhibit.title}"
    return PlannedFigure(exhibit.slug, title, exhibit.kind, drawn, exhibit.target_recalls[-1], rows) if drawn else None


def _others(results: CheckedResults, kind: str, exhibits: Sequence[Exhibit]) -> Iterable[PlannedFigure]:
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
            rows = CheckedResults(at_target[at_target["method"].isin(methods)])
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


def _left_out(rows: CheckedResults, kind: str, exhibits: Sequence[Exhibit], results: CheckedResults) -> Iterable[str]:
    """Yield the data sets that no exhibit shows with all these methods."""
    methods = set(rows["method"])
    figures = [_exhibited(one, results) for one in exhibits if methods <= {*one.methods, *one.ours}]
    shown = {name for figure in figures if figure is not None for name in figure.datasets}
    for name in dict.fromkeys(rows["dataset"]):
        if name not in shown and _can_be_drawn(rows, name, kind):
            yield name


def _can_be_drawn(rows: CheckedResults, dataset: str, kind: str) -> bool:
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
