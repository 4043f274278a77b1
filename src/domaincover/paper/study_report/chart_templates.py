"""The charts of a study in Vega-Lite, with "@name" where a plot's own values go; layers name their data.

Figures fill them here (`filled`), the page in its script by the same rule; so the page holds each kind of chart once,
however many data sets, targets and comparisons it can show.
"""

import functools
from typing import Any

from domaincover.paper.study_report.style import KNOWN_METHODS, RANDOM_COLOR
from domaincover.report.charts import SCREEN, Look, Spec, chart_config, layer, tooltip

THICKNESS = 0.56  # of a bar or box, in rows
PARTS = {"recall": "Recall by cell", "size": "Mean set size", "multipliers": "Multiplier by cell"}
# The fields of tooltips: their titles, and their formats unless they are text.
FIELDS: dict[str, tuple[str, str | None]] = {
    "label": ("Method", None),
    "domain": ("Domain", None),
    "seed": ("Seed", None),
    "target": ("Target recall", ""),
    "min_recall": ("Min recall", ".3f"),
    "min_recall_quartiles": ("Quartiles of min recall", None),
    "median": ("Median min recall", ".3f"),
    "q25": ("25th percentile", ".3f"),
    "q75": ("75th percentile", ".3f"),
    "set_size": ("Set size", ".3f"),
    "set_size_quartiles": ("Quartiles of set size", None),
    "size_text": ("Median set size", None),
    "share": ("Domains at target", None),
    "text": ("Domains at target", None),
    "n": ("Examples", ""),
    "n_domains": ("Domains", ""),
    "n_seeds": ("Seeds", ""),
    "recalls": ("Recall by label", None),
    "cell": ("Domain, label", None),
    "step": ("Dual step", ""),
    "recall": ("Recall", ".3f"),
    "multiplier": ("Multiplier", ".3f"),
    "lowest": ("Lowest recall", ".3f"),
}
MEDIANS = {"min_recall": "Median min recall", "set_size": "Median set size"}
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
BLOCK = {"type": "bar", "height": {"band": THICKNESS}, "fillOpacity": 0.45}


def study_config(ink: str, look: Look = SCREEN) -> Spec:
    """Return the look of every chart of a study; ink is "currentColor" where a page may be dark."""
    config = chart_config(ink, look)
    config["style"] |= {
        "spread": {"color": ink, "strokeWidth": 0.6 * look.stroke},
        "median": {"color": ink, "thickness": look.stroke, "opacity": 1},
        # not "opacity", for which a picture is composed once for every line
        "cell-line": {"color": ink, "strokeWidth": 0.3 * look.stroke, "strokeOpacity": 0.3},
        "summary-line": {"color": ink, "strokeWidth": 0.8 * look.stroke},
        "random-line": {"color": RANDOM_COLOR, "strokeWidth": 0.8 * look.stroke, "strokeDash": [6, 4]},
    }
    return config


@functools.cache
def chart_templates(look: Look) -> dict[str, Spec]:
    """Return the template of every kind of chart; on a screen, a click in the legend brings a method out."""
    charts = {
        "cross": _cross(look),
        "share": _share(look),
        "min-recall": _min_recall(look),
        "curves": _curves(look),
        "coverage": _coverage(look),
    }
    charts |= {f"training-{part}": _training(part, look) for part in PARTS}
    return charts | {"cross-splits": charts["cross"]}


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


def _tooltip(*names: str, **titles: str) -> list[Spec]:
    """Return a tooltip of fields, some of them with titles of their own."""
    return tooltip(*((name, titles.get(name, FIELDS[name][0]), FIELDS[name][1]) for name in names))


def _end(field: str) -> Spec:
    return {"field": field}


def _point(look: Look, size: float = 1.0) -> Spec:
    return {"type": "point", "size": size * look.point, "strokeWidth": 0.6 * look.stroke}


