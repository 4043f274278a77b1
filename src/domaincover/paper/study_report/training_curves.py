"""How SET-COVER trains: recall by cell, set size and multipliers at each dual step, with the last and best iterate."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pandas as pd

from domaincover.paper.histories import TrainingHistory
from domaincover.paper.study_report.cross_plot_layers import Data, hollow_if
from domaincover.paper.study_report.panels import GAP, RIGHT, TICK, TICKS, TITLE, legend_of, stacked
from domaincover.paper.study_report.plot_templates import filled_plot, part_of_figure
from domaincover.report.look import PAPER, TWO_COLUMNS, Look, chart_config, title_of
from domaincover.report.pictures import Rows, Spec, rows_for_json
from domaincover.report.readable import sentence
from domaincover.report.style import INK, KNOWN_METHODS, dataset_label

MOST_CELLS = 60  # lines that a plot can show
HEIGHT = 90
X_TITLE = "Dual step"
DECIMALS = 3
PARTS = {"recall": "Recall by cell", "size": "Mean set size", "multipliers": "Multiplier by cell"}
ITERATES = {"last": KNOWN_METHODS["set-cover"], "best": KNOWN_METHODS["set-cover-best"]}
CAPTION = (
    "Thin lines: cells (a label in a training domain); thick line: the lowest recall, the mean multiplier. The best "
    "iterate is at target in every cell, or nearest to it, with the smallest sets; Algorithm 1 keeps the last."
)


class TrainingCurves(NamedTuple):
    """A row per dual step with the values of its cells as lists; the last and the best iterate; the target recall."""

    dataset: str
    steps: pd.DataFrame
    iterates: pd.DataFrame
    target_recall: float
    n_cells: int


def training_curves(history: TrainingHistory) -> TrainingCurves:
    """Return what a history's plots show; of many cells, some that are evenly spread over the last recalls."""
    order = np.argsort(history.recall[-1], kind="stable")
    n_shown = min(len(order), MOST_CELLS)
    shown = np.sort(order[np.linspace(0, len(order) - 1, n_shown).round().astype(int)])
    steps = pd.DataFrame(
        {
            "step": np.arange(1, len(history.set_size) + 1),
            "set_size": history.set_size.round(DECIMALS),
            "lowest": np.nanmin(history.recall, axis=1).round(DECIMALS),
            "mean": np.nanmean(history.multipliers, axis=1).round(DECIMALS),
            "cell": [[history.cells[k] for k in shown]] * len(history.set_size),
            "recall": _lists(history.recall[:, shown]),
            "multiplier": _lists(history.multipliers[:, shown]),
        }
    )
    places = {"last": len(steps) - 1, "best": best_step(history)}
    iterates = steps.loc[list(places.values()), ["step", "set_size", "lowest", "mean"]]
    iterates = iterates.assign(iterate=list(places), label=[ITERATES[name].label for name in places])
    return TrainingCurves(
        history.dataset, steps, iterates.reset_index(drop=True), history.target_recall, len(history.cells)
    )


def best_step(history: TrainingHistory) -> int:
    """Return the step of the best iterate: the worst cell nearest to its target, then the smallest sets."""
    shortfall = np.clip(history.target_recall - history.recall, 0, None)
    return int(np.lexsort((history.set_size, np.nanmax(shortfall, axis=1)))[0])


def swing_in_words(curves: TrainingCurves) -> str:
    """Return how far the last iterate is from the best, and how set sizes swing before."""
    last, best = curves.iterates.to_dict("records")
    sizes = curves.steps["set_size"]
    said = (
        f"Between dual steps, the mean set size swings from {sizes.min():.2f} to {sizes.max():.2f}. The last of "
        f"{len(sizes)} has {last['set_size']:.2f} labels per set and a lowest recall of {last['lowest']:.2f} over "
        f"{curves.n_cells} training cells"
    )
    if last["step"] == best["step"]:
        return f"{said}, and is the best."
    return f"{said}; the best, step {best['step']}, has {best['set_size']:.2f} and {best['lowest']:.2f}."


