"""Rows of results for readers: which method comes first, names, rounding and units, the same in every table."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from domaincover.paper.study_report.style import (
    KNOWN_METHODS,
    SINGLE_LABEL_METHODS,
    MethodStyle,
    dataset_label,
    method_styles,
)
from domaincover.prediction_sets import is_hardly_better_than_lot
from domaincover.report.readable import ABSENT, percent, printable, with_spread

HEADS = {
    "dataset": "Data set",
    "method": "Method",
    "target": "Target",
    "split": "Split",
    "seeds": "Seeds",
    "min_recall": "Median min recall",
    "set_size": "Median set size",
    "share": "Share at target",
    "noise": "Share by chance alone",
    "p10": "10th percentile",
    "worst": "Worst",
    "seconds": "Train seconds",
}
TEXT_HEADS = ("dataset", "method", "target", "split")
RIVALS = ["dataset", "target_recall", "split"]
DAGGER = "†"
SAME_SHARE = 0.05  # of domains: about one of the 25 that a seed of the paper has
RULE = "Share in bold: the method with the smallest sets among those within 5 points of the highest share at target"
DEGENERATE = (
    f"{DAGGER} Degenerate and not ranked: less than a tenth smaller than sets drawn by lot with the same recall, since "
    "answering with every label reaches any target"
)


class ReadableRow(NamedTuple):
    """One row of results; `best` marks the method that comes first."""

    dataset: str
    method: str
    target: str
    split: str
    seeds: str
    domains: str
    min_recall: str
    set_size: str
    share: str
    noise: str
    p10: str
    worst: str
    seconds: str
    best: bool
    style: MethodStyle


def readable_rows(results: pd.DataFrame) -> list[ReadableRow]:
    """Return the rows of a checked results table for readers."""
    styles = method_styles(results["method"])
    return [
        ReadableRow(
            dataset=printable(dataset_label(row["dataset"])),
            method=printable(styles[row["method"]].label),
            target=f"{row['target_recall']:g}",
            split=printable(row["split"]),
            seeds=str(row["n_seeds"]),
            domains=str(row["n_domains"]),
            min_recall=with_spread(row["min_recall"], row["min_recall_ci"]),
            set_size=size_of(row["set_size"], row["set_size_ci"], row["n_labels"], bool(no_better)),
            share=percent(row["share_at_target"], row["share_at_target_ci"]),
            noise=percent(row["share_by_noise"]),
            p10=with_spread(row["min_recall_p10"]),
            worst=with_spread(row["min_recall_worst"]),
            seconds=seconds(row["train_seconds"]),
            best=bool(best),
            style=styles[row["method"]],
        )
        for row, best, no_better in zip(
            results.to_dict("records"), is_best(results), is_degenerate(results), strict=True
        )
    ]


def heads_of(rows: Iterable[ReadableRow]) -> dict[str, str]:
    """Return the heads of a table of these rows; the number of seeds is a column only if it differs."""
    same = len({row.seeds for row in rows}) == 1
    return {name: head for name, head in HEADS.items() if not (same and name == "seeds")}


def seeds_and_domains(rows: Iterable[ReadableRow]) -> str:
    """Return what these numbers are means of, as the end of a sentence."""
    shown = list(rows)
    seeds, domains = ({int(getattr(row, name)) for row in shown} for name in ("seeds", "domains"))
    each = str(domains.pop()) if len(domains) == 1 else f"{min(domains)} to {max(domains)}"
    each += " domain" if each == "1" else " domains"
    if seeds == {1}:
        return f"every number is of one seed with {each}, so the spread over seeds is unknown"
    over = f"{seeds.pop()} seeds" if len(seeds) == 1 else "seeds"
    return f"every number is the mean over {over} of {each} each, ± half the 95 % interval of that mean"


def size_of(size: float, spread: float, n_labels: float, is_degenerate: bool = False) -> str:
    """Return a set size with the number of labels, marked if the sets are hardly better than sets drawn by lot.

    >>> size_of(1.234, 0.01, 2), size_of(1.96, math.nan, 2, is_degenerate=True)
    ('1.23 ± 0.01 of 2', '1.96 of 2 †')
    """
    return f"{with_spread(size, spread, decimals=2)} of {n_labels:.0f}{f' {DAGGER}' if is_degenerate else ''}"


def seconds(duration: float) -> str:
    """Return seconds, without decimals for long times.

    >>> seconds(3.14), seconds(1234.5)
    ('3.1', '1234')
    """
    if math.isnan(duration):
        return ABSENT
    return f"{duration:.1f}" if duration < 100 else f"{duration:.0f}"


def answers_with_one_label(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether its method is single-label: known methods by name, others by their sizes."""
    one_label_always = (results[["set_size_q25", "set_size", "set_size_q75"]] == 1).all(axis=1)
    return one_label_always.mask(results["method"].isin(KNOWN_METHODS), results["method"].isin(SINGLE_LABEL_METHODS))


def is_degenerate(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether its sets are hardly better than sets drawn by lot; single labels never are."""
    by_lot = is_hardly_better_than_lot(*(results[name].to_numpy() for name in ("set_size", "set_size_by_lot")))
    return pd.Series(by_lot, index=results.index) & ~answers_with_one_label(results)


def is_best(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether it comes first within its data set, target and split."""
    share = results["share_at_target"].mask(is_degenerate(results))
    rivals = [results[column] for column in RIVALS]
    highest = share.groupby(rivals).transform("max")
    is_equal = share >= highest - SAME_SHARE - 1e-9  # means over seeds round
    size = results["set_size"].where(is_equal)
    return size == size.groupby(rivals).transform("min")


def rules_in_words(results: pd.DataFrame, *, has_bold: bool = True) -> list[str]:
    """Return what bold means, if it shows, and what the mark of degenerate sets means, if there are any."""
    return [*([RULE] if has_bold else []), *([DEGENERATE] if is_degenerate(results).any() else [])]
