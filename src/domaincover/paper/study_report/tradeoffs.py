"""Tables of the trade-off between set size and recall: by target recall, and as the share at target."""

from typing import NamedTuple

import pandas as pd

from domaincover.errors import InputError
from domaincover.paper.study_report.comparisons import ComparedMethods, share_table
from domaincover.paper.study_report.crosses import Limits, limits_around
from domaincover.paper.study_report.label_places import Canvas, places_beside_points
from domaincover.paper.study_report.results_table import CheckedResults, targets_of
from domaincover.report.readable import percent, with_spread
from domaincover.report.style import MethodStyle, method_styles

DECIMALS = 4
CURVE_SIZE = (125, 100, 8)  # of a small plot and its text, for which names are placed: in a larger one they are freer
SAME_PLACE = 3  # decimals to which two points must agree to share one name


class Curves(NamedTuple):
    """Points of min recall and set size by target and method; methods left out; axis limits."""

    dataset: str
    split: str
    points: pd.DataFrame
    methods: list[MethodStyle]
    left_out: list[MethodStyle]
    targets: list[float]
    limits: Limits


def has_curves(results: CheckedResults, dataset: str, split: str = "unseen") -> bool:
    """Return whether a method of the data set has several target recalls."""
    rows = results[(results["dataset"] == dataset) & (results["split"] == split)]
    return bool((rows.groupby("method")["target_recall"].nunique() > 1).any())


def curves_of(results: CheckedResults, dataset: str, split: str = "unseen") -> Curves:
    """Return a curve for every method that has more than one target recall; the others are left out."""
    styles = method_styles(results["method"])
    rows = results[(results["dataset"] == dataset) & (results["split"] == split)]
    if rows.empty:
        raise InputError(f"results has no row of data set {dataset!r} and split {split!r}.")
    n_targets = rows.groupby("method")["target_recall"].nunique()
    several = [method for method in styles if n_targets.get(method, 0) > 1]
    if not several:
        raise InputError(f"data set {dataset!r} has no method with several target recalls, so there is no curve.")
    rows = rows[rows["method"].isin(several)].sort_values("target_recall", kind="stable")
    rows = pd.concat([rows[rows["method"] == method] for method in several], ignore_index=True)
    points = pd.DataFrame(
        {
            "label": [styles[method].label for method in rows["method"]],
            "ours": [styles[method].ours for method in rows["method"]],
            "target": rows["target_recall"],
            "set_size": rows["set_size"].astype(float).round(DECIMALS),
            "min_recall": rows["min_recall"].astype(float).round(DECIMALS),
            "share": [percent(share) for share in rows["share_at_target"]],
        }
    )
    targets = targets_of(results, dataset)
    points["name"] = _names(points)
    limits = limits_around(points["set_size"], [*points["min_recall"], *points["target"]])
    return Curves(
        dataset=dataset,
        split=split,
        points=points.assign(place=places_beside_points(points, Canvas(*CURVE_SIZE, limits))),
        methods=[styles[method] for method in several],
        left_out=[styles[method] for method in styles if n_targets.get(method, 0) == 1],
        targets=targets,
        limits=limits,
    )


def coverage_table(compared: ComparedMethods) -> pd.DataFrame:
    """Return each method's share at target and set size, and one standard deviation over seeds around both."""
    rows = compared.rows
    size = rows["set_size"].astype(float)
    spread = rows["set_size_std"].astype(float).where(rows["n_seeds"] > 1)
    return share_table(compared).assign(
        set_size=size.round(DECIMALS),
        size_low=(size - spread).round(DECIMALS),
        size_high=(size + spread).round(DECIMALS),
        size_text=[with_spread(*pair) for pair in zip(size, spread, strict=True)],
    )


def coverage_limits(table: pd.DataFrame) -> Limits:
    """Return axis limits that hold every method with its spread."""
    sizes = pd.concat([table[name] for name in ("set_size", "size_low", "size_high")])
    return limits_around(sizes, pd.concat([table[name] for name in ("share", "low", "high")]))


def _names(points: pd.DataFrame) -> list[str]:
    """Name each point by its target; coinciding points of a method share one name, "all" if they are of all targets."""
    places = points.assign(x=points["set_size"].round(SAME_PLACE), y=points["min_recall"].round(SAME_PLACE))
    groups = places.groupby(["label", "x", "y"], dropna=False)["target"]
    n_targets = points["target"].nunique()

    def joined_name(targets: pd.Series) -> str:
        return "all" if len(targets) == n_targets > 1 else ", ".join(f"{target:g}" for target in targets)

    joined = groups.transform(joined_name)
    first = ~places.duplicated(["label", "x", "y"])
    return [name if shown else "" for name, shown in zip(joined, first, strict=True)]
