"""How SET-COVER trains: recall by cell, set size and multipliers at each dual step, with the last and best iterate."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from domaincover.paper.collect import TrainingHistory
from domaincover.paper.study_report.chart_templates import ITERATES

MOST_CELLS = 60  # lines that a plot can show
DECIMALS = 3
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


def _lists(values: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else round(float(value), DECIMALS) for value in row] for row in values]