def _targets(look: Look, **mark: Any) -> Spec:
    """Return lines across at the targets, which stand on an axis at the right."""
    label = "'target ' + datum.label" if look is SCREEN else "datum.label"
    axis = BARE | {"orient": "right", "values": "@targets", "format": "~g", "labelExpr": label}
    return layer("target", {"type": "rule", "style": "target-line", **mark}, y=_on("recall", "target", axis))


def _cross(look: Look) -> Spec:
    quartiles = ("min_recall_quartiles", "set_size", "set_size_quartiles")
    said = _tooltip("label", "min_recall", *quartiles, "share", "n_domains", "n_seeds", **MEDIANS)
    line = {"type": "rule", "strokeWidth": look.stroke}
    size, recall = _on("size", "set_size", BOTTOM), _on("recall", "min_recall")
    method = {"stroke": COLOR, "opacity": _opacity(look, 1), "tooltip": said}
    medians = layer("rows", _point(look), x=size, y=_on("recall", "min_recall", LEFT), **method | POINT)
    layers = [
        layer("random_line", {"type": "line", "style": "random-line", "clip": True}, x=size, y=recall),
        _targets(look),
        *([_single_domains(look)] if look is SCREEN else []),
        layer("rows", line, x=_on("size", "set_size_q25", BOTTOM), x2=_end("set_size_q75"), y=recall, **method),
        layer("rows", line, x=size, y=_on("recall", "min_recall_q25"), y2=_end("min_recall_q75"), **method),
        medians,
    ]
    return {"layer": layers, "resolve": {"axis": {"y": "independent"}}}


CHOSEN = {"name": "chosen_method", "select": {"type": "point", "fields": ["label"]}, "bind": "legend"}


def _opacity(look: Look, usual: float) -> Spec:
    chosen = {"condition": {"param": CHOSEN["name"], "value": usual}, "value": usual / 6}
    return chosen if look is SCREEN else {"value": usual}


def _single_domains(look: Look) -> Spec:
    said = _tooltip("domain", "label", "seed", "n", "set_size", "min_recall", "recalls", set_size="Mean set size")
    place = {"x": _on("size", "set_size", BOTTOM), "y": _on("recall", "min_recall")}
    points = layer("points", _point(look, 0.2), **place, **POINT, opacity=_opacity(look, 0.45), tooltip=said)
    # The legend is clickable only if the selection is in the first layer with the legend's field.
    return points | {"params": [CHOSEN]}


def _share(look: Look) -> Spec:
    said = _tooltip("label", "text", "n_domains", "n_seeds")

    def x(field: str) -> Spec:
        scale = {"domain": [0, 1], "nice": False, "range": [0, "@end"]}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": BOTTOM | {"format": "%"}}

    bar = BLOCK | {"strokeWidth": 0.6 * look.stroke}
    layers = [
        layer("rows", bar, x=x("share"), y=ROW, fill=COLOR, stroke=COLOR, tooltip=said),
        layer("rows", {"type": "rule", "style": "spread"}, x=x("low"), x2=_end("high"), y=ROW, tooltip=said),
        layer("rows", {"type": "text", "style": "number", "dx": 6}, x=x("end"), y=ROW, text=_end("text")),
    ]
    return {"layer": layers}


def _min_recall(look: Look) -> Spec:
    said = _tooltip("label", "median", "q25", "q75", "n", n="Domains, all seeds")
    of_point = _tooltip("domain", "label", "seed", "n", "min_recall")
    above = BARE | {"orient": "top", "values": "@targets", "format": "~g", "labelExpr": "'target ' + datum.label"}
    whisker = {"type": "rule", "strokeWidth": 0.7 * look.stroke}
    box = BLOCK | {"strokeWidth": 0.6 * look.stroke}
    tick = {"type": "tick", "style": "median", "size": THICKNESS * look.row}
    point = {"type": "point", "size": look.small_point, "filled": True, "opacity": 0.8}
    row = {"y": ROW, "tooltip": said}
    low = _on("recall", "low", BOTTOM | {"grid": True})
    outlier = {"color": COLOR, "shape": POINT["shape"], "tooltip": of_point}
    unknown = layer("rows", {"type": "text", "style": "number", "text": "no min recall"}, x={"value": 6}, y=ROW)
    layers = [
        layer("target", {"type": "rule", "style": "target-line"}, x=_on("recall", "target", above)),
        layer("rows", whisker, x=low, x2=_end("q25"), color=COLOR, **row),
        layer("rows", whisker, x=_on("recall", "q75"), x2=_end("high"), color=COLOR, **row),
        layer("rows", box, x=_on("recall", "q25"), x2=_end("q75"), fill=COLOR, stroke=COLOR, **row),
        layer("rows", tick, x=_on("recall", "median"), **row),
        layer("outliers", point, x=_on("recall", "min_recall"), y=ROW, **outlier),
        unknown | {"transform": [{"filter": "!isValid(datum.median)"}]},
    ]
    return {"layer": layers, "resolve": {"axis": {"x": "independent"}}}


