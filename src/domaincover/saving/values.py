"""Plain values as strict JSON and back, each with its type: names, numbers, dates, arrays, tables.

What JSON has no word for is an object with one key, which says what it is: {"tuple": […]}, {"array": {…}}. Reading
knows this list of words and no other, and none of them can name a function or a class.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.encoding import Categories
from domaincover.errors import InputError

Json = Any
Words = Mapping[str, Callable[[Json], Any]]
MOST_BYTES = 2**30  # of text of one width, which a forged width would blow up
# numpy's own parser of types would also take structures of any size.
DTYPES = re.compile(r"[<>|](b1|[iu][1248]|f[248]|U\d{1,6}|[Mm]8\[(Y|M|W|D|h|m|s|ms|us|ns)\])|\|O")


def refuse(value: Any) -> NoReturn:
    """Say that a value is of no kind that can be saved."""
    kind, text = type(value), " ".join(repr(value).split())
    raise InputError(
        f"{text[:60]} is a {kind.__module__}.{kind.__qualname__}; text, numbers, booleans, dates, None, and tuples "
        "and arrays of these can be saved."
    )


def to_json(value: Any, other: Callable[[Any], Json] = refuse) -> Json:
    """Return a value as strict JSON; `other` writes what is not plain."""
    # The exact type decides: np.float64 is a float, and an Enum may be text, but they would not come back as such.
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value, other)
    if isinstance(value, np.generic):
        return {"scalar": _array(np.asarray(value), other)["array"]}
    return _index(value, other) if isinstance(value, pd.Index) else other(value)


def from_json(content: Json, words: Words | None = None) -> Any:
    """Return the value that `to_json` wrote; `words` reads what its `other` wrote."""
    words = words or {}
    if isinstance(content, list):
        return [from_json(item, words) for item in content]
    if not isinstance(content, dict):
        return content
    if len(content) != 1:
        raise InputError(f"an object with the keys {sorted(content)} is no value.")
    ((word, inner),) = content.items()
    if word in words:
        return words[word](inner)
    if word not in _READERS:
        raise InputError(f"{word!r} is no known kind of value.")
    return _READERS[word](inner, words)


def _float(value: float, other: Any) -> Json:  # noqa: ARG001
    return value if math.isfinite(value) else {"float": repr(value)}


def _array(array: NDArray[Any], other: Callable[[Any], Json]) -> dict[str, Json]:
    if not DTYPES.fullmatch(array.dtype.str):
        raise InputError(f"an array of {array.dtype} cannot be saved.")
    items = array.ravel()
    if array.dtype.kind in "Mm":
        listed = items.view(array.dtype.str[0] + "i8").tolist()
    elif array.dtype.kind == "O":
        listed = [to_json(item, other) for item in items]
    else:
        listed = items.tolist()
    if array.dtype.kind == "f" and not np.isfinite(items).all():  # strict JSON has no word for these, float() has
        listed = [item if math.isfinite(item) else repr(item) for item in listed]
    return {"array": {"dtype": array.dtype.str, "shape": list(array.shape), "items": listed}}


def _read_array(content: Json, words: Words) -> NDArray[Any]:
    name, items = content["dtype"], content["items"]
    if not DTYPES.fullmatch(name):
        raise InputError(f"{name!r} is no known type of array.")
    dtype = np.dtype(name)
    if dtype.itemsize * len(items) > MOST_BYTES:
        raise InputError(f"{len(items)} items of {name!r} are more than any model has.")
    if dtype.kind == "O":
        array = np.empty(len(items), dtype=object)
        array[:] = [from_json(item, words) for item in items]
    elif dtype.kind in "Mm":
        array = np.array(items, dtype=name[0] + "i8").view(dtype)
    else:
        array = np.array([float(item) for item in items] if dtype.kind == "f" else items, dtype=dtype)
    return array.reshape(content["shape"])


def _index(index: pd.Index[Any], other: Callable[[Any], Json]) -> Json:
    if type(index) is pd.RangeIndex:
        return {"range": [index.start, index.stop, index.step, to_json(index.name, other)]}
    kept = {"values": to_json(index.to_numpy(), other), "name": to_json(index.name, other)}
    return {"index": {**kept, "objects": index.dtype == object}}


def _read_index(content: Json, words: Words) -> pd.Index[Any]:
    # pandas finds the type again (text, dates with a zone) unless the values are to stay objects.
    return pd.Index(
        from_json(content["values"], words),
        dtype=object if content["objects"] else None,
        name=from_json(content["name"], words),
        tupleize_cols=False,
    )


def _read_range(content: Json, words: Words) -> pd.RangeIndex:
    start, stop, step, name = content
    return pd.RangeIndex(start, stop, step, name=from_json(name, words))


def _table(table: pd.DataFrame, other: Callable[[Any], Json]) -> Json:
    columns = [to_json(table.iloc[:, k].to_numpy(), other) for k in range(table.shape[1])]
    return {"table": {"index": _index(table.index, other), "names": _index(table.columns, other), "columns": columns}}


def _read_table(content: Json, words: Words) -> pd.DataFrame:
    columns = dict(enumerate(from_json(content["columns"], words)))
    table = pd.DataFrame(columns, index=from_json(content["index"], words))
    table.columns = from_json(content["names"], words)
    return table


def _timestamp(stamp: pd.Timestamp, other: Any) -> Json:  # noqa: ARG001
    moment = stamp.to_datetime64()  # in UTC where there is a zone
    return {"timestamp": [int(moment.view("i8")), stamp.unit, _zone(stamp.tzinfo)]}


def _read_timestamp(content: Json, words: Words) -> pd.Timestamp:  # noqa: ARG001
    count, unit, zone = content
    if unit not in ("s", "ms", "us", "ns"):
        raise InputError(f"{unit!r} is no known unit of time.")
    stamp = pd.Timestamp(np.datetime64(count, unit))
    return stamp if zone is None else stamp.tz_localize(dt.UTC).tz_convert(_read_zone(zone))


def _datetime(moment: dt.datetime, other: Any) -> Json:  # noqa: ARG001
    return {"datetime": [moment.replace(tzinfo=None).isoformat(), moment.fold, _zone(moment.tzinfo)]}


def _read_datetime(content: Json, words: Words) -> dt.datetime:  # noqa: ARG001
    text, fold, zone = content
    return dt.datetime.fromisoformat(text).replace(fold=fold, tzinfo=None if zone is None else _read_zone(zone))


def _zone(zone: dt.tzinfo | None) -> str | float | None:
    """Return a time zone by name, or as seconds from UTC."""
    if zone is None:
        return None
    if isinstance(zone, ZoneInfo) and zone.key is not None:
        return zone.key
    return zone.utcoffset(None).total_seconds() if isinstance(zone, dt.timezone) else refuse(zone)


def _read_zone(zone: str | float) -> dt.tzinfo:
    return ZoneInfo(zone) if isinstance(zone, str) else dt.timezone(dt.timedelta(seconds=zone))


def _as_it_is(value: Any, other: Any) -> Json:  # noqa: ARG001
    return value


_WRITERS: dict[type, Callable[[Any, Callable[[Any], Json]], Json]] = {
    type(None): _as_it_is,
    bool: _as_it_is,
    int: _as_it_is,
    str: _as_it_is,
    float: _float,
    list: lambda value, other: [to_json(item, other) for item in value],
    tuple: lambda value, other: {"tuple": [to_json(item, other) for item in value]},
    dict: lambda value, other: {"dict": [[to_json(key, other), to_json(item, other)] for key, item in value.items()]},
    np.ndarray: _array,
    pd.DataFrame: _table,
    pd.Timestamp: _timestamp,
    dt.datetime: _datetime,
    dt.date: lambda value, _: {"date": value.isoformat()},
    Categories: lambda value, _: {"categories": list(value.levels)},
}

_READERS: dict[str, Callable[[Json, Words], Any]] = {
    "float": lambda content, _: float(content),
    "tuple": lambda content, words: tuple(from_json(content, words)),
    "dict": lambda content, words: {from_json(key, words): from_json(item, words) for key, item in content},
    "scalar": lambda content, words: _read_array(content, words)[()],
    "array": _read_array,
    "index": _read_index,
    "range": _read_range,
    "table": _read_table,
    "timestamp": _read_timestamp,
    "datetime": _read_datetime,
    "date": lambda content, _: dt.date.fromisoformat(content),
    "categories": lambda content, _: Categories(tuple(content)),
}
