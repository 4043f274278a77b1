"""The figure of `domaincover paper theory`: new domains that miss the target, against the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.paper.published import QUICK_MARK
from domaincover.paper.study_report.style import KNOWN_METHODS
from domaincover.paper.theory import no_failure_bound, uniform_bound
from domaincover.report.charts import INK, Spec, chart_config, layer, rows_for_json
from domaincover.report.readable import sentence

N_LABELS = 2  # of the paper's Gaussian domains
DELTA = 0.05
MOST_DOMAINS = 100_000  # how far the bounds are drawn
BOUNDS = {"uniform": uniform_bound, "consistent": no_failure_bound}
# The name, colour and dashes of each line.
LINES: dict[str, tuple[str, str, list[int]]] = {
    "trained": ("SET-COVER as trained", KNOWN_METHODS["set-cover"].color, []),
    "at-target": ("the same weights with the smallest sets at target in training", KNOWN_METHODS["erm"].color, []),
    "uniform": ("bound for all predictors", "#a0a2a4", [6, 4]),
    "consistent": ("bound for those at target in all training domains", "#747677", [6, 4]),
}
MARKS_IN_WORDS = [
    "Points: seeds, hollow where a training domain is below the target; lines: medians. Recall is exact.",
    f"The bounds hold with probability {1 - DELTA:g}; up to some hundred domains they say nothing (100 %).",
]
GRAIN = 0.0005  # one of 2,000 domains: below it the axis is straight, so that "none" has a place
HEADS = "training domains   as trained   exactly at target   bound   seeds at target in training, as trained"


def theory_notes(content: Mapping[str, Any]) -> list[str]:
    """Return what must be said wherever these results stand: whether they are of a quick run."""
    return [QUICK_MARK] if content["settings"].get("quick") else []


class LearnabilityData(NamedTuple):
    """Shares of new domains that miss the target by seed, their medians, and the bounds."""

    seeds: pd.DataFrame
    medians: pd.DataFrame
    bounds: pd.DataFrame


def learnability_data(content: Mapping[str, Any]) -> LearnabilityData:
    """Return the chart's data from `theory.json`; "line" names the predictor or bound."""
    seeds = pd.DataFrame(content["rows"]).rename(columns={"predictor": "line"})
    medians = seeds.groupby(["line", "n_domains"])["share_missing_new"].median().reset_index()
    dimension = content["settings"]["n_features"] + 1
    counts = np.unique(np.geomspace(seeds["n_domains"].min(), MOST_DOMAINS, 120).round().astype(int)).tolist()
    rows = [
        {"line": name, "n_domains": count, "share_missing_new": bound(count, dimension, N_LABELS, DELTA)}
        for name, bound in BOUNDS.items()
        for count in counts
    ]
    return LearnabilityData(seeds, medians, pd.DataFrame(rows))


def learnability_table(content: Mapping[str, Any]) -> str:
    """Return the same as a small table: medians over seeds, and how many seeds the theorem covers as trained."""
    data = learnability_data(content)
    dimension = content["settings"]["n_features"] + 1
    by_count = data.medians.pivot(index="n_domains", columns="line", values="share_missing_new")
    trained = data.seeds[data.seeds["line"] == "trained"].groupby("n_domains")["share_missing_training"]
    lines = [
        *map(sentence, theory_notes(content)),
        f"New domains that miss the target (median of {content['settings']['n_seeds']} seeds)",
        HEADS,
    ]
    for count, shares in by_count.iterrows():
        n_covered = int((trained.get_group(count) == 0).sum())
        bound = no_failure_bound(int(str(count)), dimension, N_LABELS, DELTA)
        lines.append(
            f"{count:>16}   {shares['trained']:>10.1%}   {shares['at-target']:>17.1%}   {bound:>5.0%}   "
            f"{n_covered} of {trained.get_group(count).size}"
        )
    return "\n".join(lines)


def learnability_chart(data: LearnabilityData) -> Spec:
    """Return the share of new domains that miss the target against the number of training domains."""
    labels, colors, dashes = zip(*LINES.values(), strict=True)
    legend = {"orient": "bottom", "columns": 2, "title": None, "symbolType": "stroke", "symbolSize": 400}
    look = {"type": "nominal", "field": "label", "legend": legend | {"symbolStrokeWidth": 2}}
    color = look | {"scale": {"domain": labels, "range": colors}}
    dash = look | {"scale": {"domain": labels, "range": dashes}}
    is_covered = {"test": "datum.share_missing_training == 0", "value": 0.5}
    tables = {"seeds": data.seeds, "lines": pd.concat([data.bounds, data.medians])}
    filled = {"stroke": color, "fill": color, "fillOpacity": {"condition": is_covered, "value": 0}}
    layers = [
        layer("lines", {"type": "line", "strokeWidth": 2}, **_axes(data), color=color, strokeDash=dash),
        layer("seeds", {"type": "point", "size": 36, "strokeWidth": 1.2}, **_axes(data), **filled),
    ]
    return {
        "datasets": {
            name: rows_for_json(table.assign(label=[LINES[line][0] for line in table["line"]]))
            for name, table in tables.items()
        },
        "layer": layers,
        "width": 640,
        "height": 360,
        "config": chart_config(INK),
    }


def theory_figure(content: Mapping[str, Any]) -> Spec:
    """Return the chart with its title and notes."""
    title = f"New domains below the target recall of {content['settings']['target_recall']:g}"
    notes = [*map(sentence, theory_notes(content)), *MARKS_IN_WORDS]
    return learnability_chart(learnability_data(content)) | {"title": {"text": title, "subtitle": notes}}


def _axes(data: LearnabilityData) -> Spec:
    domains = {"type": "log", "domain": [0.85 * int(data.seeds["n_domains"].min()), MOST_DOMAINS], "nice": False}
    ticks = {"values": [1, 2, 5, 10, 25, 50, 100, 1000, 10_000, 100_000], "format": ",d", "tickCount": 30}
    shares = {"type": "symlog", "constant": GRAIN, "domain": [0, 1], "nice": False}
    named = {"values": [0, 0.001, 0.01, 0.1, 1], "labelExpr": "datum.value == 0 ? 'none' : format(datum.value, '~%')"}
    x = {"field": "n_domains", "title": "Training domains", "scale": domains, "axis": ticks | {"grid": False}}
    y = {"field": "share_missing_new", "title": "New domains that miss the target", "scale": shares, "axis": named}
    return {"x": x | {"type": "quantitative"}, "y": y | {"type": "quantitative"}}
