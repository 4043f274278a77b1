"""Methods side by side: bars of the share of domains at target, boxes of min recall over domains."""

import json
import textwrap
from typing import Any, NamedTuple, TypeVar

import altair as alt
import pandas as pd

from domaincover.paper.study_report.comparisons import (
    REACH,
    ComparedMethods,
    compared_methods,
    recall_boxes,
    share_table,
)
from domaincover.paper.study_report.cross_plot_layers import Data
from domaincover.paper.study_report.results_table import CheckedDomains, CheckedResults, of_dataset, sentences_of_notes
from domaincover.report.look import COLUMN, PAPER, SCREEN, Look, chart_config, fitted, title_of
from domaincover.report.pictures import inline
from domaincover.report.readable import with_spread
from domaincover.report.style import INK, dataset_label, split_label

LONGEST_LINE = 18  # characters of a method's name per line, of at most two
HEIGHT_OF_TARGET = 13  # pixels of its name above the boxes
THICKNESS = 0.56
# Pale within a full outline, so that lines in ink show on every colour.
BLOCK: dict[str, Any] = {"height": alt.RelativeBandSize(THICKNESS), "fillOpacity": 0.45}

BOX_TOOLTIP = [
    alt.Tooltip("label:N", title="Method"),
    alt.Tooltip("median:Q", title="Median min recall", format=".3f"),
    alt.Tooltip("q25:Q", title="25th percentile", format=".3f"),
    alt.Tooltip("q75:Q", title="75th percentile", format=".3f"),
    alt.Tooltip("n:Q", title="Domains, all seeds"),
]
OUTLIER_TOOLTIP = [
    alt.Tooltip("domain:N", title="Domain"),
    alt.Tooltip("label:N", title="Method"),
    alt.Tooltip("seed:N", title="Seed"),
    alt.Tooltip("n:Q", title="Examples"),
    alt.Tooltip("min_recall:Q", title="Min recall", format=".3f"),
]

BAR_TOOLTIP = [
    alt.Tooltip("label:N", title="Method"),
    alt.Tooltip("text:N", title="Domains at target"),
    alt.Tooltip("n_domains:Q", title="Domains"),
    alt.Tooltip("n_seeds:Q", title="Seeds"),
]

Channel = TypeVar("Channel", alt.Color, alt.Stroke, alt.Shape)


class MethodRows(NamedTuple):
    """A row per method: its name as an axis writes it, whether that takes two lines, and its colour and shape."""

    labels: list[str]
    names: str
    is_long: str
    colors: list[str]
    shapes: list[str]

    def y(self) -> alt.Y:
        """Return the rows of a chart; a long name takes two lines and is cut after them."""
        # Where a first line ends at the middle of its row, the two are centred.
        centred: Any = {"condition": {"test": self.is_long, "value": "bottom"}, "value": "middle"}
        look: dict[str, Any] = {"labelPadding": 8, "ticks": False, "domain": False, "title": None, "labelLimit": 0}
        axis = alt.Axis(labelExpr=self.names, labelBaseline=centred, **look)
        return alt.Y("label:N", scale=alt.Scale(domain=self.labels), axis=axis)

    def look(self, channel: type[Channel]) -> Channel:
        """Return the colour or shape of each method, without a legend: rows are named."""
        scale = alt.Scale(domain=self.labels, range=self.shapes if channel is alt.Shape else self.colors)
        return channel("label:N", scale=scale, legend=None)

    def filled(self) -> dict[str, Any]:
        """Return fill and outline in the colour of each method."""
        return {"color": self.look(alt.Color), "stroke": self.look(alt.Stroke)}


class BoxData(NamedTuple):
    """Boxes, outliers and the target as data; the recall scale; and the label of the target on the upper axis."""

    boxes: Data
    outliers: Data
    target: Data
    scale: alt.Scale
    target_values: list[Any]
    target_name: str


