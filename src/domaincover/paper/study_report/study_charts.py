"""The charts of a study: the tables behind them, their axes and captions, and their templates in Vega-Lite.

In a template "@name" stands where a plot's own values go; layers name their data.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.paper.study_report.study_tables import of_dataset, of_experiment, unseen_rows
from domaincover.paper.study_report.style import RANDOM_COLOR
from domaincover.report.charts import INK, Look, Spec, chart_config, layer
from domaincover.report.readable import percent

DECIMALS = 4
REACH = 1.5  # whiskers as in Tukey (1977): the furthest values within this many box lengths of the box
SIZE_SPAN, RECALL_SPAN = 0.1, 0.05  # the least that an axis shows
ROOM = 0.08  # around the values, in lengths of the axis

CURVES_SAID = (
    "A line per method through its target recalls, whose lines run across; the larger a point, the higher its target. "
    "Up is safer, left is sharper."
)
CROSS_COLUMNS = ["method", "split", "set_size", "set_size_q25", "set_size_q75"]
CROSS_COLUMNS += ["min_recall", "min_recall_q25", "min_recall_q75"]
# The columns along the axes of size and of recall.
PLANES = {
    "cross": (("set_size", "set_size_q25", "set_size_q75"), ("min_recall", "min_recall_q25", "min_recall_q75")),
    "coverage": (("set_size", "size_low", "size_high"), ("share", "low", "high")),
    "curves": (("set_size",), ("min_recall", "target")),
}


class RecallBoxes(NamedTuple):
    """Boxes of min recall, a row per method, and the single domains beyond their whiskers."""

    boxes: pd.DataFrame
    outliers: pd.DataFrame

    def limits(self, target_recall: float) -> tuple[float, float]:
        """Return the ends of an axis that holds all of them and the target."""
        return recall_limits([*self.boxes["low"], *self.boxes["high"], *self.outliers["min_recall"], target_recall])


def limits_around(
    values: Iterable[float], least_span: float, low: float = 0.0, high: float = math.inf
) -> tuple[float, float]:
    """Return the ends of an axis that holds these values with some room, within `low` and `high`."""
    known = [float(value) for value in values if not pd.isna(value)] or [1.0]
    least, most = min(known), max(known)
    room = max(ROOM * (most - least), (least_span - (most - least)) / 2, ROOM * least_span)
    return max(round(least - room, 3), low), min(round(most + room, 3), high)


def recall_limits(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis of recalls or shares."""
    return limits_around(values, RECALL_SPAN, high=1.0)


def cross_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cross: medians and quartiles."""
    return results[CROSS_COLUMNS].reset_index(drop=True)


def plane_limits(kind: str, table: pd.DataFrame, *targets: float) -> dict[str, tuple[float, float]]:
    """Return the axes that hold all points of a kind of chart with their spread, and these targets."""
    sizes, recalls = ([value for name in names for value in table[name]] for names in PLANES[kind])
    return {"size": limits_around(sizes, SIZE_SPAN), "recall": recall_limits([*recalls, *targets])}


def random_line(n_labels: int, size: tuple[float, float], recall: tuple[float, float]) -> pd.DataFrame:
    """Return the ends in sight of the line of sets drawn by lot, recall = set size / labels, or no rows."""
    first, last = max(size[0], n_labels * recall[0]), min(size[1], n_labels * recall[1])
    ends = [first, last] if first < last else []
    return pd.DataFrame({"set_size": ends, "min_recall": [end / n_labels for end in ends]}, dtype=float)


def share_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each method's share at target and set size, with one standard deviation over seeds on either side."""
    share, size = rows["share_at_target"].astype(float), rows["set_size"].astype(float)
    spread, size_spread = (
        rows[f"{name}_std"].astype(float).where(rows["n_seeds"] > 1) for name in ("share_at_target", "set_size")
    )
    table = pd.DataFrame(
        {
            "method": rows["method"],
            "share": share,
            "low": (share - spread).clip(0, 1),
            "high": (share + spread).clip(0, 1),
            "end": (share + spread.fillna(0)).clip(0, 1).fillna(0),
            "text": [percent(*pair) for pair in zip(share, spread, strict=True)],
            "set_size": size,
            "size_low": size - size_spread,
            "size_high": size + size_spread,
        }
    )
    return table.round(DECIMALS).reset_index(drop=True)


