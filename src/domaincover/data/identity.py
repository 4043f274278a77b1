"""When two names of domains or labels are the same, and when they only look alike.

Names are compared as they are written, in one canonical form: 7, 7.0 and "7" are the same whole number, and so are
2026-01-02 and 2026-01-02T00:00:00 the same day, and true and True the same value, since programs differ in how they
write them. Leading zeros, case and spaces are kept: "007" is another name than "7", but looks like it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Hashable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from domaincover.terminal.text import listed

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMES = 5
WHOLE = re.compile(r"\s*(-?(?:0|[1-9][0-9]*))(?:\.0*)?\s*")
WITH_EXPONENT = re.compile(r"\s*-?[0-9](?:\.[0-9]+)?[eE][+-][0-9]+\s*")  # as programs write large and small numbers
MOMENT = re.compile(
    r"(?:(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T]|(?P<days>-?[0-9]+ days) )?"
    r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.(?P<fraction>[0-9]+))?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
)
BOOLEANS = {"true": "True", "TRUE": "True", "false": "False", "FALSE": "False"}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # in 64 bits
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def canonical(name: Any) -> str:
    """Return the text by which a name is compared.

    >>> [canonical(name) for name in (7, 7.0, "7", "007", "H7", True, "2026-01-02 00:00:00", 1e16, 1e-6)]
    ['7', '7', '7', '007', 'H7', 'True', '2026-01-02', '10000000000000000', '0.000001']
    """
    text = BOOLEANS.get(str(name), str(name))
    if found := WHOLE.fullmatch(text):
        return "0" if found[1] == "-0" else found[1]
    if WITH_EXPONENT.fullmatch(text) and (number := float(text)) - number == 0:  # not infinite
        return str(int(number)) if number.is_integer() else f"{Decimal(repr(number)):f}"
    return _moment(**found.groupdict("")) if (found := MOMENT.fullmatch(text)) else text


def _moment(day: str, days: str, clock: str, fraction: str, zone: str) -> str:
    """Return a day, a time or a duration; midnight is not written, nor are zeros at the end of a fraction."""
    fraction = fraction.rstrip("0")
    clock += (f".{fraction}" if fraction else "") + ("+00:00" if zone == "Z" else zone)
    return f"{day}{days} {clock}".strip() if clock != "00:00:00" or not (day or days) else f"{day}{days}"


def canonical_texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of names in their canonical form; missing ones stay missing."""
    return _mapped(column, canonical)


def typed_names(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return canonical texts as integers or booleans where all of the column are."""
    distinct = column.dropna().unique().tolist()
    if all(INTEGER.fullmatch(text) for text in distinct):
        return _mapped(column, int)
    return _mapped(column, "True".__eq__) if {*distinct} <= {"True", "False"} else column


def _mapped(column: pd.Series[Any], function: Any) -> pd.Series[Any]:
    """Return what a function makes of each distinct value, as objects where some are missing."""
    import numpy as np
    import pandas as pd

    codes, distinct = pd.factorize(column)
    made = np.fromiter((*map(function, distinct), None), dtype=object, count=len(distinct) + 1)
    found = pd.Series(made[codes], index=column.index, name=column.name, dtype=object)
    return found if (codes < 0).any() else found.infer_objects()


def name_by_text(names: Iterable[Any], known: Collection[Any]) -> dict[Any, Any]:
    """Return for each name the known one that it is, if there is one; the same spelling comes first.

    >>> name_by_text(["7", "007", "x"], [7.0, "007"])
    {'7': 7.0, '007': '007'}
    """
    by_text = {canonical(name): name for name in known} | {str(name): name for name in known}
    found = {name: by_text.get(str(name), by_text.get(canonical(name))) for name in names}
    return {name: match for name, match in found.items() if match is not None}


def look_alikes(names: Collection[Hashable], known: Collection[Hashable] | None = None) -> list[tuple[Any, Any]]:
    """Return names, each with a known one that looks like it but is another; by default with one of themselves.

    >>> look_alikes(["001", "1", "H001", "h001 "])
    [('1', '001'), ('h001 ', 'H001')]
    >>> look_alikes(["SICK", "well"], ["sick", "well"])
    [('SICK', 'sick')]
    """
    if all(isinstance(name, int) for name in (*names, *(() if known is None else known))):
        return []
    if known is None:
        by_look: dict[str, Any] = {}
        pairs = ((name, by_look.setdefault(_look(name), name)) for name in names)
        return [(name, other) for name, other in pairs if name is not other]
    same, by_look = {canonical(name) for name in known}, {_look(name): name for name in known}
    new = [name for name in names if canonical(name) not in same]
    return [(name, by_look[look]) for name in new if (look := _look(name)) in by_look]


def _look(name: Any) -> str:
    """Return what is left of a name without case, spaces, signs that are not seen, and zeros before or after."""
    text = unicodedata.normalize("NFKC", canonical(name)).casefold().replace(",", ".")
    text = "".join(char for char in text if char.isprintable() and not char.isspace()).removeprefix("+")
    text = re.sub(r"(?<![0-9.])0+(?=[0-9])", "", text)
    return text.rstrip("0").rstrip(".") if re.fullmatch(r"-?[0-9]+\.[0-9]*", text) else text


def in_words(pairs: Collection[tuple[Any, Any]]) -> str:
    """Return pairs of names that look alike, the first of many.

    >>> in_words([("001 ", "001"), ("h1", "H1")])
    "'001 ' looks like '001', 'h1' looks like 'H1'"
    """
    return listed([f"{name!r} looks like {other!r}" for name, other in pairs], MOST_NAMES)


def look_alike_line(names: Collection[Hashable], what: str) -> str | None:
    """Return a line about names that look alike, and count as different ones; None where there are none."""
    pairs = look_alikes(names)
    return f"different {what} look alike: {in_words(pairs)}; if they are the same, write them alike." if pairs else None


def can_compare(names: Collection[Hashable], known: Collection[Hashable]) -> bool:
    """Return whether any name can be told from the known ones: of the same kind as one of them, and not alike.

    >>> can_compare(["north"], [1, 2]), can_compare(["001", "002"], [1, 2]), can_compare(["3", "south"], [1, 2])
    (False, False, True)
    """
    doubtful = {name for name, _ in look_alikes(names, known)}
    return not {_kind(name) for name in names if name not in doubtful}.isdisjoint(map(_kind, known))


def _kind(name: Any) -> str:
    text = canonical(name)
    return "day" if DATE.match(text) else "text" if any(char.isalpha() for char in text) else "number"
