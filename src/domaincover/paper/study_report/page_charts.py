"""The page's charts as templates: one of each kind, which the page's script fills for a data set and a choice.

A template has "@name" where the script puts a list or a text, and names its data; so the page holds each kind of
chart once, however many data sets, targets and comparisons it can show.
"""

import functools
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from domaincover.paper.study_report.comparison_charts import HEIGHT_OF_TARGET, BoxData, bar_layers, box_layers
from domaincover.paper.study_report.cross_plot_layers import CrossData, Pen
from domaincover.paper.study_report.plot_templates import RECALLS, ROWS, scales_to_fill
from domaincover.paper.study_report.tradeoff_charts import coverage_layers, curve_layers
from domaincover.paper.study_report.training_curves import PARTS, training_layers
from domaincover.report.look import PAGE_INK, SCREEN, chart_config

LEGEND = alt.Legend(orient="bottom", columns=alt.ExprRef("@columns"))


@functools.cache
def chart_templates() -> dict[str, dict[str, Any]]:
    """Return the templates by kind, in the page's ink and as wide as their places."""
    with debug_mode(False):  # tests validate the templates
        return {kind: chart.to_dict(validate=False) for kind, chart in _charts().items()}


def _charts() -> dict[str, alt.LayerChart]:
    data = {name: alt.NamedData(name) for name in ("rows", "outliers", "target")}
    boxes = BoxData(data["rows"], data["outliers"], data["target"], RECALLS, ["@targets"], "@target_name")
    room_of_target = {"left": 5, "right": 5, "bottom": 5, "top": 5 + HEIGHT_OF_TARGET}
    layers = {
        "cross": _cross(),
        "share": bar_layers(data["rows"], ROWS, "@title", SCREEN).properties(padding=room_of_target),
        "min-recall": box_layers(boxes, ROWS, "Min recall of unseen domains", SCREEN),
        "curves": curve_layers(data["rows"], data["target"], scales_to_fill(LEGEND), SCREEN).properties(height=320),
        "coverage": coverage_layers(data["rows"], scales_to_fill(LEGEND), SCREEN, "@title").properties(height=320),
    }
    steps, iterates, target = (alt.NamedData(name) for name in ("steps", "iterates", "target"))
    layers |= {
        f"training-{part}": training_layers(part, steps, iterates, target, SCREEN).properties(height=200)
        for part in PARTS
    }
    config = chart_config(PAGE_INK)
    return {kind: chart.properties(width="container").configure(**config) for kind, chart in layers.items()}


def _cross() -> alt.LayerChart:
    pen = Pen(CrossData(*map(alt.NamedData, CrossData._fields)), scales_to_fill(LEGEND), interactive=True)
    chart: alt.LayerChart = pen.draw("@title").properties(height=380)
    return chart