def _curves(look: Look) -> Spec:
    said = _tooltip("label", "target", "min_recall", "set_size", "share", **MEDIANS)
    growing = {"domain": "@targets", "range": "@sizes"}
    by_target = {"field": "target", "type": "ordinal", "scale": growing, "legend": None}
    line = {"type": "line", "strokeWidth": 0.8 * look.stroke, "opacity": 0.7}
    x, order = _on("size", "set_size", BOTTOM), {"field": "target", "type": "quantitative"}
    point = POINT | {"size": by_target, "tooltip": said}
    layers = [
        _targets(look, opacity=0.35, strokeDash=[3, 3]),
        layer("rows", line, x=x, y=_on("recall", "min_recall", LEFT), stroke=COLOR, order=order),
        layer("rows", _point(look) | {"opacity": 1}, x=x, y=_on("recall", "min_recall"), **point),
    ]
    return {"layer": layers, "resolve": {"axis": {"y": "independent"}}}


def _coverage(look: Look) -> Spec:
    said = _tooltip("label", "text", "size_text", "n_domains", "n_seeds")
    line = {"type": "rule", "strokeWidth": 0.6 * look.stroke}
    method = {"stroke": COLOR, "tooltip": said}
    left = LEFT | {"format": "%"}
    size, share = _on("size", "set_size", BOTTOM), _on("recall", "share", left)
    layers = [
        layer("rows", line, x=_on("size", "size_low", BOTTOM), x2=_end("size_high"), y=share, **method),
        layer("rows", line, x=size, y=_on("recall", "low", left), y2=_end("high"), **method),
        layer("rows", _point(look) | {"opacity": 1}, x=size, y=share, **method | POINT),
    ]
    return {"layer": layers}


def _training(part: str, look: Look) -> Spec:
    """Return the plot of recall by cell, set size, or multipliers at each dual step of SET-COVER."""
    whole = {"title": "@x_title", "tickMinStep": 1, "format": "d"}
    step = {"field": "step", "type": "quantitative", "axis": whole, "scale": {"nice": False}}
    summary = {"recall": "lowest", "size": "set_size", "multipliers": "mean"}[part]

    def y(field: str) -> Spec:
        return {"field": field, "type": "quantitative", "scale": {"zero": False}, "title": PARTS[part]}

    layers = []
    if part == "recall":
        layers.append(layer("target", {"type": "rule", "style": "target-line"}, y=y("target")))
    if part != "size":
        value = part.removesuffix("s")
        said = _tooltip("cell", "step", value)
        cells = layer("steps", {"type": "line", "style": "cell-line"}, x=step, y=y(value), tooltip=said)
        cells["encoding"]["detail"] = {"field": "cell", "type": "nominal"}
        layers.append(cells | {"transform": [{"flatten": ["cell", value]}]})
    layers.append(layer("steps", {"type": "line", "style": "summary-line"}, x=step, y=y(summary)))
    said = _tooltip("label", "step", "lowest", "set_size", label="Iterate of", set_size="Mean set size")
    layers.append(layer("iterates", _point(look) | {"opacity": 1}, x=step, y=y(summary), **POINT, tooltip=said))
    return {"layer": layers}
