"""A table of texts and how to write it: Markdown, LaTeX, or blocks in a terminal."""

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from domaincover.report.readable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = Mapping[str, str]

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
    "−": "$-$",
    "–": "--",
    "’": "'",
    "†": r"\dag{}",
}
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
    """Heads by column, rows of texts, which columns are text, and the column that is bold in a row, if any."""

    heads: Mapping[str, str]
    rows: Sequence[Row]
    text_columns: Sequence[str]
    bold: Sequence[str | None]

    def cells(self, place: int, escapes: Mapping[str, str], bold: str) -> list[str]:
        """Return the escaped texts of a row in the order of the heads."""
        texts = {name: escaped(self.rows[place][name], escapes) for name in self.heads}
        name = self.bold[place]
        if name is not None:
            texts[name] = bold.format(texts[name])
        return list(texts.values())

    def by_dataset(self) -> Iterator[list[int]]:
        """Yield the places of the rows of each data set."""
        for _, group in itertools.groupby(range(len(self.rows)), key=lambda place: self.rows[place]["dataset"]):
            yield list(group)


class TerminalLook(NamedTuple):
    """Short heads in column order, the columns to drop first when narrow, the width, and colour."""

    heads: Mapping[str, str]
    dropped_first: Sequence[str]
    width: int
    color: bool


def escaped(text: str, escapes: Mapping[str, str]) -> str:
    """Return the text with every special character escaped."""
    return "".join(escapes.get(char, char) for char in text)


def markdown(table: TextTable) -> str:
    """Return the table in Markdown."""
    alignment = ["---" if name in table.text_columns else "---:" for name in table.heads]
    lines = [list(table.heads.values()), alignment]
    lines += [table.cells(place, MARKDOWN_ESCAPES, "**{}**") for place in range(len(table.rows))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex(table: TextTable, caption: str, heads: Mapping[str, str], *, blocks: bool = True) -> str:
    """Return the table in LaTeX with heads of one line or two; it needs booktabs and graphicx.

    In blocks, the name of each data set is above its rows instead of in each row.
    """
    names = [name for name in heads if name in table.heads and not (blocks and name == "dataset")]
    shown = {name: heads[name].split("\n") for name in names}
    height = max(map(len, shown.values()))
    padded = [[""] * (height - len(lines)) + lines for lines in shown.values()]
    lines = [" & ".join(map(_latex, line)) for line in zip(*padded, strict=True)]
    bare = table._replace(heads=dict.fromkeys(names, ""))
    rows = [" & ".join(bare.cells(place, LATEX_ESCAPES, r"\textbf{{{}}}")) for place in range(len(table.rows))]
    groups = []
    for places in table.by_dataset() if blocks else [list(range(len(rows)))]:
        name = rf"\multicolumn{{{len(names)}}}{{l}}{{\textit{{{_latex(table.rows[places[0]]['dataset'])}}}}}"
        groups.append([*([name] if blocks else []), *(rows[place] for place in places)])
    end = " \\\\\n    "
    return LATEX_TABLE.format(
        caption=_latex(caption),
        alignment="".join("l" if name in table.text_columns else "r" for name in names),
        heads=end.join(lines),
        body=f"{end}\\midrule\n    ".join(end.join(group) for group in groups) + r" \\",
    )


def _latex(text: str) -> str:
    return escaped(text, LATEX_ESCAPES)


def no_formula(text: str) -> str:
    """Return a text on one line that spreadsheets do not read as a formula."""
    line = printable(text)
    return f"'{line}" if line.lstrip().startswith(("=", "+", "-", "@")) else line


def terminal(table: TextTable, look: TerminalLook, notes: Iterable[str], *, blocks: bool = True) -> str:
    """Return a block per data set, or one for all, with notes below; equal widths make the blocks line up."""
    from rich.rule import Rule
    from rich.text import Text

    wanted = [name for name in look.heads if name in table.heads]
    widths = _column_widths(table, wanted, look)
    text = io.StringIO()
    console = console_on(text, max(look.width, _total(widths)), look.color)
    for places in table.by_dataset() if blocks else [list(range(len(table.rows)))]:
        if blocks:
            console.print(Rule(Text(table.rows[places[0]]["dataset"], style="bold"), align="left", style="dim"))
        console.print(_block(table, places, widths, look))
    dropped = dict.fromkeys(table.heads[name].lower() for name in wanted if name not in widths)
    said = [*notes, *([f"a wider terminal also shows {', '.join(dropped)}"] if dropped else [])]
    console.print(Rule(style="dim"), Text("; ".join(said), style="dim"), sep="\n")
    return text.getvalue()


def console_on(text: io.StringIO, width: int, color: bool) -> "Console":
    """Return a console that writes to a text; in a notebook, rich would display the output instead."""
    from rich.console import Console

    return Console(
        file=text,
        width=width,
        force_terminal=color,
        force_jupyter=False,
        color_system="standard" if color else None,
        highlight=False,
    )


def _column_widths(table: TextTable, wanted: Sequence[str], look: TerminalLook) -> dict[str, int]:
    """Return the columns that fit and their widths: the first text is folded first, then columns dropped."""
    from rich.cells import cell_len

    texts = {name: [*look.heads[name].split("\n"), *(row[name] for row in table.rows)] for name in wanted}
    widths = {name: max(map(cell_len, texts[name])) for name in wanted}
    folded = next(name for name in wanted if name in table.text_columns)
    unfolded = widths[folded]
    longest_word = max(cell_len(word) for text in texts[folded] for word in text.split())
    widths[folded] = min(longest_word, LONGEST_WORD)
    for name in look.dropped_first:
        if _total(widths) > look.width:
            widths.pop(name, None)
    widths[folded] += max(0, min(unfolded - widths[folded], look.width - _total(widths)))
    return widths


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _block(table: TextTable, places: Iterable[int], widths: Mapping[str, int], look: TerminalLook) -> "Table":
    from rich.table import Table
    from rich.text import Text

    block = Table(box=None, pad_edge=False)
    for name, width in widths.items():
        justify = "left" if name in table.text_columns else "right"
        block.add_column(look.heads[name], width=width, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for place in places:
        row, bold = table.rows[place], table.bold[place]
        block.add_row(*(Text(row[name], style="bold" if name == bold else "") for name in widths))
    return block
