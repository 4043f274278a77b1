"""Figures of several plots for a paper: a plot per data set, one legend below them, two columns wide."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
from altair.vegalite import SCHEMA_URL

from domaincover.paper.study_report.comparison_charts import boxes_in_words, rows_of, spread_in_words
from domaincover.paper.study_report.comparisons import (
    ComparedMethods,
    RecallBoxes,
    compared_methods,
    recall_boxes,
    share_table,
)
from domaincover.paper.study_report.cross_plot_layers import PANEL_SIZE, cross_rows, hollow_if
from domaincover.paper.study_report.crosses import cross_plot_tables
from domaincover.paper.study_report.exhibits import CAPTIONS, NOT_IN_PAPER
from domaincover.paper.study_report.figure_plan import PlannedFigure
from domaincover.paper.study_report.label_places import Canvas
from domaincover.paper.study_report.plot_templates import ROW, filled_plot, panel_templates, part_of_figure
from domaincover.paper.study_report.results_table import CheckedDomains, sentences_of_notes
from domaincover.paper.study_report.tradeoff_charts import CURVE_NOTE, spread_note
from domaincover.paper.study_report.tradeoffs import coverage_limits, coverage_table, curves_of
from domaincover.report.look import PAPER, TWO_COLUMNS, broken, chart_config, label_width, title_of
from domaincover.report.pictures import Rows, Spec, rows_for_json
from domaincover.report.style import INK, MethodStyle, dataset_label, method_styles, split_label, splits_in_order

COLUMNS = 3
GAP = 10  # points between plots
HEIGHT = 100  # points of a plot
TICK, TICKS, TITLE = 5, 27, 13  # points that an axis takes: a tick, ticks with numbers, and its title
RIGHT = 8  # points at the right of all plots, where numbers of an axis may end
NAMES = 88  # points of the methods' names
LEGEND_ROW = 11
MOST_POINTS = 620  # of height, which leaves room for a caption on a page
ABOVE_AND_BELOW = 60  # points of a plot's title and axis
BARE_ROWS = ("share", "min-recall")  # kinds whose rows are named, so that no legend is needed
TITLES = {
    "cross": ("Mean set size", "Min recall"),
    "cross-splits": ("Mean set size", "Min recall"),
    "curves": ("Mean set size", "Min recall"),
    "coverage": ("Mean set size", "Share at target"),
    "share": ("Share at target", None),
    "min-recall": ("Min recall", None),
}


def pages_of(planned: PlannedFigure) -> list[PlannedFigure]:
    """Return a figure as several if it would be higher than a page; their names have numbers."""
    per_row = 1 if planned.kind == "cross-splits" else COLUMNS
    most = max(1, int(MOST_POINTS // (_height(planned) + ABOVE_AND_BELOW))) * per_row
    parts = [planned.datasets[first : first + most] for first in range(0, len(planned.datasets), most)]
    names = [planned.name, *(f"{planned.name}-{number}" for number in range(2, len(parts) + 1))]
    return [planned._replace(name=name, datasets=part) for name, part in zip(names, parts, strict=True)]


def panel_figure(planned: PlannedFigure, domains: CheckedDomains) -> Spec:
    """Return the plots of a figure in rows, with the methods that are not the paper's apart in the legend."""
    methods = methods_of(planned)
    is_named = planned.kind in BARE_ROWS
    n_columns = COLUMNS if planned.kind == "cross-splits" else _columns(len(planned.datasets))
    left, between = (NAMES, GAP) if is_named else (TICKS + TITLE, TICKS + GAP)
    room = TWO_COLUMNS - left - RIGHT
    width = (room - (n_columns - 1) * between) // n_columns
    plots = list(_plots(planned, domains, methods, width))
    template, size = panel_templates()[planned.kind], {"width": width, "height": _height(planned)}
    sized = [
        _titled(
            filled_plot(template, place, plot.values, plot.data),
            planned.kind,
            place + n_columns >= len(plots),
            place % n_columns == 0,
        )
        | {"title": _name(plot.title, width), **size}
        for place, plot in enumerate(plots)
    ]
    rows = [sized[first : first + n_columns] for first in range(0, len(sized), n_columns)]
    # Axes have a fixed extent, so that figures have the requested width.
    extent = NAMES - TICK if is_named else TICKS - TICK
    axes = {
        "axisY": {"minExtent": extent * (not is_named), "maxExtent": extent},
        "axisX": {"labelFlush": True, "tickCount": 4, "labelSeparation": 3},
        "axisTop": {"labelFlush": 24},
    }
    notes = [*sentences_of_notes(planned.results), *_caption(planned)]
    return stacked(
        [*rows, *([] if is_named else [[legend_of(methods, room)]])],
        title_of(planned.title, notes, PAPER, TWO_COLUMNS - RIGHT),
        chart_config(INK, PAPER) | axes,
    )


