"""Tables behind the bars of shares at target and the boxes of min recalls: a row per method."""

from typing import NamedTuple

import pandas as pd

from domaincover.errors import InputError
from domaincover.paper.study_report.crosses import recall_limits
from domaincover.paper.study_report.results_table import CheckedDomains, CheckedResults, chosen_target, of_experiment
from domaincover.report.readable import percent
from domaincover.report.style import MethodStyle, method_styles, splits_in_order

REACH = 1.5  # whiskers as in Tukey (1977): the furthest values within this many box lengths of the box
DECIMALS = 4


class ComparedMethods(NamedTuple):
    """The results of one data set, target recall and split: a row per method, in the order of methods."""

    dataset: str
    target_recall: float
    split: str
    rows: pd.DataFrame
    methods: list[MethodStyle]

    @property
    def n_seeds(self) -> int:
        """The largest number of seeds of any method."""
        return int(self.rows["n_seeds"].max())


class RecallBoxes(NamedTuple):
    """Boxes of min recall, a row per method; the single domains beyond their whiskers; the part of the axis drawn."""

    boxes: pd.DataFrame
    outliers: pd.DataFrame
    limits: tuple[float, float]


def compared_methods(
    results: CheckedResults, dataset: str, target_recall: float | None = None, split: str = "unseen"
) -> ComparedMethods:
    """Return the rows to compare; the target is optional if there is only one."""
    target_recall = chosen_target(results, dataset, target_recall)
    styles = method_styles(results["method"])
    rows: pd.DataFrame = of_experiment(results, dataset, target_recall)
    if split not in set(rows["split"]):
        present = ", ".join(splits_in_order(rows["split"]))
        raise InputError(f"data set {dataset!r} has no split {split!r}, only {present}.")
    rows = rows[rows["split"] == split]
    methods = [styles[method] for method in rows["method"]]
    rows = rows.assign(label=[style.label for style in methods], ours=[style.ours for style in methods])
    rows = rows.reset_index(drop=True)
    return ComparedMethods(dataset, target_recall, split, rows, methods)


def share_table(compared: ComparedMethods) -> pd.DataFrame:
    """Return each method's share at target and one standard deviation over seeds on either side, within 0 and 1."""
    rows = compared.rows
    share = rows["share_at_target"].astype(float)
    spread = rows["share_at_target_std"].astype(float).where(rows["n_seeds"] > 1)
    return pd.DataFrame(
        {
            "label": rows["label"],
            "ours": rows["ours"],
            "share": share.round(DECIMALS),
            "low": (share - spread).clip(0, 1).round(DECIMALS),
            "high": (share + spread).clip(0, 1).round(DECIMALS),
            "end": (share + spread.fillna(0)).clip(0, 1).fillna(0).round(DECIMALS),
            "text": [percent(*pair) for pair in zip(share, spread, strict=True)],
            "n_domains": rows["n_domains"],
            "n_seeds": rows["n_seeds"],
        }
    )


def recall_boxes(compared: ComparedMethods, domains: CheckedDomains) -> RecallBoxes:
    """Return quartiles, whiskers and outliers of min recall over all domains and seeds; NaN is left out."""
    labels = dict(zip(compared.rows["method"], compared.rows["label"], strict=True))
    single: pd.DataFrame = of_experiment(domains, compared.dataset, compared.target_recall)
    single = single[(single["split"] == compared.split) & single["method"].isin(labels) & single["min_recall"].notna()]
    single = single.assign(label=single["method"].map(labels), min_recall=single["min_recall"].astype(float))
    boxes = _quartiles(single).reindex(compared.rows["label"])
    reach = REACH * (boxes["q75"] - boxes["q25"])
    fences = pd.DataFrame({"low": boxes["q25"] - reach, "high": boxes["q75"] + reach}).reindex(single["label"])
    inside = single["min_recall"].between(fences["low"].to_numpy(), fences["high"].to_numpy())
    furthest = single[inside].groupby("label")["min_recall"].agg(["min", "max"])
    # An interpolated quartile may lie beyond every value that is not an outlier.
    boxes["low"], boxes["high"] = boxes["q25"].clip(upper=furthest["min"]), boxes["q75"].clip(lower=furthest["max"])
    outliers = single.loc[~inside, ["label", "domain", "seed", "n", "min_recall"]]
    return RecallBoxes(
        boxes.round(DECIMALS).reset_index(),
        outliers.round({"min_recall": DECIMALS}).reset_index(drop=True),
        recall_limits(single["min_recall"], compared.target_recall),
    )


def _quartiles(single: pd.DataFrame) -> pd.DataFrame:
    by_label = single.groupby("label")["min_recall"]
    return pd.DataFrame(
        {
            "q25": by_label.quantile(0.25),
            "median": by_label.median(),
            "q75": by_label.quantile(0.75),
            "n": by_label.size(),
        }
    )
