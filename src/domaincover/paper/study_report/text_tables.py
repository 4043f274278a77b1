"""A table of texts and how to write it: Markdown, LaTeX, or blocks in a terminal; and tables of numbers as data."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from domaincover.options import TableStyle
from domaincover.report.readable import printable, sentence
from domaincover.terminal.text import TextColumn, fitted, table_of, total, written

LONGEST_WORD = 12
TEXT_COLUMNS = ("dataset", "method", "split")
LATEX_ESCAPES = str.maketrans(
    {char: f"\\{char}" for char in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "−": "$-$",
        "–": "--",
        "’": "'",
        "†": r"\dag{}",
    }
)
LATEX_TABLE = r"""% needs \usepackage{{booktabs}} and \usepackage{{graphicx}}
\begin{{table}}
  \centering
  \caption{{{caption}}}
  \resizebox{{\ifdim\width>\linewidth \linewidth\else\width\fi}}{{!}}{{%
  \begin{{tabular}}{{{alignment}}}
    \toprule
    {heads} \\
    \midrule
    {body}
    \bottomrule
  \end{{tabular}}}}
\end{{table}}
"""


class Column(NamedTuple):
    """The head of a column, a short one on one line or two for a terminal and LaTeX, and whether it holds text.

    A terminal that is too narrow leaves columns out in turn, those of turn 0 never.
    """

    head: str
    short: str = ""
    is_text: bool = False
    turn: int = 0

    @property
    def short_lines(self) -> list[str]:
        """The short head."""
        return (self.short or self.head).split("\n")


class TextTable(NamedTuple):
    """Columns by name, and rows of texts by column.

    In blocks, the name of each data set is above its rows.
    """

    columns: Mapping[str, Column]
    rows: Sequence[Mapping[Any, Any]]
    title: str = ""
    has_blocks: bool = True

    @property
    def shown(self) -> dict[str, Column]:
        """The columns of a terminal and of LaTeX."""
        return {name: one for name, one in self.columns.items() if not (self.has_blocks and name == "dataset")}

    def blocks(self) -> Iterator[tuple[str, list[int]]]:
        """Yield the places of the rows of each data set with its name, or of all without one."""
        places = range(len(self.rows))
        for name, group in itertools.groupby(places, lambda k: self.rows[k]["dataset"] if self.has_blocks else ""):
            yield name, list(group)


def table_text(table: TextTable, style: TableStyle, notes: Sequence[str], width: int, color: bool) -> str:
    """Return the table for a terminal or in LaTeX, with notes below it or as its caption."""
    if style == "table":
        return terminal(table, notes, width, color)
    first = f"{table.title}: {notes[0]}" if table.title else notes[0]
    return latex(table, " ".join(map(sentence, [first, *notes[1:]])))


def latex(table: TextTable, caption: str) -> str:
    """Return the table in LaTeX; it needs booktabs and graphicx."""
    names, columns = list(table.shown), list(table.shown.values())
    height = max(len(one.short_lines) for one in columns)
    padded = [[""] * (height - len(one.short_lines)) + one.short_lines for one in columns]
    heads = [" & ".join(text.translate(LATEX_ESCAPES) for text in line) for line in zip(*padded, strict=True)]
    groups = []
    for block, places in table.blocks():
        rows = [" & ".join(table.rows[place][name].translate(LATEX_ESCAPES) for name in names) for place in places]
        name = rf"\multicolumn{{{len(names)}}}{{l}}{{\textit{{{block.translate(LATEX_ESCAPES)}}}}}"
        groups.append([name, *rows] if table.has_blocks else rows)
    end = " \\\\\n    "
    return LATEX_TABLE.format(
        caption=caption.translate(LATEX_ESCAPES),
        alignment="".join("l" if one.is_text else "r" for one in columns),
        heads=end.join(heads),
        body=f"{end}\\midrule\n    ".join(end.join(group) for group in groups) + r" \\",
    )


def terminal(table: TextTable, notes: Sequence[str], width: int, color: bool) -> str:
    """Return the blocks with notes below; equal widths make them line up. The first text is folded if need be."""
    from rich.rule import Rule
    from rich.text import Text

    shown = table.shown
    folded = next(name for name, one in shown.items() if one.is_text)
    longest_word = max(len(word) for row in table.rows for word in row[folded].split())
    columns = [
        TextColumn(
            head="\n".join(one.short_lines),
            texts=[row[name].replace(" ± ", "±") for row in table.rows],
            is_text=one.is_text,
            least=min(longest_word, LONGEST_WORD) if name == folded else None,
            turn=one.turn,
        )
        for name, one in shown.items()
    ]
    fitting = fitted(columns, width)
    parts: list[Rule | Text] = [Text(table.title)] if table.title else []
    for block, places in table.blocks():
        parts += [Rule(Text(block, style="bold"), align="left", style="dim")] if table.has_blocks else []
        parts.append(table_of(fitting, places))  # type: ignore[arg-type]
    kept = [id(column) for column, _ in fitting]
    dropped = [one.head.lower() for one, column in zip(shown.values(), columns, strict=True) if id(column) not in kept]
    said = [*notes, *([f"a wider terminal also shows {', '.join(dict.fromkeys(dropped))}"] if dropped else [])]
    parts += [Rule(style="dim"), Text("; ".join(said), style="dim")]
    return written(parts, max(width, total(column_width for _, column_width in fitting)), color)


def as_data(table: pd.DataFrame, style: TableStyle) -> str:
    """Return CSV, with names safe from being read as formulas, or JSON: a list of records, with null for NaN."""
    if style == "csv":
        safe = {column: table[column].map(_no_formula) for column in TEXT_COLUMNS if column in table}
        return str(table.assign(**safe).to_csv(index=False, lineterminator="\n"))
    finite = table.astype(object).where(table.notna() & ~table.isin([math.inf, -math.inf]), None)
    return json.dumps(finite.to_dict("records"), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _no_formula(text: str) -> str:
    """Return a text on one line that spreadsheets do not read as a formula."""
    line = printable(text)
    return f"'{line}" if line.lstrip().startswith(("=", "+", "-", "@")) else line
