"""The chart of domains: a row each, worst first, with the recall of every label beside the set size."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.criteria import TargetRecall
from domaincover.evaluation import DomainReport
from domaincover.report.charts import INK, PAGE_INK, Spec, chart_config, layer, rows_for_json, tooltip
from domaincover.report.domain_reports import (
    Reports,
    all_targets,
    label_targets,
    lowest_labels,
    measure_of,
    worst_first,
)
from domaincover.report.readable import bound_text, recall_text, shortened

if TYPE_CHECKING:
    import altair as alt

MOST_ROWS = 60  # longer charts are unreadable; the page's table has every domain
TALLEST_ROW, LOWEST_ROW = 34, 18
LONGEST_ROW_NAME = 36
MOST_LABELS_IN_TOOLTIP = 12
ROOM = 0.04
DECIMALS = 4
RECALL = f".{DECIMALS}~f"  # a recall just below the target must not look like it
# Colours of the methods' palette, for light and dark backgrounds; methods have no colour in these charts.
LABEL_LOOKS = (
    ("#4f87db", "circle"),
    ("#d97a24", "square"),
    ("#157630", "diamond"),
    ("#f420a4", "triangle-up"),
    ("#7c5cd6", "triangle-down"),
    ("#0d8a97", "triangle-right"),
    ("#a0622d", "triangle-left"),
    ("#7f8000", "cross"),
)
OTHER_LOOK = ("#747677", "circle")
CHOSEN = {"name": "chosen_label", "select": {"type": "point", "fields": ["group"]}, "bind": "legend"}


class DomainChartData(NamedTuple):
    """Data of the chart: a row per domain, worst first, and a row per domain and label in it.

    `looks` gives each group of labels its colour and shape: every label is its own group while there are looks
    enough, else the labels that are lowest most often are, and the others share one. `groups` has the group of each
    of `label_names`. `measure` is what is compared with the target: "min recall", or "coverage".
    """

    targets: list[float]
    methods: tuple[str, ...]
    domains: pd.DataFrame
    labels: pd.DataFrame
    looks: dict[str, tuple[str, str]]
    label_names: list[str]
    groups: list[str]
    measure: str

    @property
    def baseline(self) -> str | None:
        """The name of the second method, if there is one."""
        return self.methods[1] if len(self.methods) > 1 else None

    def worst(self, n_domains: int) -> DomainChartData:
        """Return the first rows only."""
        domains = self.domains.head(n_domains)
        return self._replace(domains=domains, labels=self.labels[self.labels["domain"].isin(domains["domain"])])


def domain_chart_data(reports: Reports, target_recall: TargetRecall) -> DomainChartData:
    """Return the tables behind the chart, with every domain, drawn or not."""
    shown = worst_first(reports, target_recall)
    model, *others = shown.values()
    groups, looks = _groups_and_looks(model)
    domains = _domain_rows(model, groups)
    if others:
        domains["baseline_min_recall"] = others[0].min_recall
        domains["baseline_set_size"] = others[0].set_size
    sizes = [report.set_size for report in (model, *others[:1])]
    domains["size_end"] = np.max(sizes, axis=0)  # the number is right of both methods' marks
    labels = _label_rows(model, groups, domains["row"])
    names, targets = list(map(str, model.label_names)), all_targets(model)
    return DomainChartData(targets, tuple(shown), domains, labels, looks, names, groups, measure_of(model))


def domain_chart(data: DomainChartData, ink: str = PAGE_INK) -> Spec:
    """Return recall and set size side by side, a row per domain; interactive in the page's ink."""
    step = {"step": max(TALLEST_ROW - len(data.domains) // 2, LOWEST_ROW)}
    config = chart_config(ink)
    config["style"]["number"] |= {"baseline": "middle"}
    config["axisY"] = {"labelLimit": 260, "labelPadding": 8}
    config["axisX"] = {"orient": "top", "titleAnchor": "start"}
    config["legend"] |= {"orient": "top", "direction": "horizontal", "columns": 4, "offset": 6}
    config["legend"] |= {"labelLimit": 160, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "datasets": {
            "domains": rows_for_json(data.domains.round(DECIMALS)),
            "labels": rows_for_json(data.labels.round(DECIMALS)),
            "target": [{"target": target} for target in data.targets],
        },
        "hconcat": [
            {"layer": _recall_layers(data, ink), "width": 540, "height": step},
            {"layer": _size_layers(data, ink), "width": 170, "height": step},
        ],
        "spacing": 20,
        "config": config,
    }


def domain_plot(reports: Reports, target_recall: TargetRecall, title: str = "Recall by domain") -> alt.HConcatChart:
    """Return the chart of the worst domains with a title, and the marks explained below it."""
    import altair as alt

    data = domain_chart_data(reports, target_recall)
    spec = domain_chart(data.worst(MOST_ROWS), INK) | {"title": {"text": title, "subtitle": caption_lines(data)}}
    chart: alt.HConcatChart = alt.HConcatChart.from_dict(spec, validate=False)
    return chart


def caption_lines(data: DomainChartData) -> list[str]:
    """Return what the chart's marks mean, and a note on the domains without a row in it, if any."""
    large = "the coverage of the domain" if data.measure == "coverage" else "the lowest of them, its min recall"
    lines = [
        f"Small marks: the recall of each label ({data.methods[0]}). Large mark: {large}; "
        "the band is one standard error of counting."
    ]
    if data.baseline is not None:
        lines.append(f"Ring and short bar: {data.measure} and set size of {data.baseline}.")
    if (n_left := len(data.domains) - MOST_ROWS) > 0:
        bound = bound_text(data.domains["min_recall"].iloc[MOST_ROWS:].min(), data.targets)
        rest = f"the other {'has' if n_left == 1 else f'{n_left} have'} a {data.measure}"
        lines.append(f"The worst {MOST_ROWS} of {len(data.domains)} domains; {rest} of {bound} or more.")
    return lines


def standard_error_ends(recall: Any, n: Any) -> tuple[Any, Any]:
    """Return recall ∓ one binomial standard error, by Wilson's interval, which is not empty at a recall of 0 or 1.

    >>> print("{:.3f} {:.3f}".format(*standard_error_ends(1.0, 4)))
    0.800 1.000
    """
    middle = (recall + 0.5 / n) / (1 + 1 / n)
    reach = np.sqrt(recall * (1 - recall) / n + 0.25 / n**2) / (1 + 1 / n)
    return middle - reach, middle + reach


def _recall_layers(data: DomainChartData, ink: str) -> list[Spec]:
    """Return the panel of recalls, from back to front: rows, misses shaded, target, baseline, marks."""
    of_domain, y = _tooltip(data), _row(data)
    x = _recall_axis(data)
    looks = {"color": _look(data, 0), "shape": _look(data, 1)}
    of_label = tooltip(("domain", "Domain", None), ("label", "Label", None), ("recall", "Recall", RECALL))
    of_label += tooltip(("n", "Examples of it", ""))
    shade = {"type": "rect", "opacity": 0.05, "fill": ink}
    ring = {"type": "point", "shape": "circle", "filled": False, "size": 190, "strokeWidth": 1.25, "color": ink}
    band = {"type": "rule", "strokeWidth": 6, "stroke": ink, "opacity": 0.18}
    small = {"type": "point", "filled": True, "size": 34}
    large = {"type": "point", "filled": True, "size": 130, "stroke": ink, "strokeWidth": 1.4}
    whole_height = {"x2": {"value": 0}, "y": {"value": 0}, "y2": {"value": "height"}}
    ends = {"x": x | {"field": "low"}, "x2": {"field": "high"}}
    marks = layer(
        "labels", small, x=x | {"field": "recall"}, y=y, **looks, tooltip=of_label, opacity=_opacity(ink, 0.8)
    )
    return [
        _whole_rows(data, y),
        layer("target", shade, x=x | {"field": "target"}, **whole_height),
        layer("target", {"type": "rule", "style": "target-line"}, x=x | {"field": "target"}),
        *(
            []
            if data.baseline is None
            else [layer("domains", ring, x=x | {"field": "baseline_min_recall"}, y=y, tooltip=of_domain)]
        ),
        layer("domains", band, **ends, y=y, tooltip=of_domain),
        # The legend is clickable only if the selection is in a layer with the legend's field.
        marks | ({"params": [CHOSEN]} if ink == PAGE_INK else {}),
        layer(
            "domains",
            large,
            x=x | {"field": "min_recall"},
            y=y,
            **looks,
            tooltip=of_domain,
            opacity=_opacity(ink, 1),
        ),
    ]


def _size_layers(data: DomainChartData, ink: str) -> list[Spec]:
    """Return the panel of mean set sizes: bars from 0, with their numbers."""
    domains, of_domain = data.domains, _tooltip(data)
    largest = max(domains[name].max() for name in ("set_size", "baseline_set_size") if name in domains)
    scale = {"domain": [0, max(1.3 * largest, 0.1)], "nice": False}
    x = {"type": "quantitative", "title": "Labels per set", "scale": scale, "axis": {"tickCount": 3}}
    y = _row(data, labels=False)
    bar = {"type": "bar", "height": {"band": 0.55}, "fill": ink, "opacity": 0.3}
    number = {"type": "text", "style": "number", "dx": 5}
    tick = {"type": "tick", "thickness": 1.75, "color": ink, "opacity": 0.8}
    text = {"field": "set_size", "type": "quantitative", "format": ".2f"}
    layers = [
        _whole_rows(data, y),
        layer("domains", bar, x=x | {"field": "set_size"}, y=y, tooltip=of_domain),
        layer("domains", number, x=x | {"field": "size_end"}, y=y, text=text, tooltip=of_domain),
    ]
    if data.baseline is None:
        return layers
    return [*layers, layer("domains", tick, x=x | {"field": "baseline_set_size"}, y=y, tooltip=of_domain)]


def _whole_rows(data: DomainChartData, y: Spec) -> Spec:
    """Return an invisible bar over each row, so that tooltips work anywhere in it."""
    whole = {"x": {"value": 0}, "x2": {"value": "width"}}
    return layer("domains", {"type": "bar", "height": {"band": 1}, "opacity": 0}, **whole, y=y, tooltip=_tooltip(data))


def _row(data: DomainChartData, labels: bool = True) -> Spec:
    axis = {"title": None, "grid": True, "ticks": False, "domain": False, "labels": labels}
    return {"field": "row", "type": "nominal", "scale": {"domain": data.domains["row"].tolist()}, "axis": axis}


def _recall_axis(data: DomainChartData) -> Spec:
    domains = data.domains
    shown = [domains[name].min() for name in ("low", "min_recall", "baseline_min_recall") if name in domains]
    lowest = min(*shown, *data.targets)
    low = max(lowest - ROOM * (1 - lowest) - 0.005, 0)
    title = f"Recall (line: target {', '.join(f'{target:g}' for target in data.targets)})"
    scale = {"domain": [low, 1 + ROOM * (1 - low)], "nice": False}
    return {"type": "quantitative", "title": title, "scale": scale}


def _look(data: DomainChartData, place: int) -> Spec:
    """Return the colours or the shapes of the labels."""
    scale = {"domain": list(data.looks), "range": [look[place] for look in data.looks.values()]}
    return {"field": "group", "type": "nominal", "title": "Label", "scale": scale}


def _opacity(ink: str, usual: float) -> Spec:
    chosen = {"condition": {"param": CHOSEN["name"], "value": usual}, "value": usual / 8}
    return chosen if ink == PAGE_INK else {"value": usual}


def _tooltip(data: DomainChartData) -> list[Spec]:
    measure = data.measure.capitalize()
    lines = [("domain", "Domain", None), ("n", "Examples", ""), ("min_recall_text", measure, None)]
    if data.baseline is not None:
        lines.append(("baseline_min_recall", f"{measure} of {data.baseline}", RECALL))
    return tooltip(*lines, ("set_size", "Mean set size", ".2f"), ("recalls", "Recall by label", None))


def _domain_rows(model: DomainReport, groups: list[str]) -> pd.DataFrame:
    lowest, min_recall = lowest_labels(model), model.min_recall
    n_lowest = model.n if model.is_coverage else model.n_by_label[np.arange(len(lowest)), lowest]
    low, high = standard_error_ends(min_recall, n_lowest)
    rows = {
        "row": shortened([str(name) for name in model.domain_names], LONGEST_ROW_NAME),
        "domain": model.domain_names,
        "n": model.n,
        "min_recall": min_recall,
        "low": low,
        "high": high,
        "min_recall_text": [recall_text(recall, all_targets(model)) for recall in min_recall],
        "label": ["all labels" if model.is_coverage else model.label_names[label] for label in lowest],
        "group": [groups[label] for label in lowest],
        "set_size": model.set_size,
        "recalls": [_recalls_in_words(model, row) for row in range(len(lowest))],
    }
    return pd.DataFrame(rows)


def _label_rows(model: DomainReport, groups: list[str], row_names: pd.Series) -> pd.DataFrame:
    rows, labels = np.nonzero(~np.isnan(model.recall))
    return pd.DataFrame(
        {
            "row": row_names.to_numpy()[rows],
            "domain": [model.domain_names[row] for row in rows],
            "label": [model.label_names[label] for label in labels],
            "group": [groups[label] for label in labels],
            "recall": model.recall[rows, labels],
            "n": model.n_by_label[rows, labels],
        }
    )


def _groups_and_looks(model: DomainReport) -> tuple[list[str], dict[str, tuple[str, str]]]:
    labels = [str(name) for name in model.label_names]
    if len(labels) <= len(LABEL_LOOKS):
        return labels, dict(zip(labels, LABEL_LOOKS, strict=False))
    how_often = Counter(lowest_labels(model).tolist())
    usual = sorted(sorted(range(len(labels)), key=lambda label: -how_often[label])[: len(LABEL_LOOKS) - 1])
    others = f"{len(labels) - len(usual)} other labels"
    looks = dict(zip((labels[label] for label in usual), LABEL_LOOKS, strict=False)) | {others: OTHER_LOOK}
    return [name if label in usual else others for label, name in enumerate(labels)], looks


def _recalls_in_words(model: DomainReport, row: int) -> str:
    """Return each label's recall and number of examples, lowest first, labels that do not count last."""
    recalls, counts, targets = model.recall[row], model.n_by_label[row], label_targets(model)
    texts = [
        "not counted" if np.isnan(recall) else recall_text(recall, [target])
        for recall, target in zip(recalls, targets, strict=True)
    ]
    lines = [
        f"{model.label_names[label]}: {texts[label]} (n = {counts[label]})"
        for label in np.argsort(recalls, kind="stable")[:MOST_LABELS_IN_TOOLTIP]  # NaN sorts last
    ]
    rest = len(recalls) - len(lines)
    return "\n".join([*lines, f"and {rest} more labels"] if rest else lines)
