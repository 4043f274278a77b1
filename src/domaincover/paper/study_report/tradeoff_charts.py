"""Curves of min recall against set size by target recall, and the share of domains at target against set size."""

from typing import Any

import altair as alt

from domaincover.paper.study_report.comparison_charts import spread_in_words
from domaincover.paper.study_report.comparisons import ComparedMethods, compared_methods
from domaincover.paper.study_report.cross_plot_layers import Data, Scales, scales_of
from domaincover.paper.study_report.label_places import AROUND, offsets, side_of
from domaincover.paper.study_report.results_table import CheckedResults, of_dataset, sentences_of_notes
from domaincover.paper.study_report.tradeoffs import Curves, coverage_limits, coverage_table, curves_of
from domaincover.report.look import (
    BESIDE_AXIS,
    COLUMN,
    PAPER,
    SCREEN,
    Look,
    chart_config,
    fitted,
    legend_columns,
    title_of,
)
from domaincover.report.pictures import inline
from domaincover.report.style import INK, MethodStyle, dataset_label

PLOT_HEIGHT = {SCREEN: 340, PAPER: 165}
SIZE_TITLE = "Mean set size (median over domains)"
RECALL_TITLE = "Min recall (median over domains)"
CURVE_NOTE = (
    "A line per method through its target recalls, which stand beside its points. Up is safer, left is sharper."
)
CURVE_TOOLTIP = [
    alt.Tooltip("label:N", title="Method"),
    alt.Tooltip("target:Q", title="Target recall"),
    alt.Tooltip("min_recall:Q", title="Median min recall", format=".3f"),
    alt.Tooltip("set_size:Q", title="Median set size", format=".3f"),
    alt.Tooltip("share:N", title="Domains at target"),
]
COVERAGE_TOOLTIP = [
    alt.Tooltip("label:N", title="Method"),
    alt.Tooltip("text:N", title="Domains at target"),
    alt.Tooltip("size_text:N", title="Median set size"),
    alt.Tooltip("n_domains:Q", title="Domains"),
    alt.Tooltip("n_seeds:Q", title="Seeds"),
]


def recall_against_size(
    results: CheckedResults, dataset: str, split: str = "unseen", paper: bool = False
) -> alt.LayerChart:
    """Return a line per method through its target recalls: median min recall against median set size."""
    curves = curves_of(results, dataset, split)
    look = PAPER if paper else SCREEN
    scales = scales_of(curves.methods, curves.limits, _columns(curves.methods, look))
    targets = alt.InlineData(values=[{"target": target} for target in curves.targets])
    chart = curve_layers(inline(curves.points), targets, scales, look)
    title = f"{dataset_label(dataset)}: recall against size, {_domains_of(split)}"
    marks = sentences_of_notes(of_dataset(results, dataset))
    return _figure(chart, title, [*marks, CURVE_NOTE, left_out_in_words(curves)], look)


def share_against_size(
    results: CheckedResults,
    dataset: str,
    target_recall: float | None = None,
    split: str = "unseen",
    paper: bool = False,
) -> alt.LayerChart:
    """Return a mark per method: the share of domains at target against set size, with the spread over seeds."""
    compared = compared_methods(results, dataset, target_recall, split)
    look = PAPER if paper else SCREEN
    table = coverage_table(compared)
    scales = scales_of(compared.methods, coverage_limits(table), _columns(compared.methods, look))
    chart = coverage_layers(inline(table), scales, look, share_title(split, compared.target_recall))
    title = f"{dataset_label(dataset)}: {_domains_of(split)} at target {compared.target_recall:g} against set size"
    marks = sentences_of_notes(of_dataset(results, dataset))
    return _figure(chart, title, [*marks, spread_note(compared)], look)


