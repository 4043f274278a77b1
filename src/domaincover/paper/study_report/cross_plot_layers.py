"""The layers of a cross-plot, on common axes and in one set of colours and shapes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from domaincover.paper.study_report.crosses import CrossPlotTables, Limits, SingleDomains, random_line
from domaincover.paper.study_report.label_places import Canvas, place_of_random_sets, place_of_target
from domaincover.report.look import SCREEN, Look, legend_columns
from domaincover.report.pictures import Rows, Spec, inline, inline_rows, rows_for_json
from domaincover.report.style import MethodStyle, dataset_label

SIZE_TITLE = ["Mean set size", "(median and quartiles over domains)"]  # two lines fit a phone
RECALL_TITLE = "Min recall (median and quartiles over domains)"
RECALL_LINES = ["Min recall", "(median and quartiles over domains)"]
ROOM_FOR_LABELS = 22  # points, in a paper
SHOW_DOMAINS = "show_domains"
# About the size of a plot, for which names are placed; a page may be narrower or wider.
SCREEN_SIZE = (330, 180)
PANEL_SIZE = (125, 100)

Data = alt.InlineData | alt.NamedData

CROSS_TOOLTIP = [
    alt.Tooltip("label:N", title="Method"),
    alt.Tooltip("min_recall:Q", title="Median min recall", format=".3f"),
    alt.Tooltip("min_recall_quartiles:N", title="Quartiles of min recall"),
    alt.Tooltip("set_size:Q", title="Median set size", format=".3f"),
    alt.Tooltip("set_size_quartiles:N", title="Quartiles of set size"),
    alt.Tooltip("share:N", title="Domains at target"),
    alt.Tooltip("n_domains:Q", title="Domains"),
    alt.Tooltip("n_seeds:Q", title="Seeds"),
]
POINT_TOOLTIP = [
    alt.Tooltip("domain:N", title="Domain"),
    alt.Tooltip("label:N", title="Method"),
    alt.Tooltip("seed:N", title="Seed"),
    alt.Tooltip("n:Q", title="Examples"),
    alt.Tooltip("set_size:Q", title="Mean set size", format=".3f"),
    alt.Tooltip("min_recall:Q", title="Min recall", format=".3f"),
    alt.Tooltip("recalls:N", title="Recall by label"),
]


class Scales(NamedTuple):
    """The axes of a plot of sizes against recalls or shares, and the colours and shapes of its methods."""

    size: alt.Scale
    recall: alt.Scale
    color: alt.Scale
    shape: alt.Scale
    legend: alt.Legend | None

    def colors(self) -> alt.Color:
        """Return the colour of each method."""
        return alt.Color("label:N", title=None, scale=self.color, legend=self.legend)

    def strokes(self) -> alt.Stroke:
        """Return the outline of each method's points, in its colour."""
        return alt.Stroke("label:N", title=None, scale=self.color, legend=self.legend)

    def points(self) -> dict[str, Any]:
        """Return the look of a method's point: filled for the paper's methods, hollow for others."""
        return {"shape": self.shapes(), "stroke": self.strokes(), "fillOpacity": hollow_if("datum.ours")}

    def shapes(self) -> alt.Shape:
        """Return the shape of each method."""
        return alt.Shape("label:N", title=None, scale=self.shape, legend=self.legend)


def hollow_if(test: str) -> alt.FillOpacityValue:
    """Return the look of points that are hollow where an expression holds; as an object, which altair need not read."""
    return alt.FillOpacityValue(1, condition={"test": test, "value": 0})


def with_hollow_symbols(spec: Spec, methods: Iterable[MethodStyle]) -> Spec:
    """Return a chart for a picture whose legend, too, draws hollow what `hollow_if` does.

    Vega-Lite takes the look of symbols from a key of legends that its schema, and so altair, does not list. With a
    legend to click it warns of a conflict; the page changes what it compiles instead.
    """
    is_hollow = f"indexof({json.dumps([method.label for method in methods if method.ours])}, datum.value) >= 0"
    symbols = {"symbols": {"fillOpacity": {"condition": {"test": is_hollow, "value": 0}, "value": 1}}}
    layers = [layer for panel in spec.get("hconcat", [spec]) for layer in panel["layer"]]
    for encoding in (layer["encoding"] for layer in layers if "fillOpacity" in layer["encoding"]):
        for channel in encoding.values():
            if isinstance(channel, dict) and channel.get("legend"):
                channel["legend"]["encoding"] = symbols
    return spec


