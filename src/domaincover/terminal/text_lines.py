"""Sentences as lines of text, and names and counts in them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from itertools import islice
from typing import Any


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