def share_bars(
    results: CheckedResults,
    dataset: str,
    target_recall: float | None = None,
    split: str = "unseen",
    paper: bool = False,
) -> alt.LayerChart:
    """Return bars of the share of domains at target, a row per method, with the spread over seeds as thin lines."""
    compared = compared_methods(results, dataset, target_recall, split)
    look = PAPER if paper else SCREEN
    shares = share_table(compared)
    title = f"Share of {_domains_of(compared)} at target {compared.target_recall:g}"
    chart = bar_layers(inline(shares), rows_of(compared), title, look)
    subject = f"{_domains_of(compared)} at target {compared.target_recall:g}"
    description = described(compared, title, shares["text"])
    notes = [*sentences_of_notes(of_dataset(results, dataset)), spread_in_words(compared)]
    return _figure(compared, chart.properties(description=description), subject, notes, look)


def min_recall_boxes(
    results: CheckedResults,
    domains: CheckedDomains,
    dataset: str,
    target_recall: float | None = None,
    split: str = "unseen",
    paper: bool = False,
) -> alt.LayerChart:
    """Return box plots of min recall over the domains of all seeds, a row per method, beside the target."""
    compared = compared_methods(results, dataset, target_recall, split)
    look = PAPER if paper else SCREEN
    found = recall_boxes(compared, domains)
    data = BoxData(
        boxes=inline(found.boxes),
        outliers=inline(found.outliers),
        target=alt.InlineData(values=[{"target": compared.target_recall}]),
        scale=alt.Scale(domain=list(found.limits), zero=False, nice=False),
        target_values=[compared.target_recall],
        target_name=f"'target {compared.target_recall:g}'",
    )
    title = f"Min recall of {_domains_of(compared)}"
    chart = box_layers(data, rows_of(compared), title, look)
    description = described(compared, f"Median {title[0].lower()}{title[1:]}", found.boxes["median"].map(with_spread))
    subject = f"min recall of {_domains_of(compared)}"
    notes = [*sentences_of_notes(of_dataset(results, dataset)), *boxes_in_words(compared)]
    return _figure(compared, chart.properties(description=description), subject, notes, look)


def captions(compared: ComparedMethods) -> dict[str, str]:
    """Return the captions of the two charts, for a page with a choice of targets."""
    where = _domains_of(compared)
    return {
        "share": f"Share of {where} where every label’s recall is at least the target. " + spread_in_words(compared),
        "min-recall": f"Min recall of {where}; right of the target line is safe. "
        + " ".join(boxes_in_words(compared))
        + " Point at one for its name.",
    }


def spread_in_words(compared: ComparedMethods) -> str:
    """Return the explanation of the thin lines, or why there are none."""
    if compared.n_seeds == 1:
        return "One seed, so the spread between seeds is unknown."
    return "Thin lines: one standard deviation between seeds to either side."


def boxes_in_words(compared: ComparedMethods) -> list[str]:
    """Return the explanation of box, line, whiskers and points."""
    over = "of one seed" if compared.n_seeds == 1 else f"of {compared.n_seeds} seeds together"
    return [
        f"Box: the middle half of the domains {over}; line: their median.",
        f"Whiskers: the furthest domains within {REACH:g} box lengths; points: single domains beyond.",
    ]


def _domains_of(compared: ComparedMethods) -> str:
    return "unseen domains" if compared.split == "unseen" else f"domains ({split_label(compared.split)})"


def _figure(
    compared: ComparedMethods, chart: alt.LayerChart, subject: str, notes: list[str], look: Look
) -> alt.LayerChart:
    title = title_of(f"{dataset_label(compared.dataset)}: {subject}", notes, look, COLUMN)
    height = look.row * len(compared.methods)
    sized = fitted(chart, COLUMN, height) if look is PAPER else chart.properties(width=420, height=height)
    figure: alt.LayerChart = sized.properties(title=title).configure(**chart_config(INK, look))
    return figure


