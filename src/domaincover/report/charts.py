"""What charts are made of, in Vega-Lite, and the chart of domains: recall of every label beside the set size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.report.domain_reports import Reports, all_targets, lowest, measure_of, worst_first
from domaincover.report.readable import bound_text, shortened

if TYPE_CHECKING:
    import altair as alt

INK = "#2b2f36"
PAGE_INK = "currentColor"  # of a page that may be dark
Spec = dict[str, Any]  # of Vega-Lite
Rows = list[dict[str, Any]]
MOST_ROWS = 60  # longer charts are unreadable
TALLEST_ROW, LOWEST_ROW = 34, 18
LONGEST_ROW_NAME = 36
ROOM = 0.04
DECIMALS = 4
RECALL = f".{DECIMALS}~f"  # a recall just below the target must not look like it
COLORS = ("#4f87db", "#d97a24", "#157630", "#f420a4", "#7c5cd6", "#0d8a97", "#a0622d", "#7f8000")
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "triangle-right", "cross")


class Look(NamedTuple):
    """Font sizes, mark sizes and room, in pixels; in a paper a pixel is a point."""

    text: float
    legend: float
    title: float
    note: float
    point: float
    small_point: float
    stroke: float
    row: int
    room_for_numbers: int
    padding: int


SCREEN = Look(11, 12, 14, 11, 150, 40, 2.5, 30, 74, 10)


def chart_config(ink: str, look: Look = SCREEN) -> Spec:
    """Return the look of every chart; ink colours text and lines: "currentColor" where a page may be dark."""
    text = {"labelColor": ink, "titleColor": ink}
    is_screen = look is SCREEN
    return {
        "background": "white" if ink == INK else "transparent",
        "view": {"stroke": None},
        "axis": text
        | {"gridColor": ink, "gridOpacity": 0.1, "domainColor": ink, "tickColor": ink, "titlePadding": look.padding}
        | {"labelFontSize": look.text, "titleFontSize": 12 if is_screen else look.text}
        | {"titleFontWeight": "normal", "tickCount": 6},
        "legend": text
        | {"labelFontSize": look.legend, "labelLimit": 0, "symbolSize": 0.6 * look.point, "symbolOpacity": 1}
        | {"rowPadding": 5, "columnPadding": 10, "offset": 18}
        | ({} if is_screen else {"rowPadding": 2, "columnPadding": 6, "offset": 6}),
        "title": {"color": ink, "subtitleColor": ink, "fontSize": look.title, "subtitleFontSize": look.note}
        | {"anchor": "start", "offset": look.padding + 2, "subtitlePadding": look.padding / 2 + 1},
        "style": {
            "target-line": {"color": ink, "strokeWidth": look.stroke / 2},
            "number": {"color": ink, "fontSize": look.text, "align": "left"},
        },
    }


def layer(data: str, mark: Spec, **encoding: Any) -> Spec:
    """Return marks on the data of this name."""
    return {"data": {"name": data}, "mark": mark, "encoding": encoding}


def tooltip(*lines: tuple[str, str, str | None]) -> list[Spec]:
    """Return a tooltip of fields with their titles and formats; without a format a field is text."""
    return [
        {"field": field, "title": title, "type": "nominal"}
        | ({"type": "quantitative", "format": form} if form is not None else {})
        for field, title, form in lines
    ]


def rows_for_json(table: pd.DataFrame) -> Rows:
    """Return the rows of a table, with None for what is missing."""
    rows: Any = table.astype(object).where(table.notna(), None).to_dict("records")
    return list(rows)


def domain_plot(reports: Reports, target_recall: TargetRecall, title: str = "Recall by domain") -> alt.HConcatChart:
    """Return recall and set size of the worst domains side by side, with the marks explained below the title."""
    import altair as alt

    shown = worst_first(reports, target_recall)
    spec = domain_chart(shown) | {"title": {"text": title, "subtitle": caption_lines(shown)}}
    chart: alt.HConcatChart = alt.HConcatChart.from_dict(spec, validate=False)
    return chart


def domain_chart(shown: dict[str, DomainReport]) -> Spec:
    """Return the chart of reports under a target, worst domain first; the second is the baseline."""
    model, *others = (report.subset(slice(MOST_ROWS)) for report in shown.values())
    targets, domains = all_targets(model), _domain_rows(model, others)
    config = chart_config(INK)
    config["style"]["number"] |= {"baseline": "middle"}
    config["axisY"] = {"labelLimit": 260, "labelPadding": 8}
    config["axisX"] = {"orient": "top", "titleAnchor": "start"}
    config["legend"] |= {"orient": "top", "direction": "horizontal", "columns": 4, "offset": 6}
    config["legend"] |= {"labelLimit": 160, "titleFontSize": 12, "titleFontWeight": "normal"}
    config["range"] = {"category": COLORS, "symbol": SHAPES}
    step = {"step": max(TALLEST_ROW - len(domains) // 2, LOWEST_ROW)}
    return {
        "datasets": {
            "domains": rows_for_json(domains.round(DECIMALS)),
            "labels": rows_for_json(_label_rows(model, domains["row"]).round(DECIMALS)),
            "target": [{"target": target} for target in targets],
        },
        "hconcat": [
            {"layer": _recall_layers(domains, model, targets), "width": 540, "height": step},
            {"layer": _size_layers(domains), "width": 170, "height": step},
        ],
        "spacing": 20,
        "config": config,
    }


def caption_lines(shown: dict[str, DomainReport]) -> list[str]:
    """Return what the chart's marks mean, and a note on the domains without a row in it, if any."""
    (name, model), *others = shown.items()
    measure = measure_of(model)
    large = "the coverage of the domain" if model.is_coverage else "the lowest of them, its min recall"
    lines = [
        f"Small marks: the recall of each label ({name}). Large mark: {large}; "
        "the band is one standard error of counting."
    ]
    if others:
        lines.append(f"Ring and short bar: {measure} and set size of {others[0][0]}.")
    if (n_left := len(model.domain_names) - MOST_ROWS) > 0:
        bound = bound_text(float(model.min_recall[MOST_ROWS:].min()), all_targets(model))
        rest = f"the other {'has' if n_left == 1 else f'{n_left} have'} a {measure}"
        lines.append(f"The worst {MOST_ROWS} of {len(model.domain_names)} domains; {rest} of {bound} or more.")
    return lines


