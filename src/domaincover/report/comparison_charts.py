"""Methods side by side: bars of the share of domains at target, boxes of min recall over domains."""

import json
import textwrap
from typing import Any, TypeVar

import altair as alt
import pandas as pd

from domaincover.report.comparisons import (
    REACH,
    ComparedMethods,
    compared_methods,
    recall_boxes,
    share_table,
)
from domaincover.report.drawing import chart_config, inline
from domaincover.report.readable import with_spread
from domaincover.report.style import INK, dataset_label, split_label

__all__ = ["captions", "comparison_specs", "min_recall_boxes", "share_bars"]

ROW_HEIGHT = 30
LONGEST_LINE = 18  # characters of a method's name; longer names take two lines
ROOM_FOR_NUMBERS = 74  # pixels beside the longest bar
HEIGHT_OF_TARGET = 13  # pixels of its name above the boxes
PAGE_INK = "currentColor"
THICKNESS = 0.56
# Pale within a full outline, so that lines in ink show on every colour.
BLOCK: dict[str, Any] = {"height": alt.RelativeBandSize(THICKNESS), "fillOpacity": 0.45, "strokeWidth": 1.5}

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

Look = TypeVar("Look", alt.Color, alt.Stroke, alt.Shape)


def share_bars(
    results: pd.DataFrame, dataset: str, target_recall: float | None = None, split: str = "unseen"
) -> alt.LayerChart:
    """Return bars of the share of domains at target, a row per method, with the spread over seeds as thin lines."""
    compared = compared_methods(results, dataset, target_recall, split)
    subject = f"{_domains_of(compared)} at target {compared.target_recall:g}"
    return _figure(compared, _bars(compared), subject, [spread_in_words(compared)])


def min_recall_boxes(
    results: pd.DataFrame,
    domains: pd.DataFrame,
    dataset: str,
    target_recall: float | None = None,
    split: str = "unseen",
) -> alt.LayerChart:
    """Return box plots of min recall over the domains of all seeds, a row per method, beside the target."""
    compared = compared_methods(results, dataset, target_recall, split)
    return _figure(
        compared, _boxes(compared, domains), f"min recall of {_domains_of(compared)}", boxes_in_words(compared)
    )


def comparison_specs(compared: ComparedMethods, domains: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return both charts for a page, as wide as their places, in the page's ink; side by side, rows line up."""
    room_of_target = {"left": 5, "right": 5, "bottom": 5, "top": 5 + HEIGHT_OF_TARGET}
    charts = {"share": _bars(compared).properties(padding=room_of_target), "min-recall": _boxes(compared, domains)}
    return {
        kind: chart.properties(width="container").configure(**_config(PAGE_INK)).to_dict()
        for kind, chart in charts.items()
    }


def captions(compared: ComparedMethods) -> dict[str, str]:
    """Say what each of the two charts shows, for a page."""
    where = _domains_of(compared)
    return {
        "share": f"Share of {where} where every label’s recall is at least {compared.target_recall:g}. "
        + spread_in_words(compared),
        "min-recall": f"Min recall of {where}; right of the target line is safe. "
        + " ".join(boxes_in_words(compared))
        + " Point at one for its name.",
    }


def spread_in_words(compared: ComparedMethods) -> str:
    """Say what the thin lines on the bars are, or why there are none."""
    if compared.n_seeds == 1:
        return "One seed, so the spread between seeds is unknown."
    return "Thin lines: one standard deviation between seeds to either side."


def boxes_in_words(compared: ComparedMethods) -> list[str]:
    """Say what box, line, whiskers and points are."""
    over = "of one seed" if compared.n_seeds == 1 else f"of {compared.n_seeds} seeds together"
    return [
        f"Box: the middle half of the domains {over}; line: their median.",
        f"Whiskers: the furthest domains within {REACH:g} box lengths; points: single domains beyond.",
    ]


def _domains_of(compared: ComparedMethods) -> str:
    return "unseen domains" if compared.split == "unseen" else f"domains ({split_label(compared.split)})"


def _figure(compared: ComparedMethods, chart: alt.LayerChart, subject: str, notes: list[str]) -> alt.LayerChart:
    title = alt.TitleParams(f"{dataset_label(compared.dataset)}: {subject}", subtitle=notes)
    figure: alt.LayerChart = chart.properties(width=420, title=title).configure(**_config(INK))
    return figure


def _config(ink: str) -> dict[str, Any]:
    config = chart_config(ink)
    config["style"] = {
        "number": {"color": ink, "fontSize": 11, "align": "left"},
        "spread": {"color": ink, "strokeWidth": 1.5},
        "median": {"color": ink, "thickness": 2.5, "opacity": 1},
        "target-line": config["style"]["target-line"],
    }
    return config


def _bars(compared: ComparedMethods) -> alt.LayerChart:
    shares = share_table(compared)
    base = alt.Chart(inline(shares)).encode(y=_row(compared))
    tooltip = [
        alt.Tooltip("label:N", title="Method"),
        alt.Tooltip("text:N", title="Domains at target"),
        alt.Tooltip("n_domains:Q", title="Domains"),
        alt.Tooltip("n_seeds:Q", title="Seeds"),
    ]
    scale = alt.Scale(domain=[0, 1], nice=False, range=[0, alt.ExprRef(f"width - {ROOM_FOR_NUMBERS}")])
    title = f"Share of {_domains_of(compared)} at target {compared.target_recall:g}"
    x = {
        field: alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format="%"))
        for field in ("share", "low", "end")
    }
    bars = base.mark_bar(**BLOCK).encode(x=x["share"], tooltip=tooltip, **_filled(compared))
    spreads = base.mark_rule(style="spread", aria=False).encode(x=x["low"], x2="high", tooltip=tooltip)
    numbers = base.mark_text(style="number", dx=6, aria=False).encode(x=x["end"], text="text:N", tooltip=tooltip)
    chart = alt.LayerChart(layer=[bars, spreads.transform_filter("isValid(datum.low)"), numbers])
    return _described(chart, compared, title, shares["text"])


