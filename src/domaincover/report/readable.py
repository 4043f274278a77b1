"""Formatted rows of results: names, rounding and units, the same in every table."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from domaincover.report.ranking import DAGGER, is_best, is_degenerate
from domaincover.report.style import MethodStyle, dataset_label, method_styles

ABSENT = "–"
MOST_LABELS_IN_TOOLTIP = 12
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


def with_spread(value: float, spread: float = math.nan, decimals: int = 3, unit: str = "") -> str:
    """Return a number with what stands after ±, if that is known, and its unit.

    >>> with_spread(0.9431, 0.0123), with_spread(1.25)
    ('0.943 ± 0.012', '1.250')
    """
    if math.isnan(value):
        return ABSENT
    plus_minus = "" if math.isnan(spread) else f" ± {spread:.{decimals}f}"
    return f"{value:.{decimals}f}{plus_minus}{unit}"


def size_of(size: float, spread: float, n_labels: float, is_degenerate: bool = False) -> str:
    """Return a set size with the number of labels, marked if the sets are hardly better than sets drawn by lot.

    >>> size_of(1.234, 0.01, 2), size_of(1.96, math.nan, 2, is_degenerate=True)
    ('1.23 ± 0.01 of 2', '1.96 of 2 †')
    """
    return f"{with_spread(size, spread, decimals=2)} of {n_labels:.0f}{f' {DAGGER}' if is_degenerate else ''}"


def percent(share: float, spread: float = math.nan) -> str:
    """Return a share in percent with what stands after ±, if that is known.

    >>> percent(0.896, 0.1), percent(0.5)
    ('90 ± 10 %', '50 %')
    """
    return with_spread(100 * share, 100 * spread, decimals=0, unit=" %")


def seconds(duration: float) -> str:
    """Return seconds, without decimals for long times.

    >>> seconds(3.14), seconds(1234.5)
    ('3.1', '1234')
    """
    if math.isnan(duration):
        return ABSENT
    return f"{duration:.1f}" if duration < 100 else f"{duration:.0f}"


def sentence(text: str) -> str:
    """Return a note as a sentence.

    >>> sentence("one seed")
    'One seed.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def printable(name: str) -> str:
    r"""Return a name without line breaks and terminal control codes.

    >>> printable("a\nb\x1b[31m")
    'a b [31m'
    """
    return "".join(char if char.isprintable() else " " for char in name)
