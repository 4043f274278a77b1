"""The tables behind the charts of a study, the parts of the axes that they take, and what their marks mean in words."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from domaincover.paper.collect import TrainingHistory
from domaincover.paper.study_report.chart_templates import ITERATES
from domaincover.paper.study_report.study_tables import of_dataset, of_experiment, unseen_rows
from domaincover.report.readable import percent

DECIMALS = 4
STEP_DECIMALS = 3  # of training, of which there are many steps
MOST_CELLS = 60  # lines that a plot can show
REACH = 1.5  # whiskers as in Tukey (1977): the furthest values within this many box lengths of the box
SIZE_SPAN, RECALL_SPAN = 0.1, 0.05  # the least that an axis shows
ROOM = 0.08  # around the values, in lengths of the axis

CURVES = (
    "A line per method through its target recalls, whose lines run across; the larger a point, the higher its target. "
    "Up is safer, left is sharper."
)
TRAINING = (
    "Thin lines: cells (a label in a training domain); thick line: the lowest recall, the mean multiplier. The best "
    "iterate is at target in every cell, or nearest to it, with the smallest sets; Algorithm 1 keeps the last."
)
CROSS_COLUMNS = ["method", "split", "set_size", "set_size_q25", "set_size_q75"]
CROSS_COLUMNS += ["min_recall", "min_recall_q25", "min_recall_q75"]
# The columns along the axes of size and of recall.
PLANES = {
    "cross": (("set_size", "set_size_q25", "set_size_q75"), ("min_recall", "min_recall_q25", "min_recall_q75")),
    "coverage": (("set_size", "size_low", "size_high"), ("share", "low", "high")),
    "curves": (("set_size",), ("min_recall", "target")),
}


class RecallBoxes(NamedTuple):
    """Boxes of min recall, a row per method, and the single domains beyond their whiskers."""

    boxes: pd.DataFrame
    outliers: pd.DataFrame

    def limits(self, target_recall: float) -> tuple[float, float]:
        """Return the ends of an axis that holds all of them and the target."""
        return recall_limits([*self.boxes["low"], *self.boxes["high"], *self.outliers["min_recall"], target_recall])


def limits_around(
    values: Iterable[float], least_span: float, low: float = 0.0, high: float = math.inf
) -> tuple[float, float]:
    """Return the ends of an axis that holds these values with some room, within `low` and `high`."""
    known = [float(value) for value in values if not pd.isna(value)] or [1.0]
    least, most = min(known), max(known)
    room = max(ROOM * (most - least), (least_span - (most - least)) / 2, ROOM * least_span)
    return max(round(least - room, 3), low), min(round(most + room, 3), high)


def recall_limits(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis of recalls or shares."""
    return limits_around(values, RECALL_SPAN, high=1.0)


def cross_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cross: medians and quartiles."""
    return results[CROSS_COLUMNS].reset_index(drop=True)


def plane_limits(kind: str, table: pd.DataFrame, *targets: float) -> dict[str, tuple[float, float]]:
    """Return the axes that hold all points of a kind of chart with their spread, and these targets."""
    sizes, recalls = ([value for name in names for value in table[name]] for names in PLANES[kind])
    return {"size": limits_around(sizes, SIZE_SPAN), "recall": recall_limits([*recalls, *targets])}


def random_line(n_labels: int, size: tuple[float, float], recall: tuple[float, float]) -> pd.DataFrame:
    """Return the ends in sight of the line of sets drawn by lot, recall = set size / labels, or no rows."""
    first, last = max(size[0], n_labels * recall[0]), min(size[1], n_labels * recall[1])
    ends = [first, last] if first < last else []
    return pd.DataFrame({"set_size": ends, "min_recall": [end / n_labels for end in ends]}, dtype=float)


def share_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each method's share at target and set size, with one standard deviation over seeds on either side."""
    share, size = rows["share_at_target"].astype(float), rows["set_size"].astype(float)
    spread, size_spread = (
        rows[f"{name}_std"].astype(float).where(rows["n_seeds"] > 1) for name in ("share_at_target", "set_size")
    )
    table = pd.DataFrame(
        {
            "method": rows["method"],
            "share": share,
            "low": (share - spread).clip(0, 1),
            "high": (share + spread).clip(0, 1),
            "end": (share + spread.fillna(0)).clip(0, 1).fillna(0),
            "text": [percent(*pair) for pair in zip(share, spread, strict=True)],
            "set_size": size,
            "size_low": size - size_spread,
            "size_high": size + size_spread,
        }
    )
    return table.round(DECIMALS).reset_index(drop=True)


