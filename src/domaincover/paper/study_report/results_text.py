"""Results as text: for a terminal, a paper, a spreadsheet or another program."""

import json
import math
from collections.abc import Callable
from typing import get_args

import pandas as pd

from domaincover.errors import check_choice
from domaincover.options import TableStyle
from domaincover.paper.study_report.published_comparison import (
    BESIDE_DROPPED_FIRST,
    BESIDE_TERMINAL_HEADS,
    BESIDE_TITLE,
    beside_caption,
    beside_table,
    compared_with_published,
    with_published,
)
from domaincover.paper.study_report.results_table import TEXT_COLUMNS, checked_results, notes_of, sentences_of_notes
from domaincover.report.ranking import rule_in_words
from domaincover.report.readable import (
    HEADS,
    TEXT_HEADS,
    ReadableRow,
    heads_of,
    readable_rows,
    seeds_and_domains,
    sentence,
)
from domaincover.report.text_tables import TerminalLook, TextTable, latex, markdown, no_formula, terminal

# Short enough for eight columns in a terminal of 100 characters.
TERMINAL_HEADS = {
    "method": "Method",
    "target": "Target",
    "split": "Split",
    "seeds": "Seeds",
    "min_recall": "Median\nmin recall",
    "set_size": "Median\nset size",
    "share": "Share at\ntarget",
    "noise": "Chance\nalone",
    "p10": "10th\nperc.",
    "worst": "Worst",
    "seconds": "Train\n(s)",
}
DROPPED_FIRST = ("seconds", "noise", "p10", "worst")
CHANCE_ALONE = "by chance alone: the share at target if no domain differed from another"
CAPTION = (
    "Recall and size of prediction sets. Min recall is the smallest recall over a domain's labels. The "
    "columns give its median over domains, the median of the mean set size, the share of domains whose min "
    "recall is at least the target, and the share that chance alone would leave if every domain's true "
    "recall were at its mean; then the 10th percentile of min recall and its worst domain. Here {counted}. {rule}"
)


def format_results(
    results: pd.DataFrame,
    style: TableStyle = "table",
    *,
    width: int = 100,
    color: bool = True,
    published: pd.DataFrame | None = None,
    experiment: str | None = None,
) -> str:
    """Return the results as text; width and color matter to the terminal table only.

    Where `published` has numbers of the same data sets, targets and methods in unseen domains, they stand beside
    ours with the difference: in a table of their own below, in csv and json in columns of their own. Of several
    published numbers, that of the named experiment is taken, else that of the main one.
    """
    table = checked_results(results)
    check_choice("table style", style, get_args(TableStyle))
    compared = None if published is None else compared_with_published(table, published, experiment)
    if compared is None or compared["min_recall"].isna().all():  # a table of nothing but "not run" says nothing
        return _written(table, style, width, color)
    if style in ("csv", "json"):
        return _written(with_published(table, compared), style, width, color)
    beside = beside_table(compared)
    look = TerminalLook(BESIDE_TERMINAL_HEADS, BESIDE_DROPPED_FIRST, width, color)
    writers: dict[str, Callable[[], str]] = {
        "table": lambda: f"{BESIDE_TITLE}\n{terminal(_narrow(beside), look, [beside_caption(compared)])}",
        "md": lambda: f"{BESIDE_TITLE}: {beside_caption(compared)}.\n\n{markdown(beside)}",
        "latex": lambda: latex(beside, f"{BESIDE_TITLE}: {beside_caption(compared)}.", BESIDE_TERMINAL_HEADS),
    }
    return f"{_written(table, style, width, color)}\n{writers[style]()}"


def _written(table: pd.DataFrame, style: TableStyle, width: int, color: bool) -> str:
    if style == "json":
        return as_json(table)
    if style == "csv":
        return as_csv(table)
    rows = readable_rows(table)
    marks, rule = sentences_of_notes(table), rule_in_words(table)
    if style == "md":
        said = [*marks, sentence(seeds_and_domains(rows)), rule]
        return f"{markdown(_text_table(rows, heads_of(rows)))}\n{' '.join(said)}\n"
    shown, once = _said_once(rows)
    counted = [*once, seeds_and_domains(rows)]
    if style == "table":
        look = TerminalLook(TERMINAL_HEADS, DROPPED_FIRST, width, color)
        marked = rule_in_words(table, has_bold=color).rstrip(".")
        said = [*notes_of(table), *counted, CHANCE_ALONE, *([marked[0].lower() + marked[1:]] if marked else [])]
        return terminal(_narrow(shown), look, said)
    caption = CAPTION.format(counted="; ".join(counted), rule=rule)
    return latex(shown, " ".join([*marks, caption]), TERMINAL_HEADS)


def _narrow(table: TextTable) -> TextTable:
    """Return the table without spaces around ±, as narrow as a terminal."""
    rows = [{name: text.replace(" ± ", "±") for name, text in row.items()} for row in table.rows]
    return table._replace(rows=rows)


def as_json(table: pd.DataFrame) -> str:
    """Return a list of records, with null for NaN."""
    records = [
        {column: _null_unless_finite(value) for column, value in record.items()} for record in table.to_dict("records")
    ]
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(table: pd.DataFrame) -> str:
    """Return the table as CSV, with names safe from being read as formulas."""
    safe = {column: table[column].map(no_formula) for column in TEXT_COLUMNS if column in table}
    return str(table.assign(**safe).to_csv(index=False, lineterminator="\n"))


def _null_unless_finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text_table(rows: list[ReadableRow], heads: dict[str, str]) -> TextTable:
    texts = [{name: getattr(row, name) for name in HEADS} for row in rows]
    return TextTable(heads, texts, TEXT_HEADS, ["share" if row.best else None for row in rows])


def _said_once(rows: list[ReadableRow]) -> tuple[TextTable, list[str]]:
    """Return the table without constant split and target columns, and their values as text."""
    same = [name for name in ("split", "target") if len({getattr(row, name) for row in rows}) == 1]
    heads = {name: head for name, head in heads_of(rows).items() if name not in same}
    return _text_table(rows, heads), [f"{HEADS[name].lower()} {getattr(rows[0], name)}" for name in same]
