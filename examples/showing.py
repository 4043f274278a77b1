"""What the examples share: the options they take, what they print and the picture they can draw."""

import argparse
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import pandas as pd

from domaincover import to_label_lists


class Table(NamedTuple):
    """Features, label and domain of every row."""

    X: Any  # a table, or images
    y: pd.Series
    domains: pd.Series


def main(
    title: str,
    load: Callable[..., Table],
    judge: Callable[[Table, int], Any],
    columns: list[str],
    data: str | None = None,
    label: str | None = None,
) -> None:
    """Judge SET-COVER on a table, print what was found, and draw it if asked; `columns` go beside the example sets.

    Where the data is a file that the user has, `data` says which. The recalls of `label`, if there is one, are printed
    for all unseen domains.
    """
    parser = argparse.ArgumentParser(description=title)
    if data is not None:
        parser.add_argument("data", type=Path, help=data)
    parser.add_argument("--seed", type=int, default=0, help="which domains are held out, and how training starts")
    parser.add_argument("--figure", type=Path, help="draw the unseen domains here (.png, .svg or .pdf)")
    options = parser.parse_args()
    table = load() if data is None else load(options.data)
    result = judge(table, options.seed)
    print(f"{title}\n\n{result}")
    worst = result.unseen["model"].to_frame().nsmallest(5, "min_recall")[["n", "min_recall", "set_size"]]
    print(f"\nThe five unseen domains with the lowest min recall\n{worst.round(3).to_string()}\n")
    if label is not None:
        print(f"Recall of {label} by unseen domain\n{recalls_of(label, result.methods)}\n")
    print(f"Some rows of unseen domains\n{some_sets(result, table, columns)}")
    if options.figure:
        result.plot(title).save(options.figure, scale_factor=2)


def recalls_of(label: str, reports: dict[str, Any]) -> str:
    """Return the recalls of a label by method, a line each, of the domains that have enough of it to count."""
    recalls = {name: report.recall[:, report.label_names.index(label)] for name, report in reports.items()}
    return "\n".join(
        f"{name:9}" + "".join(f"  {recall:.3f}" for recall in of_label if recall == recall)
        for name, of_label in recalls.items()
    )


def some_sets(result: Any, table: Table, columns: list[str]) -> str:
    """Return eight rows of unseen domains, drawn at random, with their label and the set that the model gives."""
    is_unseen = table.domains.isin(result.unseen["model"].domain_names)
    drawn = table.y[is_unseen].sample(8, random_state=0).index
    at = table.y.index.get_indexer(drawn)
    rows = table.X.iloc[at] if isinstance(table.X, pd.DataFrame) else table.X[at]
    sets = to_label_lists(result.model.predict_set(rows), result.model.classes_)
    texts = [", ".join(map(str, labels)) or "(none)" for labels in sets]
    beside = rows[columns] if columns else table.domains[drawn].to_frame()
    beside = beside.map(lambda value: shorten(value, 50) if isinstance(value, str) else value)
    shown = beside.assign(truth=table.y, set=[text.ljust(max(map(len, texts))) for text in texts])
    return "\n".join(line.rstrip() for line in shown.to_string(index=False, na_rep="–").splitlines())