def bar_layers(shares: Data, rows: MethodRows, title: str, look: Look, end: Any = None) -> alt.LayerChart:
    """Return bars with their numbers and spread, on an axis from 0 to 100 %; a plot of several knows where it ends."""
    base = alt.Chart(shares).encode(y=rows.y())
    own_end = alt.ExprRef(f"width - {look.room_for_numbers}")
    scale = alt.Scale(domain=[0, 1], nice=False, range=[0, own_end if end is None else end])
    axis = alt.Axis(format="%", tickCount=6 if look is SCREEN else 3)
    x = {field: alt.X(f"{field}:Q", title=title, scale=scale, axis=axis) for field in ("share", "low", "end")}
    bars = base.mark_bar(**BLOCK, strokeWidth=0.6 * look.stroke)
    spreads = base.mark_rule(style="spread", aria=False).encode(x=x["low"], x2=alt.X2("high"), tooltip=BAR_TOOLTIP)
    numbers = base.mark_text(style="number", dx=6, aria=False)
    layers = [
        bars.encode(x=x["share"], tooltip=BAR_TOOLTIP, **rows.filled()),
        spreads.transform_filter("isValid(datum.low)"),
        numbers.encode(x=x["end"], text=alt.Text("text:N"), tooltip=BAR_TOOLTIP),
    ]
    return alt.LayerChart(layer=layers)


def box_layers(data: BoxData, rows: MethodRows, title: str, look: Look) -> alt.LayerChart:
    """Return the layers from back to front; the target's name is on a separate axis above the plot."""

    def x(field: str, axis: alt.Axis | None = None) -> alt.X:
        return alt.X(f"{field}:Q", title=None if axis is None else axis.title, scale=data.scale, axis=axis)

    bare: dict[str, Any] = {"grid": False, "ticks": False, "domain": False, "title": None}
    target = alt.Axis(orient="top", values=data.target_values, labelExpr=data.target_name, **bare)
    base = alt.Chart(data.boxes).encode(y=rows.y(), tooltip=BOX_TOOLTIP)
    measured = base.transform_filter("isValid(datum.median)")
    whiskers = measured.mark_rule(strokeWidth=0.7 * look.stroke, aria=False).encode(color=rows.look(alt.Color))
    layers = [
        alt.Chart(data.target).mark_rule(style="target-line").encode(x=x("target", target)),
        whiskers.encode(x=x("low", alt.Axis(title=title, grid=True)), x2=alt.X2("q25")),
        whiskers.encode(x=x("q75"), x2=alt.X2("high")),
        measured.mark_bar(**BLOCK, strokeWidth=0.6 * look.stroke).encode(x=x("q25"), x2=alt.X2("q75"), **rows.filled()),
        measured.mark_tick(style="median", size=THICKNESS * look.row, aria=False).encode(x=x("median")),
        alt.Chart(data.outliers)
        .mark_point(size=look.small_point, filled=True, opacity=0.8)
        .encode(x=x("min_recall"), y=rows.y(), tooltip=OUTLIER_TOOLTIP)
        .encode(color=rows.look(alt.Color), shape=rows.look(alt.Shape)),
        base.transform_filter("!isValid(datum.median)")
        .mark_text(style="number", text="no min recall")
        .encode(x=alt.value(6)),
    ]
    return alt.LayerChart(layer=layers).resolve_axis(x="independent")


def rows_of(compared: ComparedMethods) -> MethodRows:
    """Return a row for each method, in their order."""
    labels = [style.label for style in compared.methods]
    shown = f"{json.dumps([two_lines(label) for label in labels])}[indexof({json.dumps(labels)}, datum.value)]"
    colors, shapes = ([getattr(style, look) for style in compared.methods] for look in ("color", "shape"))
    return MethodRows(labels, shown, f"length({shown}) > 1", colors, shapes)


def described(compared: ComparedMethods, title: str, texts: pd.Series) -> str:
    """Return a text description of a chart, for accessibility."""
    numbers = "; ".join(f"{label} {text}" for label, text in zip(compared.rows["label"], texts, strict=True))
    return f"{title}, {dataset_label(compared.dataset)}: {numbers}"


def two_lines(name: str) -> list[str]:
    """Return a name on at most two lines, truncated if longer.

    >>> two_lines("Pooled CDFs (held-out domains)"), two_lines("a-name-that-goes-on-and-on-and-on-and-on")
    (['Pooled CDFs', '(held-out domains)'], ['a-name-that-goes-o', 'n-and-on-and-on-a…'])
    """
    first, *rest = textwrap.wrap(name, LONGEST_LINE, break_on_hyphens=False) or [name]
    cut = [f"{rest[0][: LONGEST_LINE - 1]}…"] if len(rest) > 1 else rest
    return [first, *cut]
