"""Charts as templates, with "@name" where a plot's own values and data go.

Altair makes a template once; a plot is the template with its names replaced, which is hundreds of times faster. The
page's script fills the page's templates by the same rule.
"""

import functools
from collections.abc import Mapping
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from domaincover.paper.study_report.comparison_charts import BoxData, MethodRows, bar_layers, box_layers
from domaincover.paper.study_report.cross_plot_layers import CrossData, Pen, Scales
from domaincover.paper.study_report.tradeoff_charts import coverage_layers, curve_layers
from domaincover.report.look import PAPER
from domaincover.report.pictures import Rows, Spec

ROW = 19  # points of a method's bar or box in a figure of several plots
ROWS = MethodRows(["@labels"], "@names", "@is_long", ["@colors"], ["@shapes"])
RECALLS = alt.Scale(domain=["@recall"], zero=False, nice=False)


def scales_to_fill(legend: alt.Legend | None) -> Scales:
    """Return the scales of a template."""
    return Scales(
        size=alt.Scale(domain=["@size"], zero=False, nice=False),
        recall=RECALLS,
        color=alt.Scale(domain=["@labels"], range=["@colors"]),
        shape=alt.Scale(domain=["@labels"], range=["@shapes"]),
        legend=legend,
    )


@functools.cache
def panel_templates() -> dict[str, Spec]:
    """Return the plots of a figure of several, by kind: small, for a paper, without a legend."""
    scales = scales_to_fill(None)
    rows, outliers, target = (alt.NamedData(f"@{name}") for name in ("rows", "outliers", "target"))
    boxes = BoxData(rows, outliers, target, RECALLS, ["@targets"], "@target_name")
    crosses = CrossData(*(alt.NamedData(f"@{name}") for name in CrossData._fields))._replace(points=None)
    with debug_mode(False):  # a name is not what the schema has in its place
        charts = {
            "cross": Pen(crosses, scales, False, PAPER).draw("@title"),
            "share": bar_layers(rows, ROWS, "Share at target", PAPER, end="@end"),
            "min-recall": box_layers(boxes, ROWS, "Min recall", PAPER._replace(row=ROW)),
            "curves": curve_layers(rows, target, scales, PAPER),
            "coverage": coverage_layers(rows, scales, PAPER, "Share at target"),
        }
        specs = {kind: part_of_figure(chart) for kind, chart in charts.items()}
    return specs | {"cross-splits": specs["cross"]}


def part_of_figure(chart: alt.LayerChart) -> Spec:
    """Return a chart as a part of a larger one, which has a look and a description of its own."""
    spec = chart.to_dict(validate=False)  # tests validate what is drawn
    return {key: part for key, part in spec.items() if key not in ("$schema", "config", "description")}


def filled_plot(template: Spec, number: int, values: Mapping[str, Any], data: Mapping[str, Rows | None]) -> Spec:
    """Return one plot of a figure, with its data under names of its own; layers without data are left out."""
    absent = {f"@{name}" for name, rows in data.items() if rows is None}
    layers = [layer for layer in template["layer"] if layer.get("data", {}).get("name") not in absent]
    names = {name: f"{name}-{number}" for name, rows in data.items() if rows is not None}
    plot: Spec = filled(template | {"layer": layers}, {**values, **names})
    return plot | {"datasets": {names[name]: data[name] for name in names}}


def filled(node: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with "@name" and ["@name"] replaced by the value of that name.

    >>> filled({"domain": ["@labels"], "title": "@title"}, {"labels": ["a", "b"], "title": "@home"})
    {'domain': ['a', 'b'], 'title': '@home'}
    """
    if isinstance(node, dict):
        return {key: filled(part, values) for key, part in node.items()}
    if isinstance(node, list):
        alone = len(node) == 1 and isinstance(node[0], str) and node[0].startswith("@")
        return filled(node[0], values) if alone else [filled(part, values) for part in node]
    return values[node[1:]] if isinstance(node, str) and node.startswith("@") else node