def scales_of(methods: Sequence[MethodStyle], limits: Limits, columns: Any = 3) -> Scales:
    """Return the scales of these methods within the limits, with a legend of `columns` columns below."""
    labels = [method.label for method in methods]
    return Scales(
        size=alt.Scale(domain=list(limits.size), zero=False, nice=False),
        recall=alt.Scale(domain=list(limits.recall), zero=False, nice=False),
        color=alt.Scale(domain=labels, range=[method.color for method in methods]),
        shape=alt.Scale(domain=labels, range=[method.shape for method in methods]),
        legend=alt.Legend(orient="bottom", columns=columns),
    )


class CrossData(NamedTuple):
    """Data of a cross-plot's layers; None omits a layer.

    The target's name is below its line or above it, where it is free of crosses and random sets.
    """

    crosses: Data
    target: Data
    target_below: Data | None
    target_above: Data | None
    random_line: Data | None
    random_name: Data | None
    points: Data | None = None


def cross_rows(
    tables: CrossPlotTables, crosses: pd.DataFrame, in_sight: Sequence[Limits], canvas: Canvas
) -> dict[str, Rows | None]:
    """Return the rows of each layer of a cross-plot that shows these parts of the plane, the usual one first."""
    row, above = target_row(tables.target_recall, crosses, tables.n_labels, canvas)
    lines = [line for limits in in_sight if not (line := random_line(tables.n_labels, limits)).empty]
    name = place_of_random_sets(crosses, tables.n_labels, canvas)
    return {
        "crosses": rows_for_json(crosses),
        "target": [row],
        "target_below": None if above else [row],
        "target_above": [row] if above else None,
        "random_line": rows_for_json(lines[-1]) if lines else None,
        "random_name": None if name is None else [name._asdict()],
    }


def cross_data(rows: Mapping[str, Rows | None], points: Data | None = None) -> CrossData:
    """Return the rows of a cross-plot's layers as data."""
    data: dict[str, Any] = {name: None if own is None else inline_rows(own) for name, own in rows.items()}
    return CrossData(**data, points=points)


def target_row(target: float, crosses: pd.DataFrame, n_labels: int, canvas: Canvas) -> tuple[dict[str, Any], bool]:
    """Return the target as data of its line, with its name and the size at which that ends; and if it is above."""
    place = place_of_target(target, crosses, n_labels, canvas)
    return {"target": target, "end": place.set_size, "text": f"target {target:g}"}, place.above


