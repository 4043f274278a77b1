"""The layers of a cross-plot, on common axes and in one set of colours and shapes."""

from typing import Any, NamedTuple

import altair as alt
import pandas as pd
from altair.utils.schemapi import debug_mode

from domaincover.report.crosses import CrossPlotTables, random_line
from domaincover.report.style import INK, RANDOM_COLOR, dataset_label

SIZE_TITLE = ["Mean set size", "(median and quartiles over domains)"]  # two lines fit a phone
RECALL_TITLE = "Min recall (median and quartiles over domains)"
SHOW_DOMAINS = "show_domains"

Points = alt.InlineData | alt.NamedData

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


def inline(table: pd.DataFrame) -> alt.InlineData:
    """Return the rows as data within the chart, however many they are."""
    rows: list[Any] = table.astype(object).where(table.notna(), None).to_dict("records")
    with debug_mode(False):  # altair would check every row against its schema: half the time of a figure
        return alt.InlineData(values=rows)


def chart_config(ink: str) -> dict[str, Any]:
    """Return the look of every chart; ink colours text and lines: "currentColor" where a page may be dark."""
    text = {"labelColor": ink, "titleColor": ink}
    return {
        "background": "white" if ink == INK else "transparent",
        "view": {"stroke": None},
        "axis": text
        | {"gridColor": ink, "gridOpacity": 0.1, "domainColor": ink, "tickColor": ink, "titlePadding": 10}
        | {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal", "tickCount": 6},
        "legend": text | {"labelFontSize": 12, "labelLimit": 0, "symbolSize": 90, "symbolOpacity": 1, "rowPadding": 5},
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "fontSize": 14,
            "subtitleFontSize": 11,
            "anchor": "start",
        }
        | {"offset": 12, "subtitlePadding": 6},
        "style": {
            "target-line": {"color": ink, "strokeWidth": 1.25},
            "target-text": {"color": ink, "fontSize": 11, "baseline": "top", "dy": 4},
            "random-line": {"color": RANDOM_COLOR, "strokeWidth": 2, "strokeDash": [6, 4]},
            "random-text": {
                "color": RANDOM_COLOR,
                "fontSize": 11,
                "align": "right",
                "baseline": "bottom",
                "dx": -6,
            },
        },
    }


