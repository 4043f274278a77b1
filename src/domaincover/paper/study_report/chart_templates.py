"""The charts of a study in Vega-Lite, with "@name" where a plot's own values go; layers name their data."""

from typing import Any

from domaincover.paper.study_report.style import KNOWN_METHODS, RANDOM_COLOR
from domaincover.report.charts import INK, Look, Spec, chart_config, layer

PAPER = Look(8, 8, 9, 7.5, 60, 16, 1.5, 20, 50, 4)
THICKNESS = 0.56  # of a bar or box, in rows
PARTS = {"recall": "Recall by cell", "size": "Mean set size", "multipliers": "Multiplier by cell"}
ITERATES = {"last": KNOWN_METHODS["set-cover"], "best": KNOWN_METHODS["set-cover-best"]}

LEFT, BOTTOM = {"title": "@y_title", "grid": True}, {"title": "@x_title"}
BARE = {"grid": False, "ticks": False, "domain": False, "title": None}
METHOD = {"field": "label", "type": "nominal", "title": None}
COLOR = METHOD | {"scale": {"domain": "@labels", "range": "@colors"}, "legend": "@legend"}
# The paper's methods have filled points, others hollow ones.
POINT = {
    "stroke": COLOR,
    "fill": METHOD | {"scale": {"domain": "@labels", "range": "@fills"}, "legend": "@legend"},
    "shape": METHOD | {"scale": {"domain": "@labels", "range": "@shapes"}, "legend": "@legend"},
}
NAMES = BARE | {
    "labels": "@is_named",
    "labelExpr": "@names",
    # Where a first line ends at the middle of its row, the two are centred.
    "labelBaseline": {"condition": {"test": "@is_long", "value": "bottom"}, "value": "middle"},
    "labelPadding": 8,
    "labelLimit": 0,
}
ROW = METHOD | {"scale": {"domain": "@labels"}, "axis": NAMES}
# Pale within a full outline, so that lines in ink show on every colour.
BLOCK = {"type": "bar", "height": {"band": THICKNESS}, "fillOpacity": 0.45, "strokeWidth": 0.6 * PAPER.stroke}
DOT = {"type": "point", "size": PAPER.point, "strokeWidth": 0.6 * PAPER.stroke, "opacity": 1}
LINE = {"type": "rule", "strokeWidth": PAPER.stroke}
THIN_LINE = {"type": "rule", "strokeWidth": 0.6 * PAPER.stroke}
TARGET_LINE = {"type": "rule", "style": "target-line"}


def study_config() -> Spec:
    """Return the look of every chart of a study."""
    config = chart_config(INK, PAPER)
    config["style"] |= {
        "spread": {"color": INK, "strokeWidth": 0.6 * PAPER.stroke},
        "median": {"color": INK, "thickness": PAPER.stroke, "opacity": 1},
        # not "opacity", for which a picture is composed once for every line
        "cell-line": {"color": INK, "strokeWidth": 0.3 * PAPER.stroke, "strokeOpacity": 0.3},
        "summary-line": {"color": INK, "strokeWidth": 0.8 * PAPER.stroke},
        "random-line": {"color": RANDOM_COLOR, "strokeWidth": 0.8 * PAPER.stroke, "strokeDash": [6, 4]},
    }
    return config


def filled(node: Any, values: dict[str, Any]) -> Any:
    """Return a template with each "@name" replaced by the value of that name.

    >>> filled({"domain": "@labels", "title": ["@title"]}, {"labels": ["a", "b"], "title": "home"})
    {'domain': ['a', 'b'], 'title': ['home']}
    """
    if isinstance(node, dict):
        return {key: filled(part, values) for key, part in node.items()}
    if isinstance(node, list):
        return [filled(part, values) for part in node]
    return values[node[1:]] if isinstance(node, str) and node.startswith("@") else node


