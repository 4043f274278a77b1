"""Numbers and dates that a text column writes in its own way: 1,200 and $1,000.50, 12 %, 31/12/2020, ? for missing.

A spelling is found only if every value of the column follows it, so it never guesses at a part of the values. Dates are
read only if a day above 12, a year in front or points between the parts settle their order. A text column of nothing
but digits stays text: it may hold postcodes. Whoever fits remembers the spelling, so that new tables are read alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincover.data.columns import ISO_DATE
from domaincover.errors import InputError

MISSING_MARKS = ("?", "-", "--", ".")
PLAIN_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
THOUSANDS = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"  # or decimals, if there is one point
CODE = r"[+-]?0\d+"  # a leading zero is for names such as postcodes
TIME = r"([T ]\d{1,2}:\d{2}(?::\d{2})?)?"
YEAR_LAST = re.compile(rf"(\d{{1,2}})([/.-])(\d{{1,2}})\2(\d{{4}}){TIME}")
YEAR_FIRST = re.compile(rf"(\d{{4}})([/.-])(\d{{1,2}})\2(\d{{1,2}}){TIME}")
DATE_LIKE = rf"\d{{1,4}}([/.-])\d{{1,2}}\1\d{{1,4}}{TIME}"
MONTHS, THOUSAND = 12, 1000
MOSTLY = 0.5  # share of numbers from which a text column nearly looks like numbers
LONGEST = 20  # characters of a value that are quoted


class NumberSpelling(NamedTuple):
    """The unit of numbers and their decimal mark; the other mark, spaces and apostrophes may part thousands."""

    unit: str
    decimal: str


# By what `fit` prints and a saved model keeps.
NUMBERS = {
    "1,200.50": NumberSpelling("", "."),
    "1.200,50": NumberSpelling("", ","),
    **{f"{unit}1,200.50": NumberSpelling(unit, ".") for unit in "$€£¥"},
    **{f"{unit}1.200,50": NumberSpelling(unit, ",") for unit in "$€£¥"},
    "12.5 %": NumberSpelling("%", "."),
    "12,5 %": NumberSpelling("%", ","),
}
DATES = {  # what is written, and how ISO 8601 orders its parts
    "day/month/year": (YEAR_LAST, r"\4-\3-\1\5"),
    "month/day/year": (YEAR_LAST, r"\4-\1-\3\5"),
    "year/month/day": (YEAR_FIRST, r"\1-\3-\4\5"),
}


def spelling_of(column: pd.Series[Any]) -> str | None:
    """Return how a text column writes numbers or dates, None where it holds something else or writes them plainly.

    >>> [spelling_of(pd.Series(values)) for values in (["$1,000", "$7.50"], ["31/12/2020", "?"], ["12345", "60200"])]
    ['$1,200.50', 'day/month/year', None]
    """
    texts = _distinct(column)
    if texts is None or texts.empty:
        return None
    if texts.str.fullmatch(f"{PLAIN_NUMBER}|{ISO_DATE}").all() and not column.isin(MISSING_MARKS).any():
        return None
    return _date_spelling(texts) or _number_spelling(texts)


def plain_table(table: pd.DataFrame, spellings: Mapping[Any, str]) -> pd.DataFrame:
    """Return a table in which the columns of these spellings are numbers and dates."""
    plain = table.copy(deep=False)
    for name, spelling in spellings.items():
        plain[name] = as_plain(table[name], spelling)
    return plain


def spellings_of(table: pd.DataFrame) -> dict[Any, str]:
    """Return the spelling of each column that has one."""
    found = {name: spelling_of(table[name]) for name in table}
    return {name: spelling for name, spelling in found.items() if spelling is not None}


def doubt_about(column: pd.Series[Any]) -> str | None:
    """Say why a text column is not read as numbers or dates, where it nearly looks like them, and what to do."""
    texts = _distinct(column)
    if texts is None or texts.empty or spelling_of(column) is not None:
        return None
    if texts.str.fullmatch(DATE_LIKE).all() and not texts.str.fullmatch(ISO_DATE).all():
        return f"holds dates such as {texts.iloc[0]!r}, whose order nothing settles; write them as 2026-01-31"
    pointed = texts[texts.str.contains(".", regex=False)]
    if len(pointed) and pointed.str.fullmatch(THOUSANDS).all() and texts.str.fullmatch(PLAIN_NUMBER).all():
        return f"is text, since {pointed.iloc[0]!r} can be read in two ways; write it without the point, or as 2.0"
    counts = column.astype("string").str.strip().value_counts()
    spelled = pd.Series(counts.index, dtype="string")
    is_number = _looks_like_number(spelled).to_numpy(dtype=bool)
    share = counts.to_numpy()[is_number].sum() / max(counts.sum(), 1)
    if share < MOSTLY or texts.str.fullmatch(PLAIN_NUMBER).all():
        return None
    others = ", ".join(repr(text[:LONGEST]) for text in spelled[~is_number].head(3))
    if not others:
        ways = ", ".join(repr(text) for text in spelled[:3])
        return (
            f"holds numbers that are not all written alike ({ways}); write them as 1200.50, or keep them as categories"
        )
    return (
        f"is text though {100 * share:.3g} % of its values are numbers (not {others}); "
        "correct or empty the others to have it read as numbers"
    )


def as_plain(column: pd.Series[Any], spelling: str) -> pd.Series[Any]:
    """Return the numbers or dates of a column that is written like this; marks such as ? are missing values.

    What is a number or date already is taken as it is, but rejected where a program may have misread it.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if column.dtype.kind not in "OTU":
        return _taken_as_is(column, spelling)
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) not in ("string", "empty"):
        is_text = column.map(lambda value: isinstance(value, str)).astype(bool) | column.isna()
        typed = _taken_as_is(column[~is_text].infer_objects(), spelling)
        return as_plain(column.where(is_text).astype("string"), spelling).where(is_text, typed)
    codes, distinct = pd.factorize(column.astype("string"))
    texts = pd.Series(distinct, dtype="string").str.strip()
    values = _read(texts, spelling)
    bad = (values.isna() & ~texts.isin(MISSING_MARKS)).to_numpy(dtype=bool)
    wrong = np.append(bad, False)[codes]  # code −1 (missing) selects the last
    if wrong.any():
        raise _unlike(column, int(wrong.argmax()), spelling)
    kind = "datetime64[us]" if spelling in DATES else "float64"
    found = np.append(values.to_numpy(dtype=kind), np.array([None], dtype=kind))
    return pd.Series(found[codes], index=column.index, name=column.name)