class Pen(NamedTuple):
    """Draws one cross-plot; an interactive one has single domains on demand and a legend to click."""

    tables: CrossPlotTables
    interactive: bool
    recall_title: str | None = RECALL_TITLE
    keep: str = "true"

    def draw(self, crosses: alt.InlineData, points: Points, *controls: alt.Parameter) -> alt.LayerChart:
        """Return the layers from back to front; rows are kept where the expression `keep` holds."""
        layers = [*self._random_sets(), *self._target()]
        if self.interactive:
            layers.append(self._single_domains(points))
        subject = f"Set size against min recall: {dataset_label(self.tables.dataset)}"
        chart = alt.LayerChart(layer=[*layers, *self._crosses(crosses)], description=subject)
        if not self.interactive:
            return chart
        show = alt.binding_checkbox(name="Show single domains")
        return chart.add_params(*controls, alt.param(name=SHOW_DOMAINS, value=False, bind=show))

    def _x(self, field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=SIZE_TITLE, scale=self._scale("size"))

    def _y(self, field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=self.recall_title, scale=self._scale("recall"))

    def _scale(self, axis: str) -> alt.Scale:
        near, far = (list(getattr(limits, axis)) for limits in (self.tables.near, self.tables.far))
        domain = alt.ExprRef(f"{SHOW_DOMAINS} ? {far} : {near}") if self.interactive else near
        return alt.Scale(domain=domain, zero=False, nice=False)

    def _color(self) -> alt.Color:
        return alt.Color("label:N", title=None, scale=self._by_method("color"), legend=self._legend())

    def _shape(self) -> alt.Shape:
        return alt.Shape("label:N", title=None, scale=self._by_method("shape"), legend=self._legend())

    def _by_method(self, look: str) -> alt.Scale:
        methods = self.tables.methods
        return alt.Scale(
            domain=[method.label for method in methods], range=[getattr(method, look) for method in methods]
        )

    def _legend(self) -> alt.Legend:
        columns = alt.ExprRef("width < 480 ? 1 : 3") if self.interactive else 3
        return alt.Legend(orient="bottom", columns=columns)

    def _opacity(self, usual: float) -> alt.Opacity | Any:
        if not self.interactive:
            return alt.value(usual)
        return alt.when(_chosen_method()).then(alt.value(usual)).otherwise(alt.value(usual / 6))

    def _target(self) -> list[alt.Chart]:
        """Return the target line and its name: below its right end, or above it where random sets come near."""
        target = self.tables.target_recall
        # Above the target, no random sets lie to the left of where their line crosses it.
        end = min(target * self.tables.n_labels, self.tables.near.size[1])
        base = alt.Chart(alt.InlineData(values=[{"target": target, "end": end, "text": f"target {target:g}"}]))
        if self._right_end_is_free():
            name = base.mark_text(style="target-text", align="right", dx=-4).encode(x=alt.value("width"))
        else:
            above = base.mark_text(style="target-text", align="right", dx=-4, baseline="bottom", dy=-4)
            name = above.encode(x=self._x("end"))
        return [
            base.mark_rule(style="target-line").encode(y=self._y("target")),
            name.encode(y=self._y("target"), text="text:N"),
        ]

    def _right_end_is_free(self) -> bool:
        """Tell whether the line of random sets stays well below the target or crosses it well to the left."""
        line = random_line(self.tables.n_labels, self.tables.near)
        target, (low, high) = self.tables.target_recall, self.tables.near.recall
        first, last = self.tables.near.size
        return (
            line.empty
            or bool(line["min_recall"].iloc[-1] < target - (high - low) / 8)
            or target * self.tables.n_labels < last - (last - first) / 5
        )

    def _random_sets(self) -> list[alt.Chart]:
        """Return the diagonal of sets drawn by lot, and its name where the line is in sight."""
        in_sight = [self.tables.near, self.tables.far] if self.interactive else [self.tables.near]
        lines = [random_line(self.tables.n_labels, limits) for limits in in_sight]
        lines = [line for line in lines if not line.empty]
        if not lines:
            return []
        return [
            alt.Chart(inline(lines[-1]))
            .mark_line(style="random-line", clip=True)
            .encode(x=self._x("set_size"), y=self._y("min_recall")),
            alt.Chart(inline(lines[0].mean().to_frame().T))  # above the line, which falls away to the left
            .mark_text(style="random-text", text="random sets", clip=True)
            .encode(x=self._x("set_size"), y=self._y("min_recall")),
        ]

    def _single_domains(self, points: Points) -> alt.Chart:
        chart: alt.Chart = (
            alt.Chart(points)
            .transform_filter(f"{SHOW_DOMAINS} && ({self.keep})")
            .mark_point(size=30, filled=True)
            .encode(
                x=self._x("set_size"),
                y=self._y("min_recall"),
                color=self._color(),
                shape=self._shape(),
                opacity=self._opacity(0.45),
                tooltip=[
                    alt.Tooltip("domain:N", title="Domain"),
                    alt.Tooltip("label:N", title="Method"),
                    alt.Tooltip("seed:N", title="Seed"),
                    alt.Tooltip("n:Q", title="Examples"),
                    alt.Tooltip("set_size:Q", title="Mean set size", format=".3f"),
                    alt.Tooltip("min_recall:Q", title="Min recall", format=".3f"),
                    alt.Tooltip("recalls:N", title="Recall by label"),
                ],
            )
        )
        return chart

    def _crosses(self, crosses: alt.InlineData) -> list[alt.Chart]:
        base = alt.Chart(crosses).transform_filter(self.keep)
        look = {"color": self._color(), "opacity": self._opacity(1), "tooltip": CROSS_TOOLTIP}
        sizes = base.mark_rule(strokeWidth=2.5).encode(
            x=self._x("set_size_q25"), x2="set_size_q75", y=self._y("min_recall"), **look
        )
        recalls = base.mark_rule(strokeWidth=2.5).encode(
            x=self._x("set_size"), y=self._y("min_recall_q25"), y2="min_recall_q75", **look
        )
        medians = base.mark_point(size=150, filled=True).encode(
            x=self._x("set_size"), y=self._y("min_recall"), shape=self._shape(), **look
        )
        # The legend can be clicked only if the choice belongs to a layer that has the legend's field.
        return [sizes, recalls, medians.add_params(_chosen_method()) if self.interactive else medians]


def _chosen_method() -> alt.Parameter:
    return alt.selection_point(name="chosen_method", fields=["label"], bind="legend")
