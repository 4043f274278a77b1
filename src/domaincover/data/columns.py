"""Infer the kind of a table column and read it as numbers, days or categories; also as a text column writes them.

A spelling of numbers and dates, such as 1,200 and $1,000.50, 12 %, 31/12/2020, ? for missing, is found only if every
value of the column follows it, so it never guesses at a part of the values. Dates are read only if a day above 12, a
year in front or points between the parts settle their order. A text column of nothing but digits stays text: it may
hold postcodes. Whoever fits remembers the spelling, so that new tables are read alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.errors import InputError

Kind = Literal["number", "boolean", "date", "category", "ignored"]
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ].*)?"
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # periods in days
MICROSECONDS_PER_DAY = 86_400e6
MISSING = None  # the category of missing values

# By numpy's kind letter, which nullable, sparse and Arrow types have as well.
KIND_OF_TYPE: dict[str, Kind] = {"b": "boolean", **dict.fromkeys("iufm", "number"), "M": "date"}
# By the result of pandas' infer_dtype.
KIND_OF_OBJECTS: dict[str, Kind] = {
    "boolean": "boolean",
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal", "timedelta64"), "number"),
    **dict.fromkeys(("date", "datetime", "datetime64"), "date"),
}
BOOLEANS = {"True": 1.0, "False": 0.0, "true": 1.0, "false": 0.0, True: 1.0, False: 0.0}
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


class Categories(NamedTuple):
    """The categories of a column seen in training, as text; None is the category of missing values."""

    levels: tuple[str | None, ...]

    @classmethod
    def of(cls, column: pd.Series[Any], most: int) -> Categories:
        """Return the most frequent categories of a column, at most `most`."""
        codes, distinct = _factorized(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        kept = sorted(zip(-counts, map(category_text, distinct), strict=True))[:most]
        levels = sorted({text for _, text in kept})
        return cls((*levels, MISSING) if (codes < 0).any() else tuple(levels))

    def codes(self, column: pd.Series[Any]) -> NDArray[np.int64]:
        """Return each value's position among the categories, −1 for unknown ones."""
        codes, distinct = _factorized(column)
        place = {level: k for k, level in enumerate(self.levels)}
        of_distinct = [place.get(category_text(value), -1) for value in distinct]
        return np.array([*of_distinct, place.get(MISSING, -1)])[codes]  # code −1 (missing) selects the last


def column_kind(column: pd.Series[Any], max_categories: int = 50) -> Kind:
    """Infer the kind of a column from its type and, for text and other objects, from its values."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    if isinstance(column.dtype, pd.PeriodDtype):
        return "date"
    return KIND_OF_TYPE.get(column.dtype.kind) or _kind_of_objects(column, max_categories)


def read_numbers(column: pd.Series[Any]) -> NDArray[Any]:
    """Return numbers, with booleans as 0 and 1, durations in seconds, and missing values as NaN."""
    if column.dtype.kind == "m":
        column = column.dt.total_seconds()
    if column.dtype.kind in "Mc":
        raise _unlike(column, 0, "held numbers")
    try:
        numbers = column.to_numpy(dtype=np.float32 if column.dtype == np.float32 else np.float64, na_value=np.nan)
    except OverflowError:  # integers of hundreds of digits
        numbers = column.map(_as_float, na_action="ignore").to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        numbers = _parsed_numbers(column)
    infinite = np.isinf(numbers)
    if infinite.any():
        row = column.index[infinite.argmax()]
        raise InputError(f"column {column.name!r} holds an infinite value at row {row}; replace it or leave it empty.")
    return numbers


def read_days(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Return dates as days since 1970 (UTC), with missing values as NaN."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    values = column
    if column.dtype.kind != "M":
        values = column.astype("string")
        values = values.where(values.str.fullmatch(ISO_DATE))  # pandas would read the number 20260131 as a date
    dates = pd.Series(pd.to_datetime(values, errors="coerce", utc=True, format="ISO8601"))
    bad = (dates.isna() & column.notna()).to_numpy()
    if bad.any():
        raise _unlike(column, int(bad.argmax()), "held dates", "; dates are written as 2026-01-31")
    # Microseconds can represent the year 9999, a common placeholder for "no end"; nanoseconds cannot.
    ticks = dates.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(ticks), np.nan, ticks.view(np.int64) / MICROSECONDS_PER_DAY)


def day_texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return dates, times and durations as text; each value's text does not depend on the other values."""
    codes, distinct = pd.factorize(column)
    spelled = np.array([*(str(value).removesuffix(" 00:00:00") for value in distinct), None], dtype=object)
    return pd.Series(spelled[codes], index=column.index, name=column.name, dtype=object)