def curve_layers(points: Data, targets: Data, scales: Scales, look: Look) -> alt.LayerChart:
    """Return lines, points and their targets, with a thin line across at every target."""
    x = alt.X("set_size:Q", title=SIZE_TITLE, scale=scales.size)
    y = alt.Y("min_recall:Q", title=RECALL_TITLE, scale=scales.recall)
    base = alt.Chart(points).encode(x=x, y=y, color=scales.colors(), tooltip=CURVE_TOOLTIP)
    rules = alt.Chart(targets).mark_rule(style="target-line", opacity=0.35, strokeDash=[3, 3])
    layers = [
        rules.encode(y=alt.Y("target:Q", title=RECALL_TITLE, scale=scales.recall)),
        base.mark_line(strokeWidth=0.8 * look.stroke, opacity=0.7).encode(order="target:Q"),
        base.mark_point(size=0.7 * look.point, filled=True, opacity=1, strokeWidth=0.6 * look.stroke).encode(
            **scales.points()
        ),
        *(_names(base, place, look) for place in AROUND),
    ]
    return alt.LayerChart(layer=layers, description="Min recall against set size, a line per method")


def _names(base: alt.Chart, place: str, look: Look) -> alt.Chart:
    """Return the targets of the points whose name is free on this side of them."""
    dx, dy = offsets(place, look.text)
    align: Any = {"left": "right", "right": "left"}.get(side_of(place), "center")
    texts = base.transform_filter(f"datum.place === '{place}'").mark_text(
        fontSize=look.text, align=align, dx=dx, dy=dy, aria=False
    )
    return texts.encode(text=alt.Text("name:N"))


def coverage_layers(table: Data, scales: Scales, look: Look, title: Any) -> alt.LayerChart:
    """Return a point per method and thin lines of one standard deviation over seeds either way."""
    base = alt.Chart(table).encode(color=scales.colors(), tooltip=COVERAGE_TOOLTIP)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=SIZE_TITLE, scale=scales.size)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=title, scale=scales.recall, axis=alt.Axis(format="%"))

    line: dict[str, Any] = {"strokeWidth": 0.6 * look.stroke, "aria": False}
    known = base.transform_filter("isValid(datum.low)")
    layers = [
        known.mark_rule(**line).encode(x=x("size_low"), x2=alt.X2("size_high"), y=y("share")),
        known.mark_rule(**line).encode(x=x("set_size"), y=y("low"), y2=alt.Y2("high")),
        base.mark_point(size=look.point, filled=True, opacity=1, strokeWidth=0.6 * look.stroke).encode(
            x=x("set_size"), y=y("share"), **scales.points()
        ),
    ]
    return alt.LayerChart(layer=layers, description="Share of domains at target against set size, a point per method")


def left_out_in_words(curves: Curves) -> str:
    """Return the number of methods without a curve as text, or an empty text."""
    if not curves.left_out:
        return ""
    count = "One method" if len(curves.left_out) == 1 else f"{len(curves.left_out)} methods"
    return f"{count} with a single target recall left out."


def spread_note(compared: ComparedMethods) -> str:
    """Return the explanation of the thin lines and of the axes, or why there are no lines."""
    return spread_in_words(compared) + ("" if compared.n_seeds == 1 else " Up is safer, left is sharper.")


def share_title(split: str, target_recall: float) -> str:
    """Return the title of an axis of shares."""
    return f"Share of {_domains_of(split)} at target {target_recall:g}"


def _domains_of(split: str) -> str:
    return "unseen domains" if split == "unseen" else f"domains ({split})"


def _columns(methods: list[MethodStyle], look: Look) -> int:
    return 3 if look is SCREEN else legend_columns([method.label for method in methods], look, BESIDE_AXIS)


def _figure(chart: alt.LayerChart, title: str, notes: list[str], look: Look) -> alt.LayerChart:
    if look is PAPER:
        chart = fitted(chart, COLUMN, PLOT_HEIGHT[look])
    else:
        chart = chart.properties(width=480, height=PLOT_HEIGHT[look])
    figure: alt.LayerChart = chart.properties(title=title_of(title, notes, look, COLUMN)).configure(
        **chart_config(INK, look)
    )
    return figure