def _boxes(compared: ComparedMethods, domains: pd.DataFrame) -> alt.LayerChart:
    """Return the layers from back to front; the target's name is an axis of its own above the plot."""
    data = recall_boxes(compared, domains)
    scale = alt.Scale(domain=list(data.limits), zero=False, nice=False)

    def x(field: str, axis: alt.Axis | None = None) -> alt.X:
        return alt.X(f"{field}:Q", title=None if axis is None else axis.title, scale=scale, axis=axis)

    title = f"Min recall of {_domains_of(compared)}"
    name = f"'target {compared.target_recall:g}'"
    bare: dict[str, Any] = {"grid": False, "ticks": False, "domain": False, "title": None}
    target = alt.Axis(orient="top", values=[compared.target_recall], labelExpr=name, **bare)
    line = alt.Chart(alt.InlineData(values=[{"target": compared.target_recall}])).mark_rule(style="target-line")
    base = alt.Chart(inline(data.boxes)).encode(y=_row(compared), tooltip=BOX_TOOLTIP)
    measured = base.transform_filter("isValid(datum.median)")
    whiskers = measured.mark_rule(strokeWidth=1.75, aria=False).encode(color=_look(compared, alt.Color))
    layers = [
        line.encode(x=x("target", target)),
        whiskers.encode(x=x("low", alt.Axis(title=title, grid=True)), x2="q25"),
        whiskers.encode(x=x("q75"), x2="high"),
        measured.mark_bar(**BLOCK).encode(x=x("q25"), x2="q75", **_filled(compared)),
        measured.mark_tick(style="median", size=THICKNESS * ROW_HEIGHT, aria=False).encode(x=x("median")),
        alt.Chart(inline(data.outliers))
        .mark_point(size=40, filled=True, opacity=0.8)
        .encode(x=x("min_recall"), y=_row(compared), tooltip=OUTLIER_TOOLTIP)
        .encode(color=_look(compared, alt.Color), shape=_look(compared, alt.Shape)),
        base.transform_filter("!isValid(datum.median)")
        .mark_text(style="number", text="no min recall")
        .encode(x=alt.value(6)),
    ]
    chart = alt.LayerChart(layer=layers).resolve_axis(x="independent")
    return _described(chart, compared, f"Median {title[0].lower()}{title[1:]}", data.boxes["median"].map(with_spread))


def two_lines(name: str) -> list[str]:
    """Return a name on one line or two; what does not fit is cut.

    >>> two_lines("Pooled CDFs (held-out domains)"), two_lines("a-name-that-goes-on-and-on-and-on-and-on")
    (['Pooled CDFs', '(held-out domains)'], ['a-name-that-goes-o', 'n-and-on-and-on-a…'])
    """
    first, *rest = textwrap.wrap(name, LONGEST_LINE, break_on_hyphens=False) or [name]
    cut = [f"{rest[0][: LONGEST_LINE - 1]}…"] if len(rest) > 1 else rest
    return [first, *cut]


def _row(compared: ComparedMethods) -> alt.Y:
    """Return the rows of a chart; a long name takes two lines and is cut after them."""
    labels = [style.label for style in compared.methods]
    shown = f"{json.dumps([two_lines(label) for label in labels])}[indexof({json.dumps(labels)}, datum.value)]"
    # Where a first line ends at the middle of its row, the two are centred.
    centred: Any = {"condition": {"test": f"length({shown}) > 1", "value": "bottom"}, "value": "middle"}
    axis = alt.Axis(labelExpr=shown, labelBaseline=centred, labelPadding=8, ticks=False, domain=False, title=None)
    return alt.Y("label:N", scale=alt.Scale(domain=labels), axis=axis)


def _filled(compared: ComparedMethods) -> dict[str, Any]:
    return {"color": _look(compared, alt.Color), "stroke": _look(compared, alt.Stroke)}


def _look(compared: ComparedMethods, channel: type[Look]) -> Look:
    """Return the colour or shape of each method; the rows have its name, so there is no legend."""
    looks = [style.shape if channel is alt.Shape else style.color for style in compared.methods]
    scale = alt.Scale(domain=[style.label for style in compared.methods], range=looks)
    return channel("label:N", scale=scale, legend=None)


def _described(chart: alt.LayerChart, compared: ComparedMethods, title: str, texts: pd.Series) -> alt.LayerChart:
    """Return the chart with its height and, for those who cannot see it, its numbers in words."""
    numbers = "; ".join(f"{label} {text}" for label, text in zip(compared.rows["label"], texts, strict=True))
    described: alt.LayerChart = chart.properties(
        height=ROW_HEIGHT * len(compared.methods), description=f"{title}, {dataset_label(compared.dataset)}: {numbers}"
    )
    return described