def standard_error_ends(recall: Any, n: Any) -> tuple[Any, Any]:
    """Return recall ∓ one binomial standard error, by Wilson's interval, which is not empty at a recall of 0 or 1.

    >>> print("{:.3f} {:.3f}".format(*standard_error_ends(1.0, 4)))
    0.800 1.000
    """
    middle = (recall + 0.5 / n) / (1 + 1 / n)
    reach = np.sqrt(recall * (1 - recall) / n + 0.25 / n**2) / (1 + 1 / n)
    return middle - reach, middle + reach


def _domain_rows(model: DomainReport, others: list[DomainReport]) -> pd.DataFrame:
    groups = lowest(model.group_recall)
    low, high = standard_error_ends(model.min_recall, model.group_n[np.arange(len(groups)), groups])
    names = model.judged_by.group_names(model.label_names)
    rows = {
        "row": shortened([str(name) for name in model.domain_names], LONGEST_ROW_NAME),
        "domain": model.domain_names,
        "n": model.n,
        "min_recall": model.min_recall,
        "low": low,
        "high": high,
        "label": [str(names[group]) for group in groups],
        "set_size": model.set_size,
    }
    if others:
        rows |= {"baseline_min_recall": others[0].min_recall, "baseline_set_size": others[0].set_size}
    # the number is right of both methods' marks
    rows["size_end"] = np.max([report.set_size for report in (model, *others[:1])], axis=0)
    return pd.DataFrame(rows)


def _label_rows(model: DomainReport, row_names: pd.Series) -> pd.DataFrame:
    rows, labels = np.nonzero(~np.isnan(model.recall))
    return pd.DataFrame(
        {
            "row": row_names.to_numpy()[rows],
            "domain": [model.domain_names[row] for row in rows],
            "label": [str(model.label_names[label]) for label in labels],
            "recall": model.recall[rows, labels],
            "n": model.n_by_label[rows, labels],
        }
    )


