"""Every figure of a study, for a paper and for the page: a plot per data set, and one legend below them.

A figure is one of the paper's, with its number, or one of a kind for what the paper's do not show.
"""

import functools
import json
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pandas as pd
import vl_convert
from altair.vegalite import SCHEMA_URL, SCHEMA_VERSION

from domaincover.errors import check_choice
from domaincover.files import write_whole
from domaincover.options import FIGURES, FigureFormat
from domaincover.paper.published import Exhibit
from domaincover.paper.study_report.study_charts import (
    PAPER,
    TEMPLATES,
    caption,
    cross_table,
    curve_table,
    filled,
    has_curves,
    plane_limits,
    random_line,
    recall_boxes,
    share_table,
    study_config,
)
from domaincover.paper.study_report.study_tables import (
    in_order,
    of_dataset,
    of_experiment,
    sentences_of_notes,
    targets_of,
    unseen_rows,
)
from domaincover.paper.study_report.style import (
    SPLIT_LABELS,
    MethodStyle,
    dataset_label,
    method_styles,
    splits_in_order,
)
from domaincover.report.charts import Rows, Spec, rows_for_json
from domaincover.report.readable import unused_name

COLUMN = 234  # points: 3.25 inches, one column of most papers
TWO_COLUMNS = 486  # points: 6.75 inches
CHARACTER = 0.52  # mean width of a letter in font sizes, rounded up
BESIDE_SYMBOL = 18  # pixels of a legend's symbol and the gaps around an entry
PNG_SCALE = 4  # 288 dots per inch
VEGA_LITE = "_".join(SCHEMA_VERSION.split(".")[:2])  # as vl-convert names versions
MOST_COLUMNS = 3
GAP = 10  # points between plots
LOW, HIGH = 100, 165  # points of a plot among several and of a plot alone
TICK, TICKS, TITLE = 5, 27, 13  # points that an axis takes: a tick, ticks with numbers, and its title
TARGETS = 18  # points of the axis of targets
RIGHT = 8  # points at the right of all plots, where numbers of an axis may end
NAMES = 88  # points of the methods' names
MOST_POINTS = 620  # of height, which leaves room for a caption on a page
ABOVE_AND_BELOW = 60  # points of a plot's title and axis
LONGEST_LINE = 18  # characters of a method's name per line, of at most two
BARE_ROWS = ("share", "min-recall")  # kinds whose rows are named, so that no legend is needed
TITLES = {
    "cross": ("Mean set size", "Min recall"),
    "cross-splits": ("Mean set size", "Min recall"),
    "curves": ("Mean set size", "Min recall"),
    "coverage": ("Mean set size", "Share at target"),
    "share": ("Share at target", None),
    "min-recall": ("Min recall", None),
}

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
    results: pd.DataFrame


class Plot(NamedTuple):
    """One plot of a figure: its kind and title, its targets, the values of its template, and its tables."""

    kind: str
    title: str
    targets: Sequence[float]
    values: dict[str, Any]
    tables: dict[str, pd.DataFrame]


def rows_of(exhibit: Exhibit, results: pd.DataFrame) -> pd.DataFrame:
    """Return the results that a table or figure compares, of all data sets."""
    wanted = results["method"].isin([*exhibit.methods, *exhibit.ours])
    return results[wanted & results["target_recall"].isin(exhibit.target_recalls)]


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
        if (drawn := drawn_datasets(one, results))
    ]
    used: set[str] = set()
    others = (figure for kind in wanted for figure in _others(results, kind, own[kind]))
    return figures + [figure._replace(name=unused_name(figure.name, used)) for figure in others]


def drawn_datasets(exhibit: Exhibit, results: pd.DataFrame) -> tuple[str, ...]:
    """Return the data sets of one of the paper's figures on which all its methods were run."""
    rows = rows_of(exhibit, results)
    run = [name for name in exhibit.datasets if set(exhibit.methods) <= set(of_dataset(rows, name)["method"])]
    return tuple(name for name in run if _can_bedrawn_datasets(rows, name, exhibit.kind))


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
    shown = {name for one in able for name in drawn_datasets(one, results)}
    for name in dict.fromkeys(rows["dataset"]):
        if name not in shown and _can_bedrawn_datasets(rows, name, kind):
            yield name


def _can_bedrawn_datasets(rows: pd.DataFrame, dataset: str, kind: str) -> bool:
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


def figure_files(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    out_dir: Path,
    fmt: FigureFormat = "png",
    kinds: Collection[str] | None = None,
    exhibits: Sequence[Exhibit] = (),
) -> list[Path]:
    """Draw the figures of a study, one file for all its data sets; return the files.

    A figure of several plots is two columns of a paper wide, a plot alone one column. Figures that are exhibits of a
    paper come first, with their numbers as names. Without kinds (of `SUBJECTS`), all that apply are drawn.
    """
    figures = figures_of(results, domains, kinds, exhibits)
    for name, figure in figures.items():
        save_chart(figure(), Path(out_dir) / f"{name}.{fmt}", fmt)
    return [Path(out_dir) / f"{name}.{fmt}" for name in figures]


