"""The figure of `domaincover paper theory`: new domains that miss the target, against the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.options import FigureFormat
from domaincover.paper.published import QUICK_MARK
from domaincover.paper.study_report.pictures import save_chart
from domaincover.paper.study_report.style import KNOWN_METHODS
from domaincover.paper.theory.learning_bounds import no_failure_bound, uniform_bound
from domaincover.report.charts import INK, Spec, chart_config, layer, rows_for_json
from domaincover.report.readable import sentence

N_LABELS = 2  # of the paper's Gaussian domains
DELTA = 0.05
MOST_DOMAINS = 100_000  # how far the bounds are drawn
PREDICTORS = {
    "trained": ("SET-COVER as trained", KNOWN_METHODS["set-cover"].color),
    "at-target": ("the same weights with the smallest sets at target in training", KNOWN_METHODS["erm"].color),
}
BOUNDS: dict[str, tuple[str, str, Spec]] = {
    "uniform": ("bound for all predictors", "#747677", {"align": "left", "dx": 2, "dy": -12}),
    "consistent": ("bound for those at target in all training domains", INK, {"align": "right", "dx": -14}),
}
NAMED_AT = {"uniform": 0.42, "consistent": 0.06}  # the share where a line's name stands
MARKS_IN_WORDS = [
    "Points: seeds, hollow where a training domain is below the target; lines: medians. Recall is exact.",
    f"The bounds hold with probability {1 - DELTA:g}; up to some hundred domains they say nothing (100 %).",
]
GRAIN = 0.0005  # one of 2,000 domains: below it the axis is straight, so that "none" has a place


def theory_notes(content: Mapping[str, Any]) -> list[str]:
    """Return what must be said wherever these results stand: whether they are of a quick run."""
    return [QUICK_MARK] if content["settings"].get("quick") else []


class LearnabilityData(NamedTuple):
    """Shares of new domains that miss the target by seed, their medians, and the bounds.

    `name_of` names a line where its name stands.
    """

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
    bounds = pd.DataFrame(rows)
    for name, share in NAMED_AT.items():
        place = (bounds["share_missing_new"] - share).abs()[bounds["bound"] == name].idxmin()
        bounds.loc[place, "name_of"] = name
    is_last = medians["n_domains"] == medians["n_domains"].max()
    return LearnabilityData(seeds, medians.assign(name_of=medians["predictor"].where(is_last)), bounds)


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


def learnability_chart(data: LearnabilityData, ink: str = INK) -> Spec:
    """Return the share of new domains that miss the target against the number of training domains."""
    covered = data.seeds["share_missing_training"] == 0
    tables = {"seeds": data.seeds[covered], "missing": data.seeds[~covered], "medians": data.medians}
    layers = [*_bound_layers(ink), *(part for predictor in PREDICTORS for part in _predictor_layers(predictor))]
    return {
        "description": "New domains that miss the target against the number of training domains, with bounds",
        "datasets": {name: rows_for_json(table) for name, table in (tables | {"bounds": data.bounds}).items()},
        "layer": [part | {"encoding": _axes(data) | part["encoding"]} for part in layers],
        "width": 640,
        "height": 360,
        "config": chart_config(ink),
    }


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


def write_theory_figures(
    content: Mapping[str, Any],
    out: Path,
    domain_counts: Sequence[int] | None = None,
    formats: Sequence[FigureFormat] = ("png", "svg"),
) -> list[Path]:
    """Draw theory.png and theory.svg, or other formats, in the directory; return the files."""
    title = f"New domains below the target recall of {content['settings']['target_recall']:g}"
    notes = [*map(sentence, theory_notes(content)), *MARKS_IN_WORDS]
    chart = learnability_chart(learnability_data(content, domain_counts)) | {
        "title": {"text": title, "subtitle": notes}
    }
    for fmt in formats:
        save_chart(chart, out / f"theory.{fmt}", fmt)
    return [out / f"theory.{fmt}" for fmt in formats]


def _axes(data: LearnabilityData) -> Spec:
    domains = {"type": "log", "domain": [0.85 * int(data.seeds["n_domains"].min()), MOST_DOMAINS], "nice": False}
    ticks = {
        "values": [1, 2, 5, 10, 25, 50, 100, 1000, 10_000, 100_000],
        "format": ",d",
        "grid": False,
        "tickCount": 30,
    }
    shares = {"type": "symlog", "constant": GRAIN, "domain": [0, 1], "nice": False}
    named = {"values": [0, 0.001, 0.01, 0.1, 1], "labelExpr": "datum.value == 0 ? 'none' : format(datum.value, '~%')"}
    x = {"field": "n_domains", "title": "Training domains", "scale": domains, "axis": ticks}
    y = {"field": "share_missing_new", "title": "New domains that miss the target", "scale": shares, "axis": named}
    return {"x": x | {"type": "quantitative"}, "y": y | {"type": "quantitative"}}


def _of(field: str, value: str) -> Spec:
    return {"transform": [{"filter": {"field": field, "equal": value}}]}


def _bound_layers(ink: str) -> list[Spec]:
    """Return a dashed line for each bound, and its name where the line is about half way down."""
    layers = []
    for name, (label, shade, side) in BOUNDS.items():
        color = ink if shade == INK else shade
        line = layer("bounds", {"type": "line", "color": color, "strokeWidth": 1.5, "strokeDash": [6, 4]})
        text = {"type": "text", "color": color, "fontSize": 11, "text": label} | side
        layers += [line | _of("bound", name), layer("bounds", text) | _of("name_of", name)]
    return layers


def _predictor_layers(predictor: str) -> list[Spec]:
    label, color = PREDICTORS[predictor]
    point = {"type": "point", "color": color, "size": 36}
    name = {"type": "text", "color": color, "fontSize": 11, "align": "left", "dx": 10, "dy": -9, "text": label}
    layers = [
        layer("seeds", point | {"filled": True, "opacity": 0.5}),
        layer("missing", point | {"filled": False, "opacity": 0.8}),
        layer("medians", {"type": "line", "color": color, "strokeWidth": 2.5}),
    ]
    last = layer("medians", name) | _of("name_of", predictor)
    return [*(one | _of("predictor", predictor) for one in layers), last]