def _recall_layers(domains: pd.DataFrame, model: DomainReport, targets: list[float]) -> list[Spec]:
    """Return the panel of recalls, from back to front: misses shaded, target, baseline, marks."""
    y, of_domain = _row(domains), _tooltip(domains, measure_of(model))
    ends = [domains[name].min() for name in ("low", "min_recall", "baseline_min_recall") if name in domains]
    low = min(*ends, *targets)
    low = max(low - ROOM * (1 - low) - 0.005, 0)
    scale = {"domain": [low, 1 + ROOM * (1 - low)], "nice": False}
    title = f"Recall (line: target {', '.join(f'{target:g}' for target in targets)})"
    x: Spec = {"type": "quantitative", "title": title, "scale": scale}
    looks = {channel: {"field": "label", "type": "nominal", "title": "Label"} for channel in ("color", "shape")}
    of_label = tooltip(("domain", "Domain", None), ("label", "Label", None), ("recall", "Recall", RECALL))
    of_label += tooltip(("n", "Examples of it", ""))
    shade = {"type": "rect", "opacity": 0.05, "fill": INK}
    ring = {"type": "point", "shape": "circle", "filled": False, "size": 190, "strokeWidth": 1.25, "color": INK}
    band = {"type": "rule", "strokeWidth": 6, "stroke": INK, "opacity": 0.18}
    small = {"type": "point", "filled": True, "size": 34, "opacity": 0.8}
    large = {"type": "point", "filled": True, "size": 130, "stroke": INK, "strokeWidth": 1.4}
    whole_height = {"x2": {"value": 0}, "y": {"value": 0}, "y2": {"value": "height"}}
    layers = [
        layer("target", shade, x=x | {"field": "target"}, **whole_height),
        layer("target", {"type": "rule", "style": "target-line"}, x=x | {"field": "target"}),
        layer("domains", band, x=x | {"field": "low"}, x2={"field": "high"}, y=y, tooltip=of_domain),
        layer("labels", small, x=x | {"field": "recall"}, y=y, **looks, tooltip=of_label),
    ]
    if model.is_coverage:
        looks = {"color": {"value": INK}}
    layers.append(layer("domains", large, x=x | {"field": "min_recall"}, y=y, **looks, tooltip=of_domain))
    if "baseline_min_recall" in domains:
        layers.insert(2, layer("domains", ring, x=x | {"field": "baseline_min_recall"}, y=y, tooltip=of_domain))
    return layers


def _size_layers(domains: pd.DataFrame) -> list[Spec]:
    """Return the panel of mean set sizes: bars from 0, with their numbers."""
    scale = {"domain": [0, max(1.3 * domains["size_end"].max(), 0.1)], "nice": False}
    x: Spec = {"type": "quantitative", "title": "Labels per set", "scale": scale, "axis": {"tickCount": 3}}
    y = _row(domains, labels=False)
    bar = {"type": "bar", "height": {"band": 0.55}, "fill": INK, "opacity": 0.3}
    number = {"type": "text", "style": "number", "dx": 5}
    text = {"field": "set_size", "type": "quantitative", "format": ".2f"}
    layers = [
        layer("domains", bar, x=x | {"field": "set_size"}, y=y),
        layer("domains", number, x=x | {"field": "size_end"}, y=y, text=text),
    ]
    if "baseline_set_size" in domains:
        tick = {"type": "tick", "thickness": 1.75, "color": INK, "opacity": 0.8}
        layers.append(layer("domains", tick, x=x | {"field": "baseline_set_size"}, y=y))
    return layers


def _row(domains: pd.DataFrame, labels: bool = True) -> Spec:
    axis = {"title": None, "grid": True, "ticks": False, "domain": False, "labels": labels}
    return {"field": "row", "type": "nominal", "scale": {"domain": domains["row"].tolist()}, "axis": axis}


def _tooltip(domains: pd.DataFrame, measure: str) -> list[Spec]:
    lines = [("domain", "Domain", None), ("n", "Examples", ""), ("min_recall", measure.capitalize(), RECALL)]
    if "baseline_min_recall" in domains:
        lines.append(("baseline_min_recall", f"{measure.capitalize()} of the baseline", RECALL))
    return tooltip(*lines, ("label", "of label", None), ("set_size", "Mean set size", ".2f"))
