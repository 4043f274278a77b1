"""Results as text: for a terminal, a paper, a spreadsheet or another program."""

import io
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, get_args

import pandas as pd

from domaincover.errors import InputError
from domaincover.report.frames import TEXT_COLUMNS, checked_results
from domaincover.report.readable import (
    HEADS,
    TEXT_HEADS,
    ReadableRow,
    heads_of,
    printable,
    readable_rows,
    seeds_and_domains,
)

if TYPE_CHECKING:
    from rich.table import Table

TableStyle = Literal["table", "md", "csv", "latex", "json"]

# Short enough for eight columns in a terminal of 100 characters.
TERMINAL_HEADS = {
    "method": "Method",
    "target": "Target",
    "split": "Split",
    "seeds": "Seeds",
    "min_recall": "Median\nmin recall",
    "set_size": "Median\nset size",
    "share": "Share at\ntarget",
    "noise": "Noise\nalone",
    "p10": "10th\nperc.",
    "worst": "Worst",
    "seconds": "Train\n(s)",
}
DROPPED_FIRST = ("seconds", "noise", "p10", "worst")
LONGEST_WORD = 12
GAP = 2

MARKDOWN_ESCAPES = {char: f"\\{char}" for char in "\\|*_`[]<>#&~"}
LATEX_ESCAPES = {char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
}
LATEX_TABLE = r"""% needs \usepackage{{booktabs}} and \usepackage{{graphicx}}
\begin{{table}}
  \centering
  \caption{{Recall and size of prediction sets. Min recall is the smallest recall over a domain's labels. The
    columns give its median over domains, the median of the mean set size, the share of domains whose min
    recall is at least the target, and the share that counting noise alone would leave if every domain's true
    recall were at its mean; then the 10th percentile of min recall and its worst domain.
    Here {counted}. Bold: highest share at target among methods that give sets.}}
  \resizebox{{\linewidth}}{{!}}{{%
  \begin{{tabular}}{{{alignment}}}
    \toprule
    {heads} \\
    \midrule
    {body}
    \bottomrule
  \end{{tabular}}}}
\end{{table}}
"""


def format_results(results: pd.DataFrame, style: TableStyle = "table", *, width: int = 100, color: bool = True) -> str:
    """Return the results as text; width and color matter to the terminal table only."""
    table = checked_results(results)
    writers: dict[str, Callable[[], str]] = {
        "table": lambda: _terminal(readable_rows(table), width, color),
        "md": lambda: _markdown(readable_rows(table)),
        "csv": lambda: _csv(table),
        "latex": lambda: _latex(readable_rows(table)),
        "json": lambda: _json(table),
    }
    if style not in writers:
        raise InputError(f"table style must be one of {', '.join(get_args(TableStyle))}, got {style!r}.")
    return writers[style]()


def _json(results: pd.DataFrame) -> str:
    records = [
        {column: _null_unless_finite(value) for column, value in record.items()}
        for record in results.to_dict("records")
    ]
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _null_unless_finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(results: pd.DataFrame) -> str:
    safe = {column: results[column].map(_no_formula) for column in TEXT_COLUMNS}
    return str(results.assign(**safe).to_csv(index=False, lineterminator="\n"))


def _no_formula(text: str) -> str:
    """Return a text on one line that no spreadsheet takes for a formula."""
    line = printable(text)
    return f"'{line}" if line.lstrip().startswith(("=", "+", "-", "@")) else line


def _markdown(rows: list[ReadableRow]) -> str:
    heads = heads_of(rows)
    alignment = ["---" if name in TEXT_HEADS else "---:" for name in heads]
    lines = [heads.values(), alignment]
    lines += [_cells(row, heads, MARKDOWN_ESCAPES, "**{}**") for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _latex(rows: list[ReadableRow]) -> str:
    heads = heads_of(rows)
    groups = [
        " \\\\\n    ".join(" & ".join(_cells(row, heads, LATEX_ESCAPES, r"\textbf{{{}}}")) for row in group)
        for group in _by_dataset(rows)
    ]
    return LATEX_TABLE.format(
        counted=_escaped(seeds_and_domains(rows), LATEX_ESCAPES),
        alignment="".join("l" if name in TEXT_HEADS else "r" for name in heads),
        heads=" & ".join(heads.values()),
        body=" \\\\\n    \\midrule\n    ".join(groups) + r" \\",
    )


def _cells(row: ReadableRow, heads: Iterable[str], escapes: dict[str, str], bold: str) -> list[str]:
    """Return the escaped texts of a row in the order of the heads, the best share in bold."""
    texts = {name: _escaped(getattr(row, name), escapes) for name in heads}
    if row.best:
        texts["share"] = bold.format(texts["share"])
    return list(texts.values())


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)


def _by_dataset(rows: Iterable[ReadableRow]) -> Iterator[list[ReadableRow]]:
    for _, group in itertools.groupby(rows, key=lambda row: row.dataset):
        yield list(group)


def _terminal(rows: list[ReadableRow], width: int, color: bool) -> str:
    """Return one block per data set; what is the same in every row is said once, below."""
    from rich.console import Console
    from rich.rule import Rule
    from rich.text import Text

    said_once = {name for name in ("target", "split") if len({getattr(row, name) for row in rows}) == 1}
    wanted = [name for name in TERMINAL_HEADS if name in heads_of(rows) and name not in said_once]
    widths = _column_widths(rows, wanted, width)
    text = io.StringIO()
    console = Console(
        file=text,
        width=max(width, _total(widths)),
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
    )
    for group in _by_dataset(rows):
        console.print(Rule(Text(group[0].dataset, style="bold"), align="left", style="dim"))
        console.print(_terminal_block(group, widths))
    notes = [f"{HEADS[name].lower()} {getattr(rows[0], name)}" for name in ("split", "target") if name in said_once]
    notes.append(seeds_and_domains(rows))
    dropped = [HEADS[name].lower() for name in wanted if name not in widths]
    notes += [f"a wider terminal also shows {', '.join(dropped)}"] if dropped else []
    console.print(Rule(style="dim"), Text("; ".join(notes), style="dim"), sep="\n")
    return text.getvalue()


def _column_widths(rows: list[ReadableRow], wanted: list[str], width: int) -> dict[str, int]:
    """Return the columns that fit and their widths: names of methods are folded first, then columns dropped."""
    from rich.cells import cell_len

    texts = {name: [*TERMINAL_HEADS[name].split("\n"), *(getattr(row, name) for row in rows)] for name in wanted}
    widths = {name: max(map(cell_len, texts[name])) for name in wanted}
    unfolded = widths["method"]
    longest_word = max(cell_len(word) for text in texts["method"] for word in text.split())
    widths["method"] = min(longest_word, LONGEST_WORD)
    for name in DROPPED_FIRST:
        if _total(widths) > width:
            del widths[name]
    widths["method"] += max(0, min(unfolded - widths["method"], width - _total(widths)))
    return widths


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _terminal_block(group: list[ReadableRow], widths: dict[str, int]) -> "Table":
    """Return the rows of one data set; equal widths make the blocks line up."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in widths:
        text_column = name in TEXT_HEADS
        table.add_column(
            TERMINAL_HEADS[name],
            width=widths[name],
            justify="left" if text_column else "right",
            overflow="fold",
        )
    for row in group:
        table.add_row(
            *(Text(getattr(row, name), style="bold" if row.best and name == "share" else "") for name in widths)
        )
    return table
