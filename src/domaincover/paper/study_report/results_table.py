"""The two tables behind every report, checked once at the start.

Their types mark checked tables, which are not checked again.
"""

from collections.abc import Sequence
from typing import NewType, TypeVar

import pandas as pd

from domaincover.errors import InputError
from domaincover.paper.study_report.style import DATASET_ORDER, SPLIT_LABELS, method_styles
from domaincover.report.readable import sentence

CheckedResults = NewType("CheckedResults", pd.DataFrame)
CheckedDomains = NewType("CheckedDomains", pd.DataFrame)
AnyTable = TypeVar("AnyTable", bound=pd.DataFrame)

RESULT_COLUMNS = (
    *("dataset", "method", "target_recall", "split", "n_seeds", "n_domains"),
    *("min_recall", "min_recall_std", "min_recall_ci", "set_size", "set_size_std", "set_size_ci"),
    *("share_at_target", "share_at_target_std", "share_at_target_ci"),
    *("train_seconds", "min_recall_q25", "min_recall_q75", "set_size_q25", "set_size_q75"),
    *("min_recall_p10", "min_recall_worst", "share_by_noise", "set_size_by_lot", "n_labels", "note"),
)
DOMAIN_COLUMNS = (
    *("dataset", "method", "target_recall", "split", "seed", "domain", "n"),
    *("min_recall", "set_size", "empty_rate", "single_rate", "n_labels", "recall"),
)
USUAL_TARGET = 0.9
TEXT_COLUMNS = ("dataset", "method", "split")
NOTE = "note"  # what a reader must know of a row wherever it stands, such as that it is of a quick run


def checked_results(results: pd.DataFrame) -> CheckedResults:
    """Return the columns of a results table in report order: data set, target, split, method."""
    checked = _checked(results, RESULT_COLUMNS, "results")
    order = ["dataset", "target_recall", "split", "method"]
    return CheckedResults(checked.sort_values(order, key=rank, kind="stable", ignore_index=True))


def checked_domains(domains: pd.DataFrame, results: CheckedResults) -> CheckedDomains:
    """Return the table of single domains, which must have every data set of the results."""
    checked = _checked(domains, DOMAIN_COLUMNS, "domains")
    unknown = sorted(set(results["dataset"]) - set(checked["dataset"]))
    if unknown:
        raise InputError(f"domains has no row of data set {unknown[0]!r}, which is in results.")
    return CheckedDomains(checked.assign(domain=checked["domain"].astype(str)))


def notes_of(results: pd.DataFrame) -> list[str]:
    """Return what must be said wherever these rows stand, each once."""
    return [str(note) for note in dict.fromkeys(results[NOTE]) if note]


def sentences_of_notes(results: pd.DataFrame) -> list[str]:
    """Return the notes as sentences."""
    return [sentence(note) for note in notes_of(results)]


def of_dataset(table: AnyTable, dataset: str) -> AnyTable:
    """Return the rows of one data set; those of a checked table are checked."""
    return table[table["dataset"] == dataset]


def experiments(results: CheckedResults) -> list[tuple[str, float]]:
    """Return every pair of data set and target recall, in the order of the table."""
    pairs = results[["dataset", "target_recall"]].drop_duplicates()
    return [(str(dataset), float(target)) for dataset, target in pairs.itertuples(index=False)]


def of_experiment(table: AnyTable, dataset: str, target_recall: float) -> AnyTable:
    """Return the rows of one data set and target recall."""
    return table[(table["dataset"] == dataset) & (table["target_recall"] == target_recall)]


def targets_of(results: CheckedResults, dataset: str) -> list[float]:
    """Return the target recalls of a data set, lowest first."""
    return sorted({target for name, target in experiments(results) if name == dataset})


def main_target(results: CheckedResults, dataset: str) -> float:
    """Return a data set's main target recall: 0.9, as in the paper, or else the highest."""
    targets = targets_of(results, dataset)
    return USUAL_TARGET if USUAL_TARGET in targets else targets[-1]


def _checked(table: pd.DataFrame, columns: Sequence[str], name: str) -> pd.DataFrame:
    if table.empty:
        raise InputError(f"{name} is empty: there is nothing to report.")
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(f"{name} lacks the columns {', '.join(missing)}.")
    return (
        table.loc[:, list(columns)]
        .astype(dict.fromkeys((*TEXT_COLUMNS, *({NOTE} & set(columns))), "str"))
        .reset_index(drop=True)
    )


def rank(column: pd.Series) -> pd.Series:
    """Return a sort key: known data sets, methods and splits in a fixed order, others in order of appearance."""
    if column.name == "target_recall":
        return column
    fixed = {"dataset": DATASET_ORDER, "method": list(method_styles(column)), "split": list(SPLIT_LABELS)}
    order = dict.fromkeys([*fixed.get(str(column.name), []), *column])
    return column.map({value: place for place, value in enumerate(order)})