class Pen(NamedTuple):
    """Draws one cross-plot; an interactive one has a legend to click."""

    data: CrossData
    scales: Scales
    interactive: bool
    look: Look = SCREEN
    recall_title: Any = RECALL_TITLE
    keep: str = "true"

    def draw(self, subject: str) -> alt.LayerChart:
        """Return the layers from back to front; single domains are kept where the expression `keep` holds."""
        layers = [*self._random_sets(), *self._target()]
        if self.data.points is not None:
            layers.append(self._single_domains(self.data.points))
        return alt.LayerChart(layer=[*layers, *self._crosses()], description=f"Set size against min recall: {subject}")

    def _x(self, field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=SIZE_TITLE, scale=self.scales.size)

    def _y(self, field: str) -> alt.Y:
        y = alt.Y(f"{field}:Q", title=self.recall_title, scale=self.scales.recall)
        if self.look is SCREEN:
            return y
        # The axis has a fixed extent, so that figures have the requested width.
        room = {"minExtent": ROOM_FOR_LABELS, "maxExtent": ROOM_FOR_LABELS}
        bare = {"labelExpr": "' '", "ticks": False, "domain": False, "labelPadding": 0}
        return y.axis(**(bare if self.recall_title is None else room))

    def _opacity(self, usual: float) -> Any:
        if not self.interactive:
            return alt.OpacityValue(usual)
        return alt.when(chosen_method()).then(alt.value(usual)).otherwise(alt.value(usual / 6))

    def _target(self) -> list[alt.Chart]:
        """Return the target line and its name."""
        layers = [alt.Chart(self.data.target).mark_rule(style="target-line").encode(y=self._y("target"))]
        name: dict[str, Any] = {"style": "target-text", "align": "right", "dx": -4}
        if self.data.target_below is not None:
            below = alt.Chart(self.data.target_below).mark_text(**name)
            layers.append(below.encode(x=self._x("end"), y=self._y("target"), text=alt.Text("text:N")))
        if self.data.target_above is not None:
            above = alt.Chart(self.data.target_above).mark_text(**name, baseline="bottom", dy=-4)
            layers.append(above.encode(x=self._x("end"), y=self._y("target"), text=alt.Text("text:N")))
        return layers

    def _random_sets(self) -> list[alt.Chart]:
        """Return the line of random sets, with its name above it."""
        if self.data.random_line is None or self.data.random_name is None:
            return []
        place = {"x": self._x("set_size"), "y": self._y("min_recall")}
        return [
            alt.Chart(self.data.random_line).mark_line(style="random-line", clip=True).encode(**place),
            alt.Chart(self.data.random_name)
            .mark_text(style="random-text", text="random sets", clip=True)
            .encode(**place),
        ]

    def _single_domains(self, points: Data) -> alt.Chart:
        chart: alt.Chart = (
            alt.Chart(points)
            .transform_filter(self.keep)
            .mark_point(size=30, filled=True)
            .encode(
                x=self._x("set_size"),
                y=self._y("min_recall"),
                color=self.scales.colors(),
                shape=self.scales.shapes(),
                opacity=self._opacity(0.45),
                tooltip=POINT_TOOLTIP,
            )
        )
        return chart

    def _crosses(self) -> list[alt.Chart]:
        base = alt.Chart(self.data.crosses)
        look = {"color": self.scales.colors(), "opacity": self._opacity(1), "tooltip": CROSS_TOOLTIP}
        sizes = base.mark_rule(strokeWidth=self.look.stroke).encode(
            x=self._x("set_size_q25"), x2=alt.X2("set_size_q75"), y=self._y("min_recall"), **look
        )
        recalls = base.mark_rule(strokeWidth=self.look.stroke).encode(
            x=self._x("set_size"), y=self._y("min_recall_q25"), y2=alt.Y2("min_recall_q75"), **look
        )
        medians = base.mark_point(size=self.look.point, filled=True, strokeWidth=0.6 * self.look.stroke).encode(
            x=self._x("set_size"), y=self._y("min_recall"), **self.scales.points(), **look
        )
        # The legend is clickable only if the selection is in a layer with the legend's field.
        return [sizes, recalls, medians.add_params(chosen_method()) if self.interactive else medians]


def static_cross_plot(
    tables: CrossPlotTables, crosses: pd.DataFrame, look: Look, width: float, recall_title: Any
) -> alt.LayerChart:
    """Return a cross-plot without single domains, as part of a figure of the given size."""
    columns = 3 if look is SCREEN else legend_columns([style.label for style in tables.methods], look, width)
    canvas = Canvas(*(SCREEN_SIZE if look is SCREEN else PANEL_SIZE), look.text, tables.near)
    data = cross_data(cross_rows(tables, crosses, [tables.near], canvas))
    pen = Pen(data, scales_of(tables.methods, tables.near, columns), False, look, recall_title)
    return pen.draw(dataset_label(tables.dataset))


def interactive_cross_plot(tables: CrossPlotTables, single: SingleDomains, split: str) -> alt.LayerChart:
    """Return the cross-plot of a split with a legend to click and single domains on demand."""
    scales = scales_of(tables.methods, tables.near, alt.ExprRef("width < 480 ? 1 : 3"))
    size, recall = (
        alt.Scale(domain=alt.ExprRef(f"{SHOW_DOMAINS} ? {list(far)} : {list(near)}"), zero=False, nice=False)
        for near, far in zip(tables.near, single.far, strict=True)
    )
    canvas = Canvas(*SCREEN_SIZE, SCREEN.text, tables.near)
    crosses, points = (table[table["split"] == split] for table in (tables.crosses, single.points))
    data = cross_data(cross_rows(tables, crosses, [tables.near, single.far], canvas), inline(points))
    pen = Pen(data, scales._replace(size=size, recall=recall), interactive=True, keep=SHOW_DOMAINS)
    show = alt.param(name=SHOW_DOMAINS, value=False, bind=alt.binding_checkbox(name="Show single domains"))
    chart: alt.LayerChart = pen.draw(dataset_label(tables.dataset)).add_params(show)
    return chart


def chosen_method() -> alt.Parameter:
    """Return the selection of a method in the legend."""
    return alt.selection_point(name="chosen_method", fields=["label"], bind="legend")