def unreadable(name: Any) -> InputError:
    """Return the error for a column of lists or other objects."""
    return InputError(
        f"column {name!r} contains lists or other objects; only numbers, booleans, dates and text are read."
    )


def has_times(days: NDArray[np.float64]) -> bool:
    """Return whether some dates have a time of day."""
    return bool((days[~np.isnan(days)] % 1 != 0).any())


def date_parts(days: NDArray[np.float64], with_time: bool) -> list[NDArray[np.float64]]:
    """Return the days, and the sine and cosine of their phase in each cycle."""
    angles = [2 * np.pi * days / CYCLES[cycle] for cycle in date_cycles(with_time)]
    return [days, *(wave(angle) for angle in angles for wave in (np.sin, np.cos))]


def date_names(name: Any, with_time: bool) -> list[str]:
    """Return the names of `date_parts`."""
    return [
        f"{name} day",
        *(f"{name} {part} of {cycle}" for cycle in date_cycles(with_time) for part in ("sin", "cos")),
    ]


def date_cycles(with_time: bool) -> list[str]:
    """Return the cycles that dates have a phase in, that of the day only where they have times."""
    return [name for name in CYCLES if with_time or name != "day"]


def _kind_of_objects(column: pd.Series[Any], max_categories: int) -> Kind:
    try:
        distinct = pd.Series(column.dropna().unique())
    except TypeError:
        raise unreadable(column.name) from None
    kind = pd.api.types.infer_dtype(distinct, skipna=True)
    if kind in KIND_OF_OBJECTS:
        return KIND_OF_OBJECTS[kind]
    if kind == "string" and _all_dates(distinct):
        return "date"
    mostly_unique = len(distinct) > max_categories and len(distinct) > column.notna().sum() / 2
    return "ignored" if mostly_unique else "category"


def _all_dates(distinct: pd.Series[Any]) -> bool:
    if len(distinct) == 0 or not distinct.str.fullmatch(ISO_DATE).all():
        return False
    return bool(pd.to_datetime(distinct, format="ISO8601", errors="coerce", utc=True).notna().all())


def _factorized(column: pd.Series[Any]) -> tuple[NDArray[np.int64], Any]:
    try:
        codes, distinct = pd.factorize(column)
    except TypeError:
        raise unreadable(column.name) from None
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True).startswith("mixed"):
        # 1 and True are equal, but not the same level
        return pd.factorize(column.map(category_text, na_action="ignore"))
    return codes, distinct


def category_text(value: Any) -> str:
    """Return a category as text; 3.0 becomes "3", since missing values turn integers into floats."""
    whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _parsed_numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Read numbers, booleans and durations from objects, such as the text of a CSV file."""
    if pd.api.types.infer_dtype(column, skipna=True) == "timedelta":
        return np.asarray(pd.to_timedelta(column).dt.total_seconds(), dtype=np.float64)
    objects = column.astype(object)
    booleans = objects.map(BOOLEANS)
    numbers = pd.to_numeric(objects.where(booleans.isna(), booleans), errors="coerce")
    bad = (numbers.isna() & column.notna()).to_numpy()
    if bad.any():
        raise _unlike(column, int(bad.argmax()), "held numbers")
    return numbers.to_numpy(dtype=np.float64)


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def _unlike(column: pd.Series[Any], position: int, before: str, advice: str = "") -> InputError:
    """Return the error for a value of another kind than in training; rows are named by the table's index."""
    return InputError(
        f"column {column.name!r} {before} when the model was fitted, "
        f"but holds {str(column.iloc[position])!r} at row {column.index[position]}{advice}."
    )


# The unit of numbers and their decimal mark, by what `fit` prints and a saved model keeps; the other mark, spaces and
# apostrophes may part thousands.
NUMBERS = {
    "1,200.50": ("", "."),
    "1.200,50": ("", ","),
    **{f"{unit}1,200.50": (unit, ".") for unit in "$€£¥"},
    **{f"{unit}1.200,50": (unit, ",") for unit in "$€£¥"},
    "12.5 %": ("%", "."),
    "12,5 %": ("%", ","),
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
    if (spelling := _date_spelling(texts)) is not None or texts.str.fullmatch(CODE).any():
        return spelling
    return next((spelling for spelling in NUMBERS if _follow(texts, spelling)), None)


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
        raise _unlike(column, int(wrong.argmax()), f"was written like {spelling}")
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
        misread = ", which a program may have misread; give it as text"
        raise _unlike(column, int(may_be.argmax()), f"was written like {spelling}", misread)
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