def training_layers(
    part: str, steps: Data, iterates: Data, target: Data, look: Look, x_title: str = X_TITLE
) -> alt.LayerChart:
    """Return the layers of one plot: recall by cell, set size, or multipliers."""
    x = alt.X("step:Q", title=x_title, axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False))
    thick = {"recall": "lowest", "size": "set_size", "multipliers": "mean"}[part]
    base = alt.Chart(steps)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=PARTS[part], scale=alt.Scale(zero=False))

    layers: list[alt.Chart] = []
    if part == "recall":
        layers.append(alt.Chart(target).mark_rule(style="target-line").encode(y=y("target")))
    if part != "size":
        value = "recall" if part == "recall" else "multiplier"
        tooltip = [
            alt.Tooltip("cell:N", title="Domain, label"),
            alt.Tooltip("step:Q", title="Dual step"),
            alt.Tooltip(f"{value}:Q", title=value.capitalize(), format=".3f"),
        ]
        cells = base.transform_flatten(["cell", value]).mark_line(style="cell-line")
        layers.append(cells.encode(x, y(value), detail=alt.Detail("cell:N"), tooltip=tooltip))
    layers.append(base.mark_line(style="summary-line").encode(x, y(thick)))
    layers.append(_iterates(iterates, look).encode(x, y(thick)))
    return alt.LayerChart(layer=layers, description=f"{PARTS[part]} at each dual step of SET-COVER")


def training_figure(curves: Sequence[TrainingCurves], notes: Sequence[str]) -> Spec:
    """Return the plots of several data sets for a paper: a row for each, two columns wide."""
    n_columns = len(PARTS)
    width = (TWO_COLUMNS - RIGHT - n_columns * (TICKS + TITLE) - (n_columns - 1) * GAP) // n_columns
    rows = []
    for place, one in enumerate(curves):
        data: dict[str, Rows | None] = {
            "steps": rows_for_json(one.steps),
            "iterates": rows_for_json(one.iterates),
            "target": [{"target": one.target_recall}],
        }
        own = {"x_title": X_TITLE if place == len(curves) - 1 else None}
        plots = [
            filled_plot(template, place, own, data) | {"width": width, "height": HEIGHT}
            for template in _templates().values()
        ]
        name = {"text": dataset_label(one.dataset), "fontSize": PAPER.text, "fontWeight": "normal", "frame": "group"}
        rows.append([plots[0] | {"title": name}, *plots[1:]])
    styles = {f"set-cover{'' if name == 'last' else '-best'}": style for name, style in ITERATES.items()}
    title = f"SET-COVER in training, target recall {curves[0].target_recall:g}, first seed"
    return stacked(
        [*rows, [legend_of(styles, TWO_COLUMNS - 60)]],
        title_of(title, [*map(sentence, notes), CAPTION], PAPER, TWO_COLUMNS - 8),
        chart_config(INK, PAPER) | {"axisY": {"minExtent": TICKS - TICK, "maxExtent": TICKS - TICK, "tickCount": 5}},
    )


@functools.cache
def _templates() -> dict[str, Spec]:
    """Return the plots of a figure for a paper, to be filled for a data set."""
    steps, iterates, target = (alt.NamedData(f"@{name}") for name in ("steps", "iterates", "target"))
    return {part: part_of_figure(training_layers(part, steps, iterates, target, PAPER, "@x_title")) for part in PARTS}


def _iterates(iterates: Data, look: Look) -> alt.Chart:
    styles = list(ITERATES.values())
    labels = [style.label for style in styles]
    color: dict[str, Any] = {
        "scale": alt.Scale(domain=labels, range=[style.color for style in styles]),
        "legend": None,
    }
    shape = alt.Scale(domain=labels, range=[style.shape for style in styles])
    tooltip = [
        alt.Tooltip("label:N", title="Iterate of"),
        alt.Tooltip("step:Q", title="Dual step"),
        alt.Tooltip("lowest:Q", title="Lowest recall", format=".3f"),
        alt.Tooltip("set_size:Q", title="Mean set size", format=".2f"),
    ]
    points = alt.Chart(iterates).mark_point(size=look.point, filled=True, opacity=1, strokeWidth=0.6 * look.stroke)
    chart: alt.Chart = points.encode(
        color=alt.Color("label:N", **color),
        stroke=alt.Stroke("label:N", **color),
        shape=alt.Shape("label:N", scale=shape, legend=None),
        fillOpacity=hollow_if("datum.iterate === 'best'"),
        tooltip=tooltip,
    )
    return chart


def _lists(values: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else round(float(value), DECIMALS) for value in row] for row in values]
