"""Sentences as lines of text, names and counts in them, and tables of text, written by rich in columns that fit."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

GAP = 2
SHORTEST = 8


def wrapped(words: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return lines no longer than the width, none of which begins with a percent sign.

    >>> wrapped("at least 90 % of the time", 12)
    ['at least', '90 % of the', 'time']
    """
    together = words.replace(" %", "\u00a0%")
    lines = textwrap.wrap(together, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def cut(text: str, longest: int) -> str:
    """Return a text in printable characters, no longer than wanted.

    >>> cut("north\\nwing", 8)
    'north w…'
    """
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def listed(names: Collection[Any], most: int = 12) -> str:
    """Return names with commas between them, the first of many.

    >>> listed("abc"), listed(range(14))
    ('a, b, c', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … and 2 more')
    """
    more = f", … and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, islice(names, most))) + more


def counted(count: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class TextColumn(NamedTuple):
    """One column: its head, a text per row and, where rows differ, the style of each.

    Text is aligned left and may become as narrow as `least`; numbers stay whole. Where there is no room for all,
    columns are left out by the number of their turn, those without one (0) never.
    """

    head: str
    texts: Sequence[str]
    is_text: bool = False
    least: int | None = None
    styles: Sequence[str] = ()
    turn: int = 0

    @property
    def width(self) -> int:
        """The characters that the longest line takes."""
        from rich.cells import cell_len

        return max(map(cell_len, [*self.head.split("\n"), *self.texts]))

    @property
    def narrowest(self) -> int:
        """The characters that the column needs."""
        return self.width if self.least is None else min(self.width, self.least)


def fitted(columns: Iterable[TextColumn], width: int) -> list[tuple[TextColumn, int]]:
    """Return the columns that fit and their widths; texts share the space that is left, from the left."""
    shown = list(columns)
    for turn in sorted({column.turn for column in shown} - {0}):
        if total(column.narrowest for column in shown) > width:
            shown = [column for column in shown if column.turn != turn]
    widths = [column.narrowest for column in shown]
    for place, column in enumerate(shown):
        widths[place] += max(0, min(column.width - column.narrowest, width - total(widths)))
    return list(zip(shown, widths, strict=True))


def total(widths: Iterable[int]) -> int:
    """Return the width of columns of these widths with the gaps between them."""
    shown = list(widths)
    return sum(shown) + GAP * (len(shown) - 1)


def table_of(columns: Sequence[tuple[TextColumn, int]], rows: Iterable[int]) -> Table:
    """Return some rows of columns with their widths."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column, width in columns:
        table.add_column(Text(column.head), width=width, justify="left" if column.is_text else "right", overflow="fold")
    for row in rows:
        cells = ((column.texts[row], column.styles[row] if column.styles else "") for column, _ in columns)
        table.add_row(*(Text(text, style=style) for text, style in cells))
    return table


def written(parts: Sequence[RenderableType], width: int, color: bool) -> str:
    """Return parts below each other as text; in a notebook, rich would display them instead."""
    from rich.console import Console

    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        force_terminal=color,
        force_jupyter=False,
        color_system="standard" if color else None,
        highlight=False,
    )
    console.print(*parts, sep="\n")
    return text.getvalue()


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]], n_text: int, width: int) -> list[str]:
    """Return the lines of a table whose first columns are text; the last of these is cut where there is no room.

    >>> table_lines(["ward", "rows"], [["north wing", "7"]], n_text=1, width=14)
    ['ward      rows', 'north w…     7']
    """
    columns = [
        TextColumn(head, texts, place < n_text, SHORTEST if place == n_text - 1 else None)
        for place, (head, texts) in enumerate(zip(heads, zip(*rows, strict=True), strict=True))
    ]
    fitting = fitted(columns, width)
    shown = [(column._replace(texts=[cut(text, wide) for text in column.texts]), wide) for column, wide in fitting]
    text = written([table_of(shown, range(len(rows)))], max(width, total(wide for _, wide in shown)), color=False)
    return [line.rstrip() for line in text.splitlines()]
