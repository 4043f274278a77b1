"""A table of texts and how to write it: Markdown, LaTeX, or blocks in a terminal."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from domaincover.options import TableStyle
from domaincover.report.readable import printable, sentence
from domaincover.terminal.text import TextColumn, fitted, table_of, total, written

Row = Mapping[str, str]

LONGEST_WORD = 12
TEXT_COLUMNS = ("dataset", "method", "split")
MARKDOWN_ESCAPES = str.maketrans({char: f"\\{char}" for char in "\\|*_`[]<>#&~"})
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


class TextTable(NamedTuple):
    """Heads by column, rows of texts, which columns are text, and the column that is bold in a row, if any.

    `short_heads` are those of a terminal and of LaTeX, in column order and on one line or two, and `turns` say which
    columns a narrow terminal leaves out first. In blocks, the name of each data set is above its rows.
    """

    heads: Mapping[str, str]
    rows: Sequence[Row]
    text_columns: Sequence[str]
    bold: Sequence[str | None]
    short_heads: Mapping[str, str]
    turns: Sequence[str]
    title: str = ""
    has_blocks: bool = True

    @property
    def short_names(self) -> list[str]:
        """The columns with short heads."""
        return [name for name in self.short_heads if name in self.heads and not (self.has_blocks and name == "dataset")]

    def cells(self, place: int, names: Sequence[str], escapes: dict[int, str], bold: str) -> list[str]:
        """Return the escaped texts of a row."""
        texts = [self.rows[place][name].translate(escapes) for name in names]
        return [
            bold.format(text) if name == self.bold[place] else text for name, text in zip(names, texts, strict=True)
        ]

    def blocks(self) -> Iterator[tuple[str, list[int]]]:
        """Yield the places of the rows of each data set with its name, or of all without one."""
        if not self.has_blocks:
            yield "", list(range(len(self.rows)))
            return
        for name, group in itertools.groupby(range(len(self.rows)), key=lambda place: self.rows[place]["dataset"]):
            yield name, list(group)


def table_text(table: TextTable, style: TableStyle, notes: Sequence[str], width: int, color: bool) -> str:
    """Return the table for a terminal, in Markdown or in LaTeX, with notes below it or as its caption."""
    if style == "table":
        return terminal(table, notes, width, color)
    first = f"{table.title}: {notes[0]}" if table.title else notes[0]
    caption = " ".join(map(sentence, [first, *notes[1:]]))
    return f"{markdown(table)}\n{caption}\n" if style == "md" else latex(table, caption)


def markdown(table: TextTable) -> str:
    """Return the table in Markdown."""
    alignment = ["---" if name in table.text_columns else "---:" for name in table.heads]
    lines = [list(table.heads.values()), alignment]
    lines += [table.cells(place, list(table.heads), MARKDOWN_ESCAPES, "**{}**") for place in range(len(table.rows))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(table: TextTable, caption: str) -> str:
    """Return the table in LaTeX; it needs booktabs and graphicx."""
    names = table.short_names
    shown = [table.short_heads[name].split("\n") for name in names]
    height = max(map(len, shown))
    padded = [[""] * (height - len(lines)) + lines for lines in shown]
    heads = [" & ".join(text.translate(LATEX_ESCAPES) for text in line) for line in zip(*padded, strict=True)]
    groups = []
    for block, places in table.blocks():
        rows = [" & ".join(table.cells(place, names, LATEX_ESCAPES, r"\textbf{{{}}}")) for place in places]
        name = rf"\multicolumn{{{len(names)}}}{{l}}{{\textit{{{block.translate(LATEX_ESCAPES)}}}}}"
        groups.append([name, *rows] if table.has_blocks else rows)
    end = " \\\\\n    "
    return LATEX_TABLE.format(
        caption=caption.translate(LATEX_ESCAPES),
        alignment="".join("l" if name in table.text_columns else "r" for name in names),
        heads=end.join(heads),
        body=f"{end}\\midrule\n    ".join(end.join(group) for group in groups) + r" \\",
    )


def terminal(table: TextTable, notes: Sequence[str], width: int, color: bool) -> str:
    """Return the blocks with notes below; equal widths make them line up. The first text is folded if need be."""
    from rich.rule import Rule
    from rich.text import Text

    names = table.short_names
    folded = next(name for name in names if name in table.text_columns)
    longest_word = max(len(word) for row in table.rows for word in row[folded].split())
    columns = {
        name: TextColumn(
            head=table.short_heads[name],
            texts=[row[name].replace(" ± ", "±") for row in table.rows],
            is_text=name in table.text_columns,
            least=min(longest_word, LONGEST_WORD) if name == folded else None,
            styles=["bold" if name == bold else "" for bold in table.bold],
            turn=1 + table.turns.index(name) if name in table.turns else 0,
        )
        for name in names
    }
    fitting = fitted(columns.values(), width)
    parts: list[Rule | Text] = [Text(table.title)] if table.title else []
    for block, places in table.blocks():
        parts += [Rule(Text(block, style="bold"), align="left", style="dim")] if table.has_blocks else []
        parts.append(table_of(fitting, places))  # type: ignore[arg-type]
    is_shown = {name: any(column is one for one, _ in fitting) for name, column in columns.items()}
    dropped = dict.fromkeys(table.heads[name].lower() for name in names if not is_shown[name])
    said = [*notes, *([f"a wider terminal also shows {', '.join(dropped)}"] if dropped else [])]
    parts += [Rule(style="dim"), Text("; ".join(said), style="dim")]
    return written(parts, max(width, total(column_width for _, column_width in fitting)), color)


def as_json(table: pd.DataFrame) -> str:
    """Return a list of records, with null for NaN."""
    finite = table.astype(object).where(table.notna() & ~table.isin([math.inf, -math.inf]), None)
    records = finite.to_dict("records")
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(table: pd.DataFrame) -> str:
    """Return the table as CSV, with names safe from being read as formulas."""
    safe = {column: table[column].map(_no_formula) for column in TEXT_COLUMNS if column in table}
    return str(table.assign(**safe).to_csv(index=False, lineterminator="\n"))


def _no_formula(text: str) -> str:
    """Return a text on one line that spreadsheets do not read as a formula."""
    line = printable(text)
    return f"'{line}" if line.lstrip().startswith(("=", "+", "-", "@")) else line