def _on(ends: str, field: str, axis: Spec | None = None) -> Spec:
    """Return a field on an axis between "@ends"; of layers with axes of their own, one draws it for the others."""
    scale = {"domain": f"@{ends}", "zero": False, "nice": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _end(field: str) -> Spec:
    return {"field": field}


def _share_of(field: str) -> Spec:
    """Return a share on an axis from 0 to 1, which leaves room for numbers."""
    scale = {"domain": [0, 1], "nice": False, "range": [0, "@end"]}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": BOTTOM | {"format": "%"}}


def _training(part: str, summary: str) -> Spec:
    """Return the plot of recall by cell, set size, or multipliers at each dual step of SET-COVER."""
    whole = {"title": "@x_title", "tickMinStep": 1, "format": "d"}
    step = {"field": "step", "type": "quantitative", "axis": whole, "scale": {"nice": False}}

    def y(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": {"zero": False}, "title": PARTS[part]}

    layers = [layer("target", TARGET_LINE, y=y("target"))] if part == "recall" else []
    if part != "size":
        value = part.removesuffix("s")
        detail = {"field": "cell", "type": "nominal"}
        cells = layer("steps", {"type": "line", "style": "cell-line"}, x=step, y=y(value), detail=detail)
        layers.append(cells | {"transform": [{"flatten": ["cell", value]}]})
    layers.append(layer("steps", {"type": "line", "style": "summary-line"}, x=step, y=y(summary)))
    layers.append(layer("iterates", DOT, x=step, y=y(summary), **POINT))
    return {"layer": layers}


SIZE, RECALL = _on("size", "set_size", BOTTOM), _on("recall", "min_recall")
SHARE = _on("recall", "share", LEFT | {"format": "%"})
# Targets stand on an axis at the right, or above.
AT_RIGHT = _on("recall", "target", BARE | {"orient": "right", "values": "@targets", "format": "~g"})
ABOVE = BARE | {"orient": "top", "values": "@targets", "format": "~g", "labelExpr": "'target ' + datum.label"}
CROSS = {
    "layer": [
        layer("random_line", {"type": "line", "style": "random-line"}, x=SIZE, y=RECALL),
        layer("target", TARGET_LINE, y=AT_RIGHT),
        layer("rows", LINE, x=_on("size", "set_size_q25", BOTTOM), x2=_end("set_size_q75"), y=RECALL, stroke=COLOR),
        layer("rows", LINE, x=SIZE, y=_on("recall", "min_recall_q25"), y2=_end("min_recall_q75"), stroke=COLOR),
        layer("rows", DOT, x=SIZE, y=_on("recall", "min_recall", LEFT), **POINT),
    ],
    "resolve": {"axis": {"y": "independent"}},
}
SHARES = {
    "layer": [
        layer("rows", BLOCK, x=_share_of("share"), y=ROW, fill=COLOR, stroke=COLOR),
        layer("rows", {"type": "rule", "style": "spread"}, x=_share_of("low"), x2=_end("high"), y=ROW),
        layer("rows", {"type": "text", "style": "number", "dx": 6}, x=_share_of("end"), y=ROW, text=_end("text")),
    ]
}
WHISKER = {"type": "rule", "strokeWidth": 0.7 * PAPER.stroke}
MEDIAN = {"type": "tick", "style": "median", "size": THICKNESS * PAPER.row}
OUTLIER = {"type": "point", "size": PAPER.small_point, "filled": True, "opacity": 0.8}
UNKNOWN = {"type": "text", "style": "number", "text": "no min recall"}
LOW = _on("recall", "low", BOTTOM | {"grid": True})
BOXES = {
    "layer": [
        layer("target", TARGET_LINE, x=_on("recall", "target", ABOVE)),
        layer("rows", WHISKER, x=LOW, x2=_end("q25"), color=COLOR, y=ROW),
        layer("rows", WHISKER, x=_on("recall", "q75"), x2=_end("high"), color=COLOR, y=ROW),
        layer("rows", BLOCK, x=_on("recall", "q25"), x2=_end("q75"), fill=COLOR, stroke=COLOR, y=ROW),
        layer("rows", MEDIAN, x=_on("recall", "median"), y=ROW),
        layer("outliers", OUTLIER, x=RECALL, y=ROW, color=COLOR, shape=POINT["shape"]),
        layer("rows", UNKNOWN, x={"value": 6}, y=ROW) | {"transform": [{"filter": "!isValid(datum.median)"}]},
    ],
    "resolve": {"axis": {"x": "independent"}},
}
PALE_TARGET = TARGET_LINE | {"opacity": 0.35, "strokeDash": [3, 3]}
CURVE = {"type": "line", "strokeWidth": 0.8 * PAPER.stroke, "opacity": 0.7}
GROWING = {"field": "target", "type": "ordinal", "scale": {"domain": "@targets", "range": "@sizes"}, "legend": None}
IN_ORDER = {"field": "target", "type": "quantitative"}
CURVES = {
    "layer": [
        layer("target", PALE_TARGET, y=AT_RIGHT),
        layer("rows", CURVE, x=SIZE, y=_on("recall", "min_recall", LEFT), stroke=COLOR, order=IN_ORDER),
        layer("rows", DOT, x=SIZE, y=RECALL, size=GROWING, **POINT),
    ],
    "resolve": {"axis": {"y": "independent"}},
}
COVERAGE = {
    "layer": [
        layer("rows", THIN_LINE, x=_on("size", "size_low", BOTTOM), x2=_end("size_high"), y=SHARE, stroke=COLOR),
        layer("rows", THIN_LINE, x=SIZE, y=SHARE | {"field": "low"}, y2=_end("high"), stroke=COLOR),
        layer("rows", DOT, x=SIZE, y=SHARE, **POINT),
    ]
}
TEMPLATES: dict[str, Spec] = {
    "cross": CROSS,
    "cross-splits": CROSS,
    "share": SHARES,
    "min-recall": BOXES,
    "curves": CURVES,
    "coverage": COVERAGE,
    "training-recall": _training("recall", "lowest"),
    "training-size": _training("size", "set_size"),
    "training-multipliers": _training("multipliers", "mean"),
}
