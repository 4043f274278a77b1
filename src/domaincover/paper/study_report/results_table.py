"""The two tables behind every report: their order, which method comes first, and their rows for readers."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from domaincover.errors import InputError
from domaincover.paper.study_report.style import (
    DATASET_ORDER,
    KNOWN_METHODS,
    SINGLE_LABEL_METHODS,
    SPLIT_LABELS,
    dataset_label,
    method_styles,
)
from domaincover.paper.study_report.text_tables import Column
from domaincover.prediction_sets import is_hardly_better_than_lot
from domaincover.report.readable import ABSENT, percent, printable, sentence, with_spread

Row = Mapping[Any, Any]

USUAL_TARGET = 0.9
NOTE = "note"  # what a reader must know of a row wherever it stands, such as that it is of a quick run
COLUMNS = {
    "dataset": Column("Data set", is_text=True),
    "method": Column("Method", is_text=True),
    "target": Column("Target", is_text=True),
    "split": Column("Split", is_text=True),
    "seeds": Column("Seeds"),
    "min_recall": Column("Median min recall", "Median\nmin recall"),
    "set_size": Column("Median set size", "Median\nset size"),
    "share": Column("Share at target", "Share at\ntarget"),
    "noise": Column("Share by chance alone", "Chance\nalone", turn=2),
    "p10": Column("10th percentile", "10th\nperc.", turn=3),
    "worst": Column("Worst", turn=4),
    "seconds": Column("Train seconds", "Train\n(s)", turn=1),
}
DAGGER = "†"
SAME_SHARE = 0.05  # of domains: about one of the 25 that a seed of the paper has
RULE = "Share in bold: the method with the smallest sets among those within 5 points of the highest share at target"
DEGENERATE = (
    f"{DAGGER} Degenerate and not ranked: less than a tenth smaller than sets drawn by lot with the same recall, since "
    "answering with every label reaches any target"
)


def in_order(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results by data set, target, split and method."""
    if results.empty:
        raise InputError("results is empty: there is nothing to report.")
    order = ["dataset", "target_recall", "split", "method"]
    return results.sort_values(order, key=rank, kind="stable", ignore_index=True)


def rank(column: pd.Series) -> pd.Series:
    """Return a sort key: known data sets, methods and splits in a fixed order, others in order of appearance."""
    if column.name == "target_recall":
        return column
    fixed = {"dataset": DATASET_ORDER, "method": list(method_styles(column)), "split": list(SPLIT_LABELS)}
    order = dict.fromkeys([*fixed.get(str(column.name), []), *column])
    return column.map({value: place for place, value in enumerate(order)})


def notes_of(results: pd.DataFrame) -> list[str]:
    """Return what must be said wherever these rows stand, each once."""
    return [str(note) for note in dict.fromkeys(results[NOTE]) if note]


def sentences_of_notes(results: pd.DataFrame) -> list[str]:
    """Return the notes as sentences."""
    return list(map(sentence, notes_of(results)))


def of_dataset(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return the rows of one data set."""
    return table[table["dataset"] == dataset]


def of_experiment(table: pd.DataFrame, dataset: str, target_recall: float) -> pd.DataFrame:
    """Return the rows of one data set and target recall."""
    return table[(table["dataset"] == dataset) & (table["target_recall"] == target_recall)]


def unseen_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of unseen domains."""
    return results[results["split"] == "unseen"]


def targets_of(results: pd.DataFrame, dataset: str) -> list[float]:
    """Return the target recalls of a data set, lowest first."""
    return sorted(map(float, set(of_dataset(results, dataset)["target_recall"])))


def main_target(results: pd.DataFrame, dataset: str) -> float:
    """Return a data set's main target recall: 0.9, as in the paper, or else the highest."""
    targets = targets_of(results, dataset)
    return USUAL_TARGET if USUAL_TARGET in targets else targets[-1]


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
    rivals = [results[column] for column in ("dataset", "target_recall", "split")]
    highest = share.groupby(rivals).transform("max")
    is_equal = share >= highest - SAME_SHARE - 1e-9  # means over seeds round
    size = results["set_size"].where(is_equal)
    return size == size.groupby(rivals).transform("min")


def rules_in_words(results: pd.DataFrame, *, has_bold: bool = True) -> list[str]:
    """Return what bold means, if it shows, and what the mark of degenerate sets means, if there are any."""
    return [*([RULE] if has_bold else []), *([DEGENERATE] if is_degenerate(results).any() else [])]


def readable_rows(results: pd.DataFrame) -> list[Row]:
    """Return the rows of results for readers, by `COLUMNS`; the column of the share is bold where a method is best."""
    styles = method_styles(results["method"])
    marks = zip(is_best(results), is_degenerate(results), strict=True)
    return [
        {
            "dataset": printable(dataset_label(row["dataset"])),
            "method": printable(styles[row["method"]].label),
            "target": f"{row['target_recall']:g}",
            "split": printable(row["split"]),
            "seeds": str(row["n_seeds"]),
            "domains": str(row["n_domains"]),
            "min_recall": with_spread(row["min_recall"], row["min_recall_ci"]),
            "set_size": size_of(row["set_size"], row["set_size_ci"], row["n_labels"], bool(no_better)),
            "share": percent(row["share_at_target"], row["share_at_target_ci"]),
            "noise": percent(row["share_by_noise"]),
            "p10": with_spread(row["min_recall_p10"]),
            "worst": with_spread(row["min_recall_worst"]),
            "seconds": seconds(row["train_seconds"]),
            "bold": "share" if best else None,
            "style": styles[row["method"]],
        }
        for row, (best, no_better) in zip(results.to_dict("records"), marks, strict=True)
    ]


def columns_of(rows: Iterable[Row]) -> dict[str, Column]:
    """Return the columns of a table of these rows; the number of seeds is one only if it differs."""
    same = len({row["seeds"] for row in rows}) == 1
    return {name: column for name, column in COLUMNS.items() if not (same and name == "seeds")}


def seeds_and_domains(rows: Iterable[Row]) -> str:
    """Return what these numbers are means of, as the end of a sentence."""
    shown = list(rows)
    seeds, domains = ({int(row[name]) for row in shown} for name in ("seeds", "domains"))
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
