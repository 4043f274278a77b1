"""Infer the kind of a table column and read it as numbers, days or categories."""

from __future__ import annotations

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
        raise _unlike(column, 0, "numbers")
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
        raise _unlike(column, int(bad.argmax()), "dates", "; dates are written as 2026-01-31")
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
        raise _unlike(column, int(bad.argmax()), "numbers")
    return numbers.to_numpy(dtype=np.float64)


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def _unlike(column: pd.Series[Any], position: int, held: str, advice: str = "") -> InputError:
    """Return the error for a value of another kind than in training; rows are named by the table's index."""
    return InputError(
        f"column {column.name!r} held {held} when the model was fitted, "
        f"but holds {str(column.iloc[position])!r} at row {column.index[position]}{advice}."
    )