def stacked(rows: Sequence[Sequence[Spec]], title: alt.TitleParams, config: dict[str, Any]) -> Spec:
    """Return rows of plots as one figure. Altair would copy all data of all plots again for each."""
    plots = [[{key: spec[key] for key in spec if key != "datasets"} for spec in row] for row in rows]
    return {
        "$schema": SCHEMA_URL,
        "datasets": {name: data for row in rows for spec in row for name, data in spec.get("datasets", {}).items()},
        "vconcat": [{"hconcat": row, "spacing": GAP} for row in plots],
        "spacing": GAP,
        "title": title.to_dict(validate=False),
        "padding": {"left": 1, "right": 2, "top": 2, "bottom": 2},
        "config": config,
    }


def methods_of(planned: PlannedFigure) -> dict[str, MethodStyle]:
    """Return the methods that any plot of a figure shows, in their order."""
    shown = planned.results[planned.results["dataset"].isin(planned.datasets)]
    if planned.kind == "curves":
        shown = shown[shown.groupby(["dataset", "method"])["target_recall"].transform("nunique") > 1]
    return method_styles(shown["method"])


def legend_places(methods: Iterable[MethodStyle], width: float) -> pd.DataFrame:
    """Return the entries of a legend in lines of at most a width: the paper's methods, then others under a head."""
    styles = list(methods)
    groups = [[style for style in styles if style.ours is ours] for ours in (False, True)]
    places: list[dict[str, Any]] = []
    x, line = 0.0, 0
    for group, head in zip(groups, ("", f"{NOT_IN_PAPER}:"), strict=True):
        if head and group and places:
            x, line = 0.0, line + 1
        entries = ([(head, None)] if head and group else []) + [(style.label, style) for style in group]
        for label, style in entries:
            wide = label_width(label, PAPER) + (6 if style is None else 18)
            if x and x + wide > width:
                x, line = 0.0, line + 1
            look = (None, None, False) if style is None else (style.color, style.shape, style.ours)
            row = dict(zip(("color", "shape", "ours"), look, strict=True))
            places.append({"label": label, "x": x, "y": line * LEGEND_ROW, "width": wide, **row})
            x += wide
    return pd.DataFrame(places)


class Plot(NamedTuple):
    """One plot of a figure: its title, and what its template's names stand for."""

    title: str
    values: dict[str, Any]
    data: Mapping[str, Rows | None]


def _plots(
    planned: PlannedFigure, domains: CheckedDomains, methods: dict[str, MethodStyle], width: int
) -> Iterable[Plot]:
    """Yield the plots of a figure, data set by data set."""
    look = {"labels": "label", "colors": "color", "shapes": "shape"}
    styles = {name: [getattr(style, part) for style in methods.values()] for name, part in look.items()}
    for dataset in planned.datasets:
        if planned.kind.startswith("cross"):
            yield from _crosses(planned, dataset, styles)
        elif planned.kind == "curves":
            yield _curves(planned, dataset, styles)
        elif planned.kind == "coverage":
            table = coverage_table(_compared(planned, dataset, methods))
            limits = coverage_limits(table)._asdict()
            yield Plot(dataset_label(dataset), {**styles, **limits}, {"rows": rows_for_json(table)})
        else:
            compared = _compared(planned, dataset, methods)
            values = rows_of(compared)._asdict()
            if planned.kind == "share":
                end = {"end": width - PAPER.room_for_numbers}
                yield Plot(dataset_label(dataset), values | end, {"rows": rows_for_json(share_table(compared))})
            else:
                yield _boxes(compared, recall_boxes(compared, domains), values)


def _compared(planned: PlannedFigure, dataset: str, methods: dict[str, MethodStyle]) -> ComparedMethods:
    """Return a data set's rows, to be drawn among the rows of all methods of the figure."""
    compared = compared_methods(planned.results, dataset, planned.target_recall)
    return compared._replace(methods=list(methods.values()))


def _crosses(planned: PlannedFigure, dataset: str, styles: dict[str, Any]) -> Iterable[Plot]:
    """Yield the cross-plot of unseen domains, or those of all splits on the same axes."""
    rows = planned.results
    if planned.kind == "cross":
        rows = type(rows)(rows[rows["split"] == "unseen"])
    tables = cross_plot_tables(rows, dataset, planned.target_recall)
    canvas = Canvas(*PANEL_SIZE, PAPER.text, tables.near)
    for split in reversed(splits_in_order(tables.crosses["split"])):
        crosses = tables.crosses[tables.crosses["split"] == split]
        title = dataset_label(dataset) + ("" if planned.kind == "cross" else f": {split_label(split)}")
        yield Plot(title, {**styles, **tables.near._asdict()}, cross_rows(tables, crosses, [tables.near], canvas))