def recall_boxes(rows: pd.DataFrame, domains: pd.DataFrame) -> RecallBoxes:
    """Return quartiles, whiskers and outliers of min recall over all domains and seeds; NaN is left out."""
    methods = rows["method"].tolist()
    dataset, target = rows.iloc[0][["dataset", "target_recall"]]
    single = unseen_rows(of_experiment(domains, dataset, target))
    single = single[single["method"].isin(methods) & single["min_recall"].notna()]
    by_method = single.groupby("method")["min_recall"]
    boxes = by_method.quantile(np.array([0.25, 0.5, 0.75])).unstack().reindex(columns=[0.25, 0.5, 0.75])
    boxes = boxes.set_axis(["q25", "median", "q75"], axis=1).reindex(methods)
    reach = REACH * (boxes["q75"] - boxes["q25"])
    fences = pd.DataFrame({"low": boxes["q25"] - reach, "high": boxes["q75"] + reach}).reindex(single["method"])
    inside = single["min_recall"].between(fences["low"].to_numpy(), fences["high"].to_numpy())
    furthest = single[inside].groupby("method")["min_recall"].agg(["min", "max"])
    # An interpolated quartile may lie beyond every value that is not an outlier.
    boxes["low"], boxes["high"] = boxes["q25"].clip(upper=furthest["min"]), boxes["q75"].clip(lower=furthest["max"])
    outliers = single.loc[~inside, ["method", "min_recall"]]
    return RecallBoxes(
        boxes.round(DECIMALS).rename_axis("method").reset_index(),
        outliers.round({"min_recall": DECIMALS}).reset_index(drop=True),
    )


def has_curves(results: pd.DataFrame, dataset: str) -> bool:
    """Return whether a method of the data set has several target recalls in unseen domains."""
    return not curve_table(results, dataset).empty


def curve_table(results: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return a point per target of every method that has several, in unseen domains."""
    rows = unseen_rows(of_dataset(results, dataset))
    rows = rows[rows.groupby("method")["target_recall"].transform("nunique") > 1].sort_values("target_recall")
    table = pd.DataFrame(
        {
            "method": rows["method"],
            "target": rows["target_recall"],
            "set_size": rows["set_size"].astype(float).round(DECIMALS),
            "min_recall": rows["min_recall"].astype(float).round(DECIMALS),
        }
    )
    return table.reset_index(drop=True)


def caption(kind: str, n_seeds: int) -> str:
    """Return the caption of a kind of chart of results over this many seeds."""
    one = n_seeds == 1
    spread = "Thin lines: one standard deviation between seeds to either side."
    spread = "One seed, so the spread between seeds is unknown." if one else spread
    crosses = (
        "Points are medians over domains, bars run from the 25th to the 75th percentile; the line is the target, a "
        "dashed line, where in sight, sets drawn by lot."
    )
    texts = {
        "cross": crosses,
        "cross-splits": crosses,
        "curves": CURVES,
        "share": f"Share of unseen domains where every label’s recall is at least the target. {spread}",
        "min-recall": (
            f"Box: the middle half of the unseen domains of {'one seed' if one else f'{n_seeds} seeds together'}; "
            f"line: their median. Whiskers: the furthest domains within {REACH:g} box lengths; points: single domains "
            "beyond. Right of the target is safe."
        ),
        "coverage": f"Share of unseen domains at target against set size. {spread} Up is safer, left is sharper.",
    }
    return texts[kind]


class TrainingCurves(NamedTuple):
    """A row per dual step with the values of its cells as lists; and the last and the best iterate."""

    steps: pd.DataFrame
    iterates: pd.DataFrame


def training_curves(history: TrainingHistory) -> TrainingCurves:
    """Return what a history's plots show; of many cells, some that are evenly spread over the last recalls."""
    order = np.argsort(history.recall[-1], kind="stable")
    n_shown = min(len(order), MOST_CELLS)
    shown = np.sort(order[np.linspace(0, len(order) - 1, n_shown).round().astype(int)])
    steps = pd.DataFrame(
        {
            "step": np.arange(1, len(history.set_size) + 1),
            "set_size": history.set_size.round(STEP_DECIMALS),
            "lowest": np.nanmin(history.recall, axis=1).round(STEP_DECIMALS),
            "mean": np.nanmean(history.multipliers, axis=1).round(STEP_DECIMALS),
            "cell": [[history.cells[k] for k in shown]] * len(history.set_size),
            "recall": _lists(history.recall[:, shown]),
            "multiplier": _lists(history.multipliers[:, shown]),
        }
    )
    places = {"last": len(steps) - 1, "best": best_step(history)}
    iterates = steps.loc[list(places.values()), ["step", "set_size", "lowest", "mean"]]
    iterates = iterates.assign(iterate=list(places), label=[ITERATES[name].label for name in places])
    return TrainingCurves(steps, iterates.reset_index(drop=True))


def best_step(history: TrainingHistory) -> int:
    """Return the step of the best iterate: the worst cell nearest to its target, then the smallest sets."""
    shortfall = np.clip(history.target_recall - history.recall, 0, None)
    return int(np.lexsort((history.set_size, np.nanmax(shortfall, axis=1)))[0])


def _lists(values: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(value) else round(float(value), STEP_DECIMALS) for value in row] for row in values]