def _read(texts: pd.Series[Any], spelling: str) -> pd.Series[Any]:
    """Return the numbers or dates of texts, NaN or NaT where they are written in another way."""
    if spelling in DATES:
        written, iso = DATES[spelling]
        ordered = texts.where(texts.str.fullmatch(written)).str.replace(written, iso, regex=True)
        return pd.Series(pd.to_datetime(ordered, errors="coerce", format="ISO8601"))
    unit, decimal = NUMBERS[spelling]
    if unit:
        marked = texts.str.fullmatch(rf"[+-]?\s*{re.escape(unit)}.*|.*{re.escape(unit)}")
        texts = texts.where(marked).str.replace(unit, "", n=1, regex=False)
        texts = texts.str.replace(r"\s+", " ", regex=True).str.strip()
    mark, thousands = re.escape(decimal), r"[, \u00a0\u202f']" if decimal == "." else r"[. \u00a0\u202f']"
    grouped = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+"  # 0,250 has a decimal comma
    pattern = rf"[+-]?\s?(?:{grouped}|\d+)(?:{mark}\d+)?|[+-]?{mark}\d+"
    if decimal == ".":  # 1.200 is 1200 beside a decimal comma
        pattern = f"{pattern}|{PLAIN_NUMBER}"
    followed = texts.where(texts.str.fullmatch(pattern))
    bare = followed.str.replace(rf"{thousands}|\s", "", regex=True).str.replace(decimal, ".", regex=False)
    return pd.to_numeric(bare, errors="coerce")


def _taken_as_is(column: pd.Series[Any], spelling: str) -> pd.Series[Any]:
    """Return numbers or dates, unless all may be misread texts of this spelling: 2.000 as 2, 1/2/2026 as 2 January."""
    unit, decimal = NUMBERS.get(spelling, ("", ""))
    may_be, could_be = np.zeros((2, len(column)), dtype=bool)
    if unit == "%":
        may_be = could_be = column.notna().to_numpy()  # 0.12 or 12?
    elif decimal == "," and column.dtype.kind == "f":
        size = np.abs(column.to_numpy(dtype=np.float64, na_value=np.nan))
        size[np.isinf(size)] = np.nan
        is_short = np.abs(np.round(size, 3) - size) <= 1e-6 * size  # also in single precision
        may_be = is_short & (size >= 1) & (size < THOUSAND)
        could_be = may_be | (np.floor(size) == size)
    elif spelling == "day/month/year" and column.dtype.kind == "M":
        could_be = (column.dt.day <= MONTHS).to_numpy(dtype=bool)
        may_be = could_be & (column.dt.day != column.dt.month).to_numpy(dtype=bool)
    if may_be.any() and (could_be | column.isna().to_numpy()).all():
        raise _unlike(column, int(may_be.argmax()), spelling, ", which a program may have misread; give it as text")
    return column


def _distinct(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """Return the distinct texts of a column without marks of missing values; None if some values are not text."""
    if column.dtype.kind not in "OTU" or isinstance(column.dtype, pd.CategoricalDtype):
        return None
    try:
        values = pd.Series(column.dropna().unique())
    except TypeError:  # lists
        return None
    if pd.api.types.infer_dtype(values, skipna=True) != "string":
        return None
    texts = values.astype("string").str.strip()
    return texts[~texts.isin(MISSING_MARKS) & (texts != "")]


def _number_spelling(texts: pd.Series[Any]) -> str | None:
    if texts.str.fullmatch(CODE).any():
        return None
    return next((spelling for spelling in NUMBERS if _follow(texts, spelling)), None)


def _date_spelling(texts: pd.Series[Any]) -> str | None:
    fitting = [spelling for spelling in DATES if _follow(texts, spelling)]
    if texts.str.contains(".", regex=False).all():  # nobody writes the month first and then points
        fitting = [spelling for spelling in fitting if spelling != "month/day/year"]
    return fitting[0] if len(fitting) == 1 else None


def _follow(texts: pd.Series[Any], spelling: str) -> bool:
    """Return whether all texts are written like this; the first alone mostly shows that they are not."""
    return bool(_read(texts[:1], spelling).notna().all() and _read(texts, spelling).notna().all())


def _looks_like_number(texts: pd.Series[Any]) -> Any:
    bare = texts.str.replace(r"^([+-]?)\s*[$€£¥]\s*|\s*[$€£¥%]$", r"\1", regex=True)
    return bare.str.fullmatch(rf"{PLAIN_NUMBER}|[+-]?\d{{1,3}}(?:[,. ']\d{{3}})+(?:[.,]\d+)?|[+-]?\d+,\d+").fillna(
        False
    )


def _unlike(column: pd.Series[Any], position: int, spelling: str, advice: str = "") -> InputError:
    return InputError(
        f"column {column.name!r} was written like {spelling} when the model was fitted, "
        f"but holds {str(column.iloc[position])!r} at row {column.index[position]}{advice}."
    )