def recall_boxes(rows: pd.DataFrame, domains: pd.DataFrame) -> RecallBoxes:
    """Return quartiles, whiskers and outliers of min recall over all domains and seeds; NaN is left out."""
    methods = rows["method"].tolist()
    dataset, target = rows.iloc[0][["dataset", "target_recall"]]
    single = unseen_rows(of_experiment(domains, dataset, target))
    single = single[single["method"].isin(methods) & single["min_recall"].notna()]
    by_method = single.groupby("method")["min_recall"]
    boxes = by_method.quantile(np.array([0.25, 0.5, 0.75])).unstack().reindex(columns=[0.25, 0.5, 0.75])
    boxes = boxes.set_axis(["q25", "median", "q75"], axis=1).reindex(methods)
    reach = REACH * (boxes["q75"] - boxes["q25"])
    fences = pd.DataFrame({"low": boxes["q25"] - reach, "high": boxes["q75"] + reach}).reindex(single["method"])
    inside = single["min_recall"].between(fences["low"].to_numpy(), fences["high"].to_numpy())
    furthest = single[inside].groupby("method")["min_recall"].agg(["min", "max"])
    # An interpolated quartile may lie beyond every value that is not an outlier.
    boxes["low"], boxes["high"] = boxes["q25"].clip(upper=furthest["min"]), boxes["q75"].clip(lower=furthest["max"])
    outliers = single.loc[~inside, ["method", "min_recall"]]
    return RecallBoxes(
        boxes.round(DECIMALS).rename_axis("method").reset_index(),
        outliers.round({"min_recall": DECIMALS}).reset_index(drop=True),
    )


def has_curves(results: pd.DataFrame, dataset: str) -> bool:
    """Return whether a method of the data set has several target recalls in unseen domains."""
    return not curve_table(results, dataset).empty


def curve_table(results: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return a point per target of every method that has several, in unseen domains."""
    rows = unseen_rows(of_dataset(results, dataset))
    rows = rows[rows.groupby("method")["target_recall"].transform("nunique") > 1].sort_values("target_recall")
    table = pd.DataFrame(
        {
            "method": rows["method"],
            "target": rows["target_recall"],
            "set_size": rows["set_size"].astype(float).round(DECIMALS),
            "min_recall": rows["min_recall"].astype(float).round(DECIMALS),
        }
    )
    return table.reset_index(drop=True)


def caption(kind: str, n_seeds: int) -> str:
    """Return the caption of a kind of chart of results over this many seeds."""
    one = n_seeds == 1
    spread = "Thin lines: one standard deviation between seeds to either side."
    spread = "One seed, so the spread between seeds is unknown." if one else spread
    crosses = (
        "Points are medians over domains, bars run from the 25th to the 75th percentile; the line is the target, a "
        "dashed line, where in sight, sets drawn by lot."
    )
    texts = {
        "cross": crosses,
        "cross-splits": crosses,
        "curves": CURVES_SAID,
        "share": f"Share of unseen domains where every label’s recall is at least the target. {spread}",
        "min-recall": (
            f"Box: the middle half of the unseen domains of {'one seed' if one else f'{n_seeds} seeds together'}; "
            f"line: their median. Whiskers: the furthest domains within {REACH:g} box lengths; points: single domains "
            "beyond. Right of the target is safe."
        ),
        "coverage": f"Share of unseen domains at target against set size. {spread} Up is safer, left is sharper.",
    }
    return texts[kind]


PAPER = Look(8, 8, 9, 7.5, 60, 16, 1.5, 20, 50, 4)
THICKNESS = 0.56  # of a bar or box, in rows

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
}
