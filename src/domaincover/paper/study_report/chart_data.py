"""The tables behind the charts of a study, the parts of the axes that they take, and what their marks mean."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from domaincover.paper.study_report.results_table import CheckedDomains, CheckedResults, of_dataset, of_experiment
from domaincover.report.readable import percent, with_spread

DECIMALS = 4
REACH = 1.5  # whiskers as in Tukey (1977): the furthest values within this many box lengths of the box
SIZE_SPAN, RECALL_SPAN = 0.1, 0.05  # the least that an axis shows
ROOM = 0.08  # around the values, in lengths of the axis

CURVES = (
    "A line per method through its target recalls, whose lines run across; the larger a point, the higher its target. "
    "Up is safer, left is sharper."
)
CROSS_COLUMNS = (
    *("method", "split", "n_domains", "n_seeds"),
    *("set_size", "set_size_q25", "set_size_q75", "set_size_quartiles"),
    *("min_recall", "min_recall_q25", "min_recall_q75", "min_recall_quartiles", "share"),
)


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


def unseen_rows(results: CheckedResults, dataset: str, target_recall: float) -> CheckedResults:
    """Return the rows of unseen domains of one data set and target recall."""
    rows = of_experiment(results, dataset, target_recall)
    return CheckedResults(rows[rows["split"] == "unseen"])


def cross_table(results: CheckedResults) -> pd.DataFrame:
    """Return a row per cross: medians and quartiles."""
    crosses = results.assign(
        set_size_quartiles=_quartiles(results, "set_size"),
        min_recall_quartiles=_quartiles(results, "min_recall"),
        share=[percent(share) for share in results["share_at_target"]],
    )
    return crosses[list(CROSS_COLUMNS)].reset_index(drop=True)


def cross_limits(crosses: pd.DataFrame, target_recall: float) -> dict[str, tuple[float, float]]:
    """Return the axes that hold these crosses and the target."""
    sizes, recalls = (
        [value for end in ("", "_q25", "_q75") for value in crosses[f"{name}{end}"]]
        for name in ("set_size", "min_recall")
    )
    return {"size": limits_around(sizes, SIZE_SPAN), "recall": recall_limits([*recalls, target_recall])}


def random_line(n_labels: int, size: tuple[float, float], recall: tuple[float, float]) -> pd.DataFrame:
    """Return the ends in sight of the line of sets drawn by lot, recall = set size / labels, or no rows."""
    first, last = max(size[0], n_labels * recall[0]), min(size[1], n_labels * recall[1])
    ends = [first, last] if first < last else []
    return pd.DataFrame({"set_size": ends, "min_recall": [end / n_labels for end in ends]}, dtype=float)


def share_table(rows: CheckedResults) -> pd.DataFrame:
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
            "size_text": [with_spread(*pair) for pair in zip(size, size_spread, strict=True)],
            "n_domains": rows["n_domains"],
            "n_seeds": rows["n_seeds"],
        }
    )
    return table.round(DECIMALS).reset_index(drop=True)


def share_limits(shares: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return the axes that hold every method's share and size with their spread."""
    sizes, recalls = (
        [value for name in names for value in shares[name]]
        for names in (("set_size", "size_low", "size_high"), ("share", "low", "high"))
    )
    return {"size": limits_around(sizes, SIZE_SPAN), "recall": recall_limits(recalls)}


def recall_boxes(rows: CheckedResults, domains: CheckedDomains) -> RecallBoxes:
    """Return quartiles, whiskers and outliers of min recall over all domains and seeds; NaN is left out."""
    methods = rows["method"].tolist()
    dataset, target = rows.iloc[0][["dataset", "target_recall"]]
    single = of_experiment(domains, dataset, target)
    single = single[(single["split"] == "unseen") & single["method"].isin(methods) & single["min_recall"].notna()]
    by_method = single.groupby("method")["min_recall"]
    boxes = by_method.quantile(np.array([0.25, 0.5, 0.75])).unstack().reindex(columns=[0.25, 0.5, 0.75])
    boxes = boxes.set_axis(["q25", "median", "q75"], axis=1).assign(n=by_method.size()).reindex(methods)
    boxes["n"] = boxes["n"].fillna(0)
    reach = REACH * (boxes["q75"] - boxes["q25"])
    fences = pd.DataFrame({"low": boxes["q25"] - reach, "high": boxes["q75"] + reach}).reindex(single["method"])
    inside = single["min_recall"].between(fences["low"].to_numpy(), fences["high"].to_numpy())
    furthest = single[inside].groupby("method")["min_recall"].agg(["min", "max"])
    # An interpolated quartile may lie beyond every value that is not an outlier.
    boxes["low"], boxes["high"] = boxes["q25"].clip(upper=furthest["min"]), boxes["q75"].clip(lower=furthest["max"])
    outliers = single.loc[~inside, ["method", "domain", "seed", "n", "min_recall"]]
    return RecallBoxes(
        boxes.round(DECIMALS).rename_axis("method").reset_index(),
        outliers.round({"min_recall": DECIMALS}).reset_index(drop=True),
    )


def has_curves(results: CheckedResults, dataset: str) -> bool:
    """Return whether a method of the data set has several target recalls in unseen domains."""
    return not curve_table(results, dataset).empty


def curve_table(results: CheckedResults, dataset: str) -> pd.DataFrame:
    """Return a point per target of every method that has several, in unseen domains."""
    rows = of_dataset(results, dataset)
    rows = rows[rows["split"] == "unseen"]
    rows = rows[rows.groupby("method")["target_recall"].transform("nunique") > 1].sort_values("target_recall")
    table = pd.DataFrame(
        {
            "method": rows["method"],
            "target": rows["target_recall"],
            "set_size": rows["set_size"].astype(float).round(DECIMALS),
            "min_recall": rows["min_recall"].astype(float).round(DECIMALS),
            "share": [percent(share) for share in rows["share_at_target"]],
        }
    )
    return table.reset_index(drop=True)


def curve_limits(curves: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return the axes that hold every point of the curves and every target."""
    recalls = recall_limits([*curves["min_recall"], *curves["target"]])
    return {"size": limits_around(curves["set_size"], SIZE_SPAN), "recall": recalls}


def _quartiles(results: pd.DataFrame, name: str) -> list[str]:
    pairs = zip(results[f"{name}_q25"], results[f"{name}_q75"], strict=True)
    return [f"{low:.3f} – {high:.3f}" for low, high in pairs]


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


def left_out_in_words(results: CheckedResults, dataset: str) -> str:
    """Return how many methods have no curve since they have one target recall, or an empty text."""
    own = of_dataset(results, dataset)
    n_targets = own[own["split"] == "unseen"].groupby("method")["target_recall"].nunique()
    count = int((n_targets == 1).sum())
    if not count:
        return ""
    return f"{'One method' if count == 1 else f'{count} methods'} with a single target recall left out."
