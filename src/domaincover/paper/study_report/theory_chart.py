"""The figure of `domaincover paper theory`: new domains that miss the target, against the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from domaincover.options import FigureFormat
from domaincover.paper.published import QUICK_MARK
from domaincover.paper.theory.learning_bounds import no_failure_bound, uniform_bound
from domaincover.report.look import PAGE_INK, chart_config
from domaincover.report.pictures import inline, save_chart
from domaincover.report.readable import sentence
from domaincover.report.style import INK, KNOWN_METHODS

N_LABELS = 2  # of the paper's Gaussian domains
DELTA = 0.05
MOST_DOMAINS = 100_000  # how far the bounds are drawn
PREDICTORS = {
    "trained": ("SET-COVER as trained", KNOWN_METHODS["set-cover"].color),
    "at-target": ("the same weights with the smallest sets at target in training", KNOWN_METHODS["erm"].color),
}
BOUNDS = {
    "uniform": ("bound for all predictors", "#747677"),
    "consistent": ("bound for those at target in all training domains", INK),
}
MARKS_IN_WORDS = [
    "Points: seeds, hollow where a training domain is below the target; lines: medians. Recall is exact.",
    f"The bounds hold with probability {1 - DELTA:g}; up to some hundred domains they say nothing (100 %).",
]
GRAIN = 0.0005  # one of 2,000 domains: below it the axis is straight, so that "none" has a place


def theory_notes(content: Mapping[str, Any]) -> list[str]:
    """Return what must be said wherever these results stand: whether they are of a quick run."""
    return [QUICK_MARK] if content["settings"].get("quick") else []


class LearnabilityData(NamedTuple):
    """Shares of new domains that miss the target by seed, their medians, and the bounds."""

    seeds: pd.DataFrame
    medians: pd.DataFrame
    bounds: pd.DataFrame


def learnability_data(content: Mapping[str, Any], domain_counts: Sequence[int] | None = None) -> LearnabilityData:
    """Return the chart's data from `theory.json`, for these numbers of domains or all."""
    seeds = pd.DataFrame(content["rows"])
    if domain_counts is not None:
        seeds = seeds[seeds["n_domains"].isin(domain_counts)]
    medians = seeds.groupby(["predictor", "n_domains"])["share_missing_new"].median().reset_index()
    dimension = content["settings"]["n_features"] + 1
    counts = np.unique(np.geomspace(seeds["n_domains"].min(), MOST_DOMAINS, 120).round().astype(int))
    rows = [
        {"bound": name, "n_domains": int(count), "share_missing_new": bound(int(count), dimension, N_LABELS, DELTA)}
        for name, bound in (("uniform", uniform_bound), ("consistent", no_failure_bound))
        for count in counts
    ]
    return LearnabilityData(seeds, medians, pd.DataFrame(rows))


def learnability_table(content: Mapping[str, Any], domain_counts: Sequence[int] | None = None) -> str:
    """Return the same as a small table: medians over seeds, and how many seeds the theorem covers as trained."""
    data = learnability_data(content, domain_counts)
    dimension = content["settings"]["n_features"] + 1
    by_count = data.seeds.pivot_table(
        index="n_domains", columns="predictor", values="share_missing_new", aggfunc="median"
    )
    trained = data.seeds[data.seeds["predictor"] == "trained"].groupby("n_domains")["share_missing_training"]
    lines = [
        *map(sentence, theory_notes(content)),
        f"New domains that miss the target (median of {content['settings']['n_seeds']} seeds)",
        "training domains   as trained   exactly at target   bound   seeds at target in training, as trained",
    ]
    for count, shares in by_count.iterrows():
        n_covered = int((trained.get_group(count) == 0).sum())
        bound = no_failure_bound(int(str(count)), dimension, N_LABELS, DELTA)
        lines.append(
            f"{count:>16}   {shares['trained']:>10.1%}   {shares['at-target']:>17.1%}   {bound:>5.0%}   "
            f"{n_covered} of {trained.get_group(count).size}"
        )
    return "\n".join(lines)


def learnability_chart(data: LearnabilityData, target_recall: float, notes: Sequence[str] = ()) -> alt.LayerChart:
    """Return the share of new domains that miss the target against the number of training domains."""
    layers = _layers(data, INK)
    title = alt.TitleParams(
        f"New domains below the target recall of {target_recall:g}",
        subtitle=[*map(sentence, notes), *MARKS_IN_WORDS],
    )
    chart = alt.LayerChart(layer=layers, width=640, height=360, title=title)
    styled: alt.LayerChart = chart.configure(**chart_config(INK))
    return styled


def learnability_spec(data: LearnabilityData) -> dict[str, Any]:
    """Return the same chart for a page, without title and notes."""
    description = "New domains that miss the target against the number of training domains, with bounds"
    chart = alt.LayerChart(layer=_layers(data, PAGE_INK), width=640, height=360, description=description)
    spec: dict[str, Any] = chart.configure(**chart_config(PAGE_INK)).to_dict(validate=False)  # tests validate it
    return spec


