"""Tables behind a cross-plot: crosses, single domains, and axis limits."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from domaincover.paper.study_report.results_table import (
    CheckedDomains,
    CheckedResults,
    chosen_target,
    of_dataset,
    of_experiment,
)
from domaincover.report.readable import MOST_LABELS_IN_TOOLTIP, percent
from domaincover.report.style import MethodStyle, method_styles

LEAST_SPAN = {"set_size": 0.1, "min_recall": 0.05}
ROOM = 0.08


class Limits(NamedTuple):
    """The axis limits."""

    size: tuple[float, float]
    recall: tuple[float, float]


class CrossPlotTables(NamedTuple):
    """Data of the cross-plots of one data set and target recall.

    `near` holds the crosses of every split, so that splits compare.
    """

    dataset: str
    target_recall: float
    crosses: pd.DataFrame
    methods: list[MethodStyle]
    n_labels: int
    near: Limits


class SingleDomains(NamedTuple):
    """The single domains of the cross-plots of one data set and target recall; `far` holds them and the crosses."""

    points: pd.DataFrame
    far: Limits


def cross_plot_data(results: CheckedResults, split: str | None = None) -> pd.DataFrame:
    """Return one row per cross: medians, quartiles and the method's name; of all splits by default."""
    styles = method_styles(results["method"])
    crosses = results.assign(
        label=[styles[method].label for method in results["method"]],
        ours=[styles[method].ours for method in results["method"]],
        set_size_quartiles=_quartiles(results, "set_size"),
        min_recall_quartiles=_quartiles(results, "min_recall"),
        share=[percent(share) for share in results["share_at_target"]],
    )
    columns = (
        *("dataset", "target_recall", "split", "method", "label", "ours", "n_domains", "n_seeds"),
        *("set_size", "set_size_q25", "set_size_q75", "set_size_quartiles"),
        *("min_recall", "min_recall_q25", "min_recall_q75", "min_recall_quartiles", "share"),
    )
    shown = crosses if split is None else crosses[crosses["split"] == split]
    return shown[list(columns)].reset_index(drop=True)


def cross_plot_tables(results: CheckedResults, dataset: str, target_recall: float | None = None) -> CrossPlotTables:
    """Return the data of a data set's cross-plots; the target is optional if there is only one."""
    target_recall = chosen_target(results, dataset, target_recall)
    styles = method_styles(results["method"])
    crosses = of_experiment(cross_plot_data(results), dataset, target_recall)
    return CrossPlotTables(
        dataset=dataset,
        target_recall=target_recall,
        crosses=crosses,
        methods=[style for method, style in styles.items() if method in set(crosses["method"])],
        n_labels=int(of_dataset(results, dataset)["n_labels"].max()),
        near=cross_limits(crosses, target_recall),
    )


def single_domains(tables: CrossPlotTables, domains: CheckedDomains) -> SingleDomains:
    """Return the domains behind the crosses, one by one."""
    own = of_experiment(domains, tables.dataset, tables.target_recall)
    points = _points(own[own["method"].isin(tables.crosses["method"])], method_styles(tables.crosses["method"]))
    return SingleDomains(points, _around(tables.near, _limits(points, (), tables.target_recall)))


def recalls_in_words(recall: Mapping[str, float | None]) -> str:
    r"""Return each label's recall, lowest first; labels that are absent from the domain come last.

    >>> recalls_in_words({"cat": 0.95, "dog": float("nan"), "owl": 0.9})
    'owl: 0.900\ncat: 0.950\ndog: absent'
    """
    measured = {label: value for label, value in recall.items() if not pd.isna(value)}
    lines = [f"{label}: {value:.3f}" for label, value in sorted(measured.items(), key=lambda item: item[1])]
    lines += [f"{label}: absent" for label in recall if label not in measured]
    if len(lines) > MOST_LABELS_IN_TOOLTIP:
        rest = len(lines) - MOST_LABELS_IN_TOOLTIP
        lines[MOST_LABELS_IN_TOOLTIP:] = [f"and {rest} more labels"]
    return "\n".join(lines)


def random_line(n_labels: int, limits: Limits) -> pd.DataFrame:
    """Return the visible ends of the line of random sets, recall = set size / labels, or no rows."""
    first = max(limits.size[0], n_labels * limits.recall[0])
    last = min(limits.size[1], n_labels * limits.recall[1])
    ends = [first, last] if first < last else []
    return pd.DataFrame({"set_size": ends, "min_recall": [size / n_labels for size in ends]}, dtype=float)


def note_on_random_sets(n_labels: int, near: Limits) -> str:
    """Return where random sets would lie if their line is outside the plot, else an empty text."""
    if not random_line(n_labels, near).empty:
        return ""
    low, high = (min(size / n_labels, 1.0) for size in near.size)
    return f"Random sets of these sizes would have a recall of {low:.2f} to {high:.2f}, outside this plot."


def recall_limits(recalls: Iterable[float], target_recall: float) -> tuple[float, float]:
    """Return axis limits for these recalls and the target, with a margin, within 0 and 1."""
    return limits_around([], [*recalls, target_recall]).recall


def cross_limits(crosses: pd.DataFrame, target_recall: float) -> Limits:
    """Return axis limits for these crosses and the target, with a margin."""
    return _limits(crosses, ("q25", "q75"), target_recall)


def limits_around(sizes: Iterable[float], recalls: Iterable[float]) -> Limits:
    """Return axis limits for these sizes and recalls, with a margin; recalls within 0 and 1."""
    known = [[float(value) for value in values if not pd.isna(value)] for values in (sizes, recalls)]
    low, high = _with_room(known[1] or [1.0], LEAST_SPAN["min_recall"])
    return Limits(_with_room(known[0] or [1.0], LEAST_SPAN["set_size"]), (max(low, 0.0), min(high, 1.0)))


def _points(domains: pd.DataFrame, styles: Mapping[str, MethodStyle]) -> pd.DataFrame:
    """Return one row per domain, rounded as in tooltips."""
    return pd.DataFrame(
        {
            "label": [styles[method].label for method in domains["method"]],
            "split": domains["split"],
            "domain": domains["domain"],
            "seed": domains["seed"],
            "n": domains["n"],
            "set_size": domains["set_size"].astype(float).round(4),
            "min_recall": domains["min_recall"].astype(float).round(4),
            "recalls": domains["recall"].map(recalls_in_words),
        }
    ).reset_index(drop=True)


def _quartiles(results: pd.DataFrame, name: str) -> list[str]:
    pairs = zip(results[f"{name}_q25"], results[f"{name}_q75"], strict=True)
    return [f"{low:.3f} – {high:.3f}" for low, high in pairs]


def _limits(table: pd.DataFrame, quartiles: Iterable[str], target_recall: float) -> Limits:
    sizes, recalls = (
        [value for end in ("", *(f"_{q}" for q in quartiles)) for value in table[name + end]]
        for name in ("set_size", "min_recall")
    )
    return limits_around(sizes, [*recalls, target_recall])


def _with_room(values: list[float], least_span: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = max(ROOM * (high - low), (least_span - (high - low)) / 2, ROOM * least_span)
    return max(round(low - room, 3), 0.0), round(high + room, 3)


def _around(a: Limits, b: Limits) -> Limits:
    return Limits(
        *((min(one[0], other[0]), max(one[1], other[1])) for one, other in zip(a, b, strict=True)),
    )