def figures_of(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    kinds: Collection[str] | None = None,
    exhibits: Sequence[Exhibit] = (),
) -> dict[str, Callable[[], Spec]]:
    """Return the figures that `figure_files` draws, by name."""
    return {
        page.name: functools.partial(planned_figure, page, domains)
        for planned in planned_figures(in_order(results), kinds, exhibits)
        for page in pages_of(planned)
    }


def pages_of(planned: PlannedFigure) -> list[PlannedFigure]:
    """Return a figure as several if it would be higher than a page; their names have numbers."""
    per_row = 1 if planned.kind == "cross-splits" else MOST_COLUMNS
    most = max(1, int(MOST_POINTS // (_height(planned) + ABOVE_AND_BELOW))) * per_row
    parts = [planned.datasets[first : first + most] for first in range(0, len(planned.datasets), most)]
    names = [planned.name, *(f"{planned.name}-{number}" for number in range(2, len(parts) + 1))]
    return [planned._replace(name=name, datasets=part) for name, part in zip(names, parts, strict=True)]


def planned_figure(planned: PlannedFigure, domains: pd.DataFrame) -> Spec:
    """Return the plots of a figure in rows, with one legend below them unless rows are named."""
    is_named, is_splits = planned.kind in BARE_ROWS, planned.kind == "cross-splits"
    n_plots = len(planned.datasets)
    n_columns = MOST_COLUMNS if is_splits else 2 if n_plots in (2, 4) else min(n_plots, MOST_COLUMNS)
    whole = COLUMN if n_plots == 1 and not is_splits else TWO_COLUMNS
    targets = TARGETS if planned.kind in ("cross", "cross-splits", "curves") else 0
    left, between = (NAMES, GAP) if is_named else (TICKS + TITLE, TICKS + GAP)
    width = (whole - left - RIGHT - (n_columns - 1) * between - n_columns * targets) // n_columns
    methods = methods_of(planned)
    given = looks_of(methods.values(), whole - left) | {"end": width - PAPER.room_for_numbers}
    given |= {"legend": None} if is_named else {}
    plots = [plot for dataset in planned.datasets for plot in plots_of(planned, domains, dataset)]
    for plot in plots:
        plot.values.update({**given, **plot.values})
        for name, table in plot.tables.items():
            if "method" in table:
                plot.tables[name] = table.assign(label=[methods[method].label for method in table["method"]])
    shown = planned.results[planned.results["dataset"].isin(planned.datasets)]
    notes = [*sentences_of_notes(planned.results), caption(planned.kind, int(shown["n_seeds"].max()))]
    extent = NAMES - TICK if is_named else TICKS - TICK
    spec = figure_of(plots, n_columns, width, _height(planned), planned.title, notes, whole)
    # Axes have a fixed extent, so that figures have the requested width.
    spec["config"] |= {
        "axisLeft": {"minExtent": extent * (not is_named), "maxExtent": extent},
        "axisRight": {"minExtent": TARGETS - 2, "maxExtent": TARGETS - 2},
        "axisX": {"labelFlush": True, "tickCount": 4, "labelSeparation": 3},
        "axisTop": {"labelFlush": 24},
    }
    return spec


def figure_of(
    plots: Sequence[Plot], n_columns: int, width: int, height: int, title: str, notes: Sequence[str], whole: int
) -> Spec:
    """Return plots in rows as one figure; axes have titles at the left and the bottom of it only."""
    placed: list[Spec] = []
    datasets: dict[str, Rows] = {}
    for place, plot in enumerate(plots):
        x_title, y_title = TITLES[plot.kind]
        is_first = place % n_columns == 0
        values = plot.values | {"targets": plot.targets, "is_named": is_first, "y_title": y_title if is_first else None}
        values |= {"x_title": x_title if place + n_columns >= len(plots) else None}
        spec = filled(TEMPLATES[plot.kind], values)
        for layer in spec["layer"]:
            layer["data"] = {"name": f"{layer['data']['name']}-{place}"}
        used = {layer["data"]["name"] for layer in spec["layer"]}
        tables = plot.tables | {"target": pd.DataFrame({"target": plot.targets})}
        datasets |= {
            f"{name}-{place}": rows_for_json(table) for name, table in tables.items() if f"{name}-{place}" in used
        }
        look = {"fontSize": PAPER.text, "fontWeight": "normal", "frame": "group", "offset": 5, "limit": width}
        name = {"title": {"text": broken(plot.title, width, PAPER.text), **look}} if len(plots) > 1 else {}
        placed.append(spec | name | {"width": width, "height": height})
    lines = [line for note in notes for line in broken(note, whole - RIGHT, PAPER.note)]
    head = {"text": broken(title, whole - RIGHT, 1.05 * PAPER.title), "subtitle": lines}
    return {
        "$schema": SCHEMA_URL,
        "title": head | {"frame": "bounds", "limit": whole - RIGHT},
        "concat": placed,
        "columns": n_columns,
        "datasets": datasets,
        "resolve": {"scale": {"size": "independent"}},
        "align": "each",
        "spacing": GAP,
        "padding": {"left": 1, "right": 2, "top": 2, "bottom": 2},
        "config": study_config(),
    }


def methods_of(planned: PlannedFigure) -> dict[str, MethodStyle]:
    """Return the methods that any plot of a figure shows, in their order."""
    shown = planned.results[planned.results["dataset"].isin(planned.datasets)]
    if planned.kind == "curves":
        shown = shown[shown.groupby(["dataset", "method"])["target_recall"].transform("nunique") > 1]
    return method_styles(shown["method"])


def looks_of(methods: Iterable[MethodStyle], width: float) -> dict[str, Any]:
    """Return the names, colours and shapes of methods as values of a template, and a legend of this width."""
    styles = list(methods)
    labels = [style.label for style in styles]
    lines = f"{json.dumps([two_lines(label) for label in labels])}[indexof({json.dumps(labels)}, datum.value)]"
    widest = BESIDE_SYMBOL + CHARACTER * PAPER.legend * max(map(len, labels))
    return {
        "labels": labels,
        "colors": [style.color for style in styles],
        "fills": [style.fill for style in styles],
        "shapes": [style.shape for style in styles],
        "names": lines,
        "is_long": f"length({lines}) > 1",
        "legend": {"orient": "bottom", "columns": max(1, int(width / widest))},
    }


def plots_of(planned: PlannedFigure, domains: pd.DataFrame, dataset: str) -> Iterator[Plot]:
    """Yield the plots of a data set: one, or one per split on the same axes."""
    title, kind, target = dataset_label(dataset), planned.kind, planned.target_recall
    results = of_experiment(planned.results, dataset, target)
    rows = unseen_rows(results)
    if kind == "curves":
        curves = curve_table(planned.results, dataset)
        targets = sorted(set(curves["target"]))
        growing = [round(PAPER.point * (0.3 + 0.7 * k / max(len(targets) - 1, 1)), 1) for k in range(len(targets))]
        yield Plot(kind, title, targets, {"sizes": growing, **plane_limits(kind, curves)}, {"rows": curves})
    elif kind == "min-recall":
        found = recall_boxes(rows, domains)
        tables = {"rows": found.boxes, "outliers": found.outliers}
        yield Plot(kind, title, [target], {"recall": found.limits(target)}, tables)
    elif kind in ("share", "coverage"):
        shares = share_table(rows)
        yield Plot(kind, title, [target], plane_limits("coverage", shares), {"rows": shares})
    else:
        crosses = cross_table(results if kind == "cross-splits" else rows)
        limits = plane_limits("cross", crosses, target)
        line = random_line(int(results["n_labels"].max()), **limits)
        for split in reversed(splits_in_order(crosses["split"])):
            name = title if kind == "cross" else f"{title}: {SPLIT_LABELS[split]}"
            tables = {"rows": crosses[crosses["split"] == split], "random_line": line}
            yield Plot(kind, name, [target], dict(limits), tables)


def two_lines(name: str) -> list[str]:
    """Return a name on at most two lines, truncated if longer.

    >>> two_lines("Pooled CDFs (held-out domains)"), two_lines("a-name-that-goes-on-and-on-and-on-and-on")
    (['Pooled CDFs', '(held-out domains)'], ['a-name-that-goes-o', 'n-and-on-and-on-a…'])
    """
    first, *rest = textwrap.wrap(name, LONGEST_LINE, break_on_hyphens=False) or [name]
    cut = [f"{rest[0][: LONGEST_LINE - 1]}…"] if len(rest) > 1 else rest
    return [first, *cut]


def _height(planned: PlannedFigure) -> int:
    if planned.kind in BARE_ROWS:
        return PAPER.row * len(methods_of(planned))
    return HIGH if len(planned.datasets) == 1 and planned.kind != "cross-splits" else LOW


def broken(text: str, width: float, font_size: float) -> list[str]:
    """Return a text in lines of about a width."""
    return textwrap.wrap(text, max(int(width / (CHARACTER * font_size)), 8)) or [text]


def save_chart(spec: Spec, path: Path, fmt: FigureFormat) -> None:
    """Write the chart atomically as a picture, whose pixels are points."""
    write_whole(Path(path), picture(spec, fmt))


def picture(spec: Spec, fmt: FigureFormat) -> bytes:
    """Return the chart as a picture, whose pixels are points."""
    check_choice("figure format", fmt, get_args(FigureFormat))
    if fmt == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE))
    if fmt == "png":
        return bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=PNG_SCALE, ppi=72))
    size, end, rest = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).partition(">")
    return (re.sub(r'(width|height)="([\d.]+)"', r'\1="\2pt"', size) + end + rest).encode()
