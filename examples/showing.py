"""What the examples share: the options they take, what they print and the picture they can draw."""

import argparse
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import pandas as pd

from domaincover import to_label_lists
from domaincover.report.domain_chart import domain_figure
from domaincover.report.domain_table import domain_table, summary_table

WIDTH = 100


class Table(NamedTuple):
    """Features, label and domain of every row."""

    X: pd.DataFrame
    y: Any
    domains: pd.Series


def main(title: str, load: Callable[[], Table], judge: Callable[[Table, int], Any], columns: list[str]) -> None:
    """Judge SET-COVER on a table, print what was found, and draw it if asked; `columns` go beside the example sets."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--seed", type=int, default=0, help="which domains are held out, and how training starts")
    parser.add_argument("--figure", type=Path, help="draw the unseen domains here (.png, .svg or .pdf)")
    options = parser.parse_args()
    table = load()
    result = judge(table, options.seed)
    reports = {"SET-COVER": result.unseen["model"], "ERM": result.unseen["ERM"]}
    print(f"{title}\n\n{summary_table(reports, result.target_recall, width=WIDTH)}")
    print(fill(str(result.diagnosis), WIDTH))
    print(f"\nUnseen domains, worst first\n{domain_table(reports, result.target_recall, width=WIDTH, most_rows=5)}")
    print(f"Some rows of unseen domains, their sets and the truth\n{some_sets(result, table, columns)}")
    if options.figure:
        domain_figure(reports, result.target_recall, options.figure, title=title)


def some_sets(result: Any, table: Table, columns: list[str], n_rows: int = 8) -> str:
    """Return a few rows of unseen domains, drawn at random, with the set that the model gives each."""
    unseen = table.domains.isin(result.unseen["model"].domain_names)
    rows = table.X[unseen].assign(truth=table.y).sample(n_rows, random_state=0)
    lists = to_label_lists(result.model.predict_set(rows.drop(columns="truth")), result.model.classes_)
    shown = rows[columns].assign(set=[" or ".join(labels) or "none" for labels in lists], truth=rows["truth"])
    return shown.to_string(index=False, na_rep="-")
