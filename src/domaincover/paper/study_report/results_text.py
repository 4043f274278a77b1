"""Results as text: for a terminal, a paper, a spreadsheet or another program."""

from typing import get_args

import pandas as pd

from domaincover.errors import check_choice
from domaincover.options import TableStyle
from domaincover.paper.study_report.published_comparison import (
    beside_caption,
    beside_table,
    compared_with_published,
    with_published,
)
from domaincover.paper.study_report.results_rows import (
    HEADS,
    TEXT_HEADS,
    heads_of,
    readable_rows,
    rules_in_words,
    seeds_and_domains,
)
from domaincover.paper.study_report.results_table import checked_results, notes_of
from domaincover.paper.study_report.text_tables import TextTable, as_csv, as_json, table_text

# Short enough for eight columns in a terminal of 100 characters.
SHORT_HEADS = {
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
TURNS = ("seconds", "noise", "p10", "worst")
CHANCE_ALONE = "by chance alone: the share at target if no domain differed from another"
CAPTION = (
    "recall and size of prediction sets. Min recall is the smallest recall over a domain's labels. The "
    "columns give its median over domains, the median of the mean set size, the share of domains whose min "
    "recall is at least the target, and the share that chance alone would leave if every domain's true "
    "recall were at its mean; then the 10th percentile of min recall and its worst domain"
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
    if compared is not None and compared["min_recall"].isna().all():  # a table of nothing but "not run" says nothing
        compared = None
    if style in ("csv", "json"):
        wide = table if compared is None else with_published(table, compared)
        return as_csv(wide) if style == "csv" else as_json(wide)
    text = _results_text(table, style, width, color)
    if compared is None:
        return text
    return f"{text}\n{table_text(beside_table(compared), style, [beside_caption(compared)], width, color)}"


def _results_text(table: pd.DataFrame, style: TableStyle, width: int, color: bool) -> str:
    rows = readable_rows(table)
    # Markdown has every column; elsewhere what is the same in all rows is said once.
    once = [name for name in ("split", "target") if style != "md" and len({getattr(row, name) for row in rows}) == 1]
    heads = {name: head for name, head in heads_of(rows).items() if name not in once}
    texts = [{name: getattr(row, name) for name in HEADS} for row in rows]
    bold = ["share" if row.best else None for row in rows]
    counted = [*(f"{HEADS[name].lower()} {texts[0][name]}" for name in once), seeds_and_domains(rows)]
    rules = rules_in_words(table, has_bold=style != "table" or color)
    if style == "latex":
        counted = [CAPTION, f"here {'; '.join(counted)}"]
    if style == "table":
        rules = [CHANCE_ALONE, *(f"{rule[0].lower()}{rule[1:]}" for rule in rules)]
    shown = TextTable(heads, texts, TEXT_HEADS, bold, SHORT_HEADS, TURNS)
    return table_text(shown, style, [*notes_of(table), *counted, *rules], width, color)