def learnability_sentence(content: Mapping[str, Any], domain_counts: Sequence[int] | None = None) -> str:
    """Return the result for the largest number of training domains, beside the theorem's bound."""
    data = learnability_data(content, domain_counts)
    count = int(data.seeds["n_domains"].max())
    medians = data.medians[data.medians["n_domains"] == count].set_index("predictor")["share_missing_new"]
    bound = no_failure_bound(count, content["settings"]["n_features"] + 1, N_LABELS, DELTA)
    promise = f"at most {bound:.0%}" if bound < 1 else "nothing yet"
    return (
        f"Trained on {count} domains, SET-COVER misses the target recall of {content['settings']['target_recall']:g} "
        f"in {medians['trained']:.1%} of new domains (median of {content['settings']['n_seeds']} seeds), and in "
        f"{medians['at-target']:.1%} with the smallest sets that are at target in every training domain. For the "
        f"latter the theorem promises {promise}, with probability {1 - DELTA:g}."
    )


def _layers(data: LearnabilityData, ink: str) -> list[alt.Chart]:
    x = _x(int(data.seeds["n_domains"].min()))
    layers = _bound_layers(data.bounds, x, ink)
    for predictor, (label, color) in PREDICTORS.items():
        layers += _predictor_layers(data, x, predictor, label, color)
    return layers


def write_theory_figures(
    content: Mapping[str, Any],
    out: Path,
    domain_counts: Sequence[int] | None = None,
    formats: Sequence[FigureFormat] = ("png", "svg"),
) -> list[Path]:
    """Draw theory.png and theory.svg, or other formats, in the directory; return the files."""
    data, target_recall = learnability_data(content, domain_counts), content["settings"]["target_recall"]
    chart = learnability_chart(data, target_recall, theory_notes(content))
    for fmt in formats:
        save_chart(chart, out / f"theory.{fmt}", fmt)
    return [out / f"theory.{fmt}" for fmt in formats]


def _x(first: int) -> alt.X:
    scale = alt.Scale(type="log", domain=[0.85 * first, MOST_DOMAINS], nice=False)
    axis = alt.Axis(values=[1, 2, 5, 10, 25, 50, 100, 1000, 10_000, 100_000], format=",d", grid=False, tickCount=30)
    return alt.X("n_domains:Q", title="Training domains", scale=scale, axis=axis)


def _y() -> alt.Y:
    scale = alt.Scale(type="symlog", constant=GRAIN, domain=[0, 1], nice=False)
    axis = alt.Axis(values=[0, 0.001, 0.01, 0.1, 1], labelExpr="datum.value == 0 ? 'none' : format(datum.value, '~%')")
    return alt.Y("share_missing_new:Q", title="New domains that miss the target", scale=scale, axis=axis)


def _bound_layers(bounds: pd.DataFrame, x: alt.X, ink: str) -> list[alt.Chart]:
    layers = []
    for name, (label, shade) in BOUNDS.items():
        color = ink if shade == INK else shade
        own = bounds[bounds["bound"] == name]
        line = alt.Chart(inline(own)).mark_line(color=color, strokeWidth=1.5, strokeDash=[6, 4])
        at = own.iloc[(own["share_missing_new"] - (0.42 if name == "uniform" else 0.06)).abs().argsort()[:1]]
        side: dict[str, Any] = (
            {"align": "left", "dx": 2, "dy": -12} if name == "uniform" else {"align": "right", "dx": -14}
        )
        text = alt.Chart(inline(at.assign(text=label))).mark_text(color=color, fontSize=11, **side)
        layers += [line.encode(x, _y()), text.encode(x, _y(), text="text:N")]
    return layers


def _predictor_layers(data: LearnabilityData, x: alt.X, predictor: str, label: str, color: str) -> list[alt.Chart]:
    seeds, medians = (table[table["predictor"] == predictor] for table in (data.seeds, data.medians))
    covered = seeds["share_missing_training"] == 0
    full = alt.Chart(inline(seeds[covered])).mark_point(color=color, size=36, filled=True, opacity=0.5)
    hollow = alt.Chart(inline(seeds[~covered])).mark_point(color=color, size=36, filled=False, opacity=0.8)
    line = alt.Chart(inline(medians)).mark_line(color=color, strokeWidth=2.5)
    last = medians[medians["n_domains"] == medians["n_domains"].max()].assign(text=label)
    text = alt.Chart(inline(last)).mark_text(color=color, fontSize=11, align="left", dx=10, dy=-9)
    return [layer.encode(x, _y()) for layer in (full, hollow, line)] + [text.encode(x, _y(), text="text:N")]