def _boxes(compared: ComparedMethods, found: RecallBoxes, rows: dict[str, Any]) -> Plot:
    target = compared.target_recall
    own = {"recall": list(found.limits), "targets": [target], "target_name": f"'target {target:g}'"}
    data = {"rows": rows_for_json(found.boxes), "outliers": rows_for_json(found.outliers)}
    return Plot(dataset_label(compared.dataset), rows | own, {**data, "target": [{"target": target}]})


def _curves(planned: PlannedFigure, dataset: str, styles: dict[str, Any]) -> Plot:
    curves = curves_of(planned.results, dataset)
    targets: Rows = [{"target": target} for target in curves.targets]
    data = {"rows": rows_for_json(curves.points), "target": targets}
    return Plot(dataset_label(dataset), {**styles, **curves.limits._asdict()}, data)


def _titled(plot: Spec, kind: str, is_last_row: bool, is_first: bool) -> Spec:
    """Return a plot whose axes have titles at the left and the bottom of the figure only."""
    titles = {"x": TITLES[kind][0] if is_last_row else None, "y": TITLES[kind][1] if is_first else None}
    for layer in plot["layer"]:
        for name, title in titles.items():
            channel = layer["encoding"].get(name, {})
            if channel.get("title") is not None:
                channel["title"] = title
                if isinstance(channel.get("axis"), dict):
                    channel["axis"]["title"] = title
            if name == "y" and kind in BARE_ROWS and "axis" in channel and not is_first:
                channel["axis"] = {"labels": False, "ticks": False, "domain": False, "title": None}
    return plot


def _name(title: str, width: int) -> Spec:
    look = {"fontSize": PAPER.text, "fontWeight": "normal", "frame": "group", "offset": 5, "limit": width}
    return {"text": broken(title, width, PAPER.text), **look}


def legend_of(methods: dict[str, MethodStyle], width: int) -> Spec:
    """Return the legend as a plot of its own, so that its methods can stand in groups."""
    places = legend_places(methods.values(), width)
    size = {"width": width, "height": int(places["y"].max()) + LEGEND_ROW}
    return filled_plot(_legend_template(), 0, {}, {"places": rows_for_json(places)}) | size


@functools.cache
def _legend_template() -> Spec:
    base = alt.Chart(alt.NamedData("@places")).encode(
        x=alt.X("x:Q", scale=None, axis=None), y=alt.Y("y:Q", scale=None, axis=None)
    )
    as_given: dict[str, Any] = {"scale": None, "legend": None}
    look: dict[str, Any] = {
        "color": alt.Color("color:N", **as_given),
        "stroke": alt.Stroke("color:N", **as_given),
        "shape": alt.Shape("shape:N", **as_given),
        "fillOpacity": hollow_if("datum.ours"),
    }
    points = base.transform_filter("datum.color !== null").mark_point(
        size=0.6 * PAPER.point, filled=True, opacity=1, strokeWidth=0.6 * PAPER.stroke, xOffset=5
    )
    text: dict[str, Any] = {"align": "left", "baseline": "middle", "fontSize": PAPER.legend, "color": INK}
    named = base.transform_filter("datum.color !== null").mark_text(**text, dx=12)
    heads = base.transform_filter("datum.color === null").mark_text(**text)
    layers = [points.encode(**look), named.encode(text=alt.Text("label:N")), heads.encode(text=alt.Text("label:N"))]
    return part_of_figure(alt.LayerChart(layer=layers))


def _caption(planned: PlannedFigure) -> Sequence[str]:
    if planned.kind in BARE_ROWS or planned.kind == "coverage":
        compared = compared_methods(planned.results, planned.datasets[0], planned.target_recall)
        if planned.kind == "min-recall":
            return boxes_in_words(compared)
        return [spread_note(compared) if planned.kind == "coverage" else spread_in_words(compared)]
    return [CURVE_NOTE if planned.kind == "curves" else CAPTIONS[planned.kind]]


def _height(planned: PlannedFigure) -> int:
    return ROW * len(methods_of(planned)) if planned.kind in BARE_ROWS else HEIGHT


def _columns(n_plots: int) -> int:
    return 2 if n_plots in (2, 4) else min(n_plots, COLUMNS)
