"""The chart of domains: a row each, worst first, with the recall of every label beside the set size."""

from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from domaincover.criteria import TargetRecall
from domaincover.report.domain_adaptation import DomainAdaptation
from domaincover.report.domain_reports import Reports, bound_text
from domaincover.report.domain_rows import DomainChartData, domain_chart_data
from domaincover.report.look import chart_config
from domaincover.report.pictures import inline
from domaincover.report.style import INK

__all__ = [
    "MOST_ROWS",
    "domain_chart",
    "domain_chart_data",
    "domain_plot",
    "marks_in_words",
    "overview_chart",
    "threshold_chart",
]

MOST_ROWS = 60  # longer charts are unreadable; the page's table has every domain
TALLEST_ROW, LOWEST_ROW = 34, 18
ROOM = 0.04
DECIMALS = 4
RECALL = f".{DECIMALS}~f"  # a recall just below the target must not look like it
LONGEST_LABEL_IN_CHART = 120  # pixels
PAGE_INK = "currentColor"
DASHES = [[1, 0], [5, 3], [1, 3], [9, 3, 1, 3]]


def domain_chart(data: DomainChartData, ink: str = PAGE_INK) -> alt.HConcatChart:
    """Return recall and set size side by side, a row per domain; interactive in the page's ink."""
    pen = DomainPen(data, ink)
    step = alt.Step(max(TALLEST_ROW - len(data.domains) // 2, LOWEST_ROW))
    recalls = pen.recalls().properties(width=540, height=step)
    sizes = pen.sizes().properties(width=170, height=step)
    chart: alt.HConcatChart = alt.hconcat(recalls, sizes, spacing=20).configure(**_config_of_rows(ink))
    return chart


def overview_chart(data: DomainChartData) -> alt.LayerChart:
    """Return every method's min recalls in rising order, for more domains than have a row each."""
    base = alt.Chart(_drawn(data.curves))
    x = alt.X("share:Q", title="Share of domains, worst first", scale=alt.Scale(domain=[0, 1])).axis(format="%")
    y = alt.Y("min_recall:Q", title=data.measure.capitalize(), scale=alt.Scale(zero=False))
    dash = alt.StrokeDash("method:N", title=None, sort=list(data.methods), scale=alt.Scale(range=DASHES))
    dash = dash.legend(orient="top", symbolStrokeColor=PAGE_INK, symbolSize=500)
    tooltip = [
        alt.Tooltip("method:N", title="Method"),
        alt.Tooltip("min_recall:Q", title=data.measure.capitalize(), format=RECALL),
        alt.Tooltip("share:Q", title="Domains up to there", format=".0%"),
    ]
    curves = base.mark_line(interpolate="step-before", stroke=PAGE_INK, strokeWidth=2).encode(x, y, dash)
    points = base.mark_point(size=60, filled=True, opacity=0).encode(x, y, tooltip=tooltip)
    target = alt.Chart(_target(data)).encode(y="target:Q")
    line = target.mark_rule(style="target-line", opacity=0.5)
    name = target.mark_text(text="target", style="number", align="left", dx=5).encode(x=alt.value("width"))
    chart = alt.LayerChart(layer=[line, name, curves, points]).properties(width="container", height=240)
    return chart.configure(**_config(PAGE_INK))


def threshold_chart(data: DomainChartData, adaptation: DomainAdaptation) -> alt.LayerChart:
    """Return the thresholds of each domain, a mark per label, and a line for each label's fixed threshold."""
    table = _threshold_rows(data, adaptation)
    rows = alt.Chart(_drawn(table))
    names = data.domains["row"].tolist()
    y = alt.Y("row:N", scale=alt.Scale(domain=names), axis=alt.Axis(title=None, grid=True, ticks=False, domain=False))
    x = alt.X("adapted:Q", title="Threshold (log-odds of the label)", scale=alt.Scale(zero=False))
    pen = DomainPen(data, PAGE_INK)
    color, shape = pen.look(alt.Color, 0), pen.look(alt.Shape, 1)
    tooltip = [
        alt.Tooltip("domain:N", title="Domain"),
        alt.Tooltip("label:N", title="Label"),
        alt.Tooltip("adapted:Q", title="Adapted threshold", format=".2f"),
        alt.Tooltip("fixed:Q", title="Fixed threshold", format=".2f"),
        alt.Tooltip("shift:Q", title="Moved by", format="+.2f"),
        alt.Tooltip("p_value:Q", title="p-value of the domain", format=".2g"),
    ]
    fixed_ones = alt.Chart(_drawn(table[["label", "group", "fixed"]].drop_duplicates()))
    fixed = fixed_ones.mark_rule(strokeWidth=1.5, strokeDash=[4, 3]).encode(x=alt.X("fixed:Q"), color=color)
    marks = rows.mark_point(filled=True, size=44).encode(x=x, y=y, color=color, shape=shape, tooltip=tooltip)
    chart = alt.LayerChart(layer=[fixed, marks]).properties(width="container", height=alt.Step(LOWEST_ROW))
    config = _config_of_rows(PAGE_INK)
    config["axisY"]["labelLimit"] = LONGEST_LABEL_IN_CHART
    return chart.configure(**config)


def domain_plot(reports: Reports, target_recall: TargetRecall, title: str = "Recall by domain") -> alt.HConcatChart:
    """Return the chart of the worst domains with a title, and the marks explained below it."""
    data = domain_chart_data(reports, target_recall)
    lines = [*marks_in_words(data), *note_on_rest(data)]
    chart: alt.HConcatChart = domain_chart(data.worst(MOST_ROWS), INK).properties(
        title=alt.TitleParams(title, subtitle=lines)
    )
    return chart


def marks_in_words(data: DomainChartData) -> list[str]:
    """Return the explanation of the chart's marks."""
    model, baseline = data.methods[0], data.baseline
    large = "the coverage of the domain" if data.measure == "coverage" else "the lowest of them, its min recall"
    lines = [
        f"Small marks: the recall of each label ({model}). Large mark: {large}; "
        "the band is one standard error of counting."
    ]
    if baseline is not None:
        lines.append(f"Ring and short bar: {data.measure} and set size of {baseline}.")
    return lines


def note_on_rest(data: DomainChartData) -> list[str]:
    """Return a note on the domains without a row in the chart, if any."""
    n_left = len(data.domains) - MOST_ROWS
    if n_left <= 0:
        return []
    bound = bound_text(data.domains["min_recall"].iloc[MOST_ROWS:].min(), data.targets)
    rest = "the other has" if n_left == 1 else f"the other {n_left} have"
    return [f"The worst {MOST_ROWS} of {len(data.domains)} domains; {rest} a {data.measure} of {bound} or more."]


class DomainPen(NamedTuple):
    """Draws the two panels of the chart on the same rows."""

    data: DomainChartData
    ink: str

    def recalls(self) -> alt.LayerChart:
        """Return the panel of recalls, from back to front: misses shaded, rows, target, marks."""
        target = alt.Chart(_target(self.data))
        below = target.mark_rect(opacity=0.05, fill=self.ink).encode(
            x=self._x("target"), x2=alt.value(0), y=alt.value(0), y2=alt.value("height")
        )
        line = target.mark_rule(style="target-line").encode(x=self._x("target"))
        return alt.LayerChart(
            layer=[self._rows(names=True), below, line, *self._baseline("min_recall"), *self._marks()]
        )

    def sizes(self) -> alt.LayerChart:
        """Return the panel of mean set sizes: bars from 0, with their numbers."""
        base = self._domains()
        tooltip = self._tooltip()
        bars = base.mark_bar(height=alt.RelativeBandSize(0.55), fill=self.ink, opacity=0.3).encode(
            x=self._size("set_size"), y=self._y(names=False), tooltip=tooltip
        )
        numbers = base.mark_text(style="number", align="left", dx=5).encode(
            x=self._size("size_end"), y=self._y(names=False), text=alt.Text("set_size:Q", format=".2f"), tooltip=tooltip
        )
        return alt.LayerChart(layer=[self._rows(names=False), bars, numbers, *self._baseline("set_size")])

    def _marks(self) -> list[alt.Chart]:
        y = self._y(names=True)
        looks = {"color": self.look(alt.Color, 0), "shape": self.look(alt.Shape, 1)}
        tooltip = [
            alt.Tooltip("domain:N", title="Domain"),
            alt.Tooltip("label:N", title="Label"),
            alt.Tooltip("recall:Q", title="Recall", format=RECALL),
            alt.Tooltip("n:Q", title="Examples of it"),
        ]
        error = (
            self._domains()
            .mark_rule(strokeWidth=6, stroke=self.ink, opacity=0.18)
            .encode(x=self._x("low"), x2="high:Q", y=y, tooltip=self._tooltip())
        )
        dots = (
            alt.Chart(_drawn(self.data.labels))
            .mark_point(filled=True, size=34)
            .encode(x=self._x("recall"), y=y, **looks, opacity=self._opacity(0.8), tooltip=tooltip)
        )
        lowest = (
            self._domains()
            .mark_point(filled=True, size=130, stroke=self.ink, strokeWidth=1.4)
            .encode(x=self._x("min_recall"), y=y, **looks, opacity=self._opacity(1), tooltip=self._tooltip())
        )
        # The legend is clickable only if the selection is in a layer with the legend's field.
        return [error, dots.add_params(_chosen_label()) if self._interactive else dots, lowest]

    def _rows(self, names: bool) -> alt.Chart:
        """Return an invisible bar over each row, so that tooltips work anywhere in it."""
        return (
            self._domains()
            .mark_bar(height=alt.RelativeBandSize(1), opacity=0)
            .encode(x=alt.value(0), x2=alt.value("width"), y=self._y(names), tooltip=self._tooltip())
        )

    def _baseline(self, what: str) -> list[alt.Chart]:
        if self.data.baseline is None:
            return []
        field = f"baseline_{what}"
        if what == "set_size":
            ticks = self._domains().mark_tick(thickness=1.75, color=self.ink, opacity=0.8)
            return [ticks.encode(x=self._size(field), y=self._y(names=False), tooltip=self._tooltip())]
        rings = self._domains().mark_point(shape="circle", filled=False, size=190, strokeWidth=1.25, color=self.ink)
        return [rings.encode(x=self._x(field), y=self._y(names=True), tooltip=self._tooltip())]

    @property
    def _interactive(self) -> bool:
        return self.ink == PAGE_INK

    def _domains(self) -> alt.Chart:
        return alt.Chart(_drawn(self.data.domains))

    def _y(self, names: bool) -> alt.Y:
        rows = alt.Scale(domain=self.data.domains["row"].tolist())
        axis = alt.Axis(title=None, grid=True, ticks=False, domain=False, labels=names)
        return alt.Y("row:N", scale=rows, axis=axis)

    def _x(self, field: str) -> alt.X:
        domains = self.data.domains
        shown = [domains[name].min() for name in ("low", "min_recall", "baseline_min_recall") if name in domains]
        lowest = min(*shown, *self.data.targets)
        low = max(lowest - ROOM * (1 - lowest) - 0.005, 0)
        targets = ", ".join(f"{target:g}" for target in self.data.targets)
        title = f"Recall (line: target {targets})"
        return alt.X(f"{field}:Q", title=title, scale=alt.Scale(domain=[low, 1 + ROOM * (1 - low)], nice=False))

    def _size(self, field: str) -> alt.X:
        domains = self.data.domains
        largest = max(domains[name].max() for name in ("set_size", "baseline_set_size") if name in domains)
        scale = alt.Scale(domain=[0, max(1.3 * largest, 0.1)], nice=False)
        return alt.X(f"{field}:Q", title="Labels per set", scale=scale, axis=alt.Axis(tickCount=3))

    def look(self, channel: Any, place: int) -> Any:
        """Return the colours or the shapes of the labels."""
        names = list(self.data.looks)
        scale = alt.Scale(domain=names, range=[look[place] for look in self.data.looks.values()])
        return channel("group:N", title="Label", scale=scale)

    def _opacity(self, usual: float) -> Any:
        if not self._interactive:
            return alt.value(usual)
        return alt.when(_chosen_label()).then(alt.value(usual)).otherwise(alt.value(usual / 8))

    def _tooltip(self) -> list[alt.Tooltip]:
        baseline = self.data.baseline
        its_recall = alt.Tooltip(
            "baseline_min_recall:Q", title=f"{self.data.measure.capitalize()} of {baseline}", format=RECALL
        )
        return [
            alt.Tooltip("domain:N", title="Domain"),
            alt.Tooltip("n:Q", title="Examples"),
            alt.Tooltip("min_recall_text:N", title=self.data.measure.capitalize()),
            *([] if baseline is None else [its_recall]),
            alt.Tooltip("set_size:Q", title="Mean set size", format=".2f"),
            alt.Tooltip("recalls:N", title="Recall by label"),
        ]


def _threshold_rows(data: DomainChartData, adaptation: DomainAdaptation) -> pd.DataFrame:
    """Return a row per domain and label whose thresholds are numbers."""
    shift, domains = adaptation.shift, data.domains
    rows, labels = np.nonzero(np.isfinite(shift))
    return pd.DataFrame(
        {
            "row": domains["row"].to_numpy()[rows],
            "domain": domains["domain"].to_numpy()[rows],
            "label": [data.label_names[label] for label in labels],
            "group": [data.groups[label] for label in labels],
            "adapted": adaptation.thresholds[rows, labels],
            "fixed": adaptation.fixed[labels],
            "shift": shift[rows, labels],
            "p_value": adaptation.p_values[rows],
        }
    )


def _config(ink: str) -> dict[str, Any]:
    config = chart_config(ink)
    config["style"]["number"] = {"color": ink, "fontSize": 11, "baseline": "middle"}
    return config


def _config_of_rows(ink: str) -> dict[str, Any]:
    """Return the look of a chart whose rows have names and whose axes stand where the worst rows are."""
    config = _config(ink)
    config["axisY"] = {"labelLimit": 260, "labelPadding": 8}
    config["axisX"] = {"orient": "top", "titleAnchor": "start"}
    config["legend"] |= {"orient": "top", "direction": "horizontal", "columns": 4, "offset": 6}
    config["legend"] |= {"labelLimit": 160, "titleFontSize": 12, "titleFontWeight": "normal"}
    return config


def _target(data: DomainChartData) -> alt.InlineData:
    return inline(pd.DataFrame({"target": data.targets}))


def _drawn(table: pd.DataFrame) -> alt.InlineData:
    return inline(table.round(DECIMALS))


def _chosen_label() -> alt.Parameter:
    return alt.selection_point(name="chosen_label", fields=["group"], bind="legend")
