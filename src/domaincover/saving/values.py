"""Convert plain values to strict JSON and back, preserving types: names, numbers, dates, arrays, tables.

A value without a JSON type becomes an object whose only key is a tag: {"tuple": […]}, {"array": {…}}. The tags are a
closed list, and none of them can name a function or a class.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import Categories
from domaincover.errors import InputError

Json = Any
Readers = Mapping[str, Callable[[Json], Any]]
MOST_IN_JSON = 64  # numbers of an array; `other` converts larger ones
MOST_BYTES = 2**30  # of an array, since a forged width of text could require any amount
# Not numpy's own dtype parser, which also accepts structures of any size.
DTYPES = re.compile(r"[<>|](b1|[iu][1248]|f[248]|U\d{1,6}|[Mm]8\[(Y|M|W|D|h|m|s|ms|us|ns)\])|\|O")


def raise_unsupported(value: Any) -> NoReturn:
    """Raise an error for a value of a type that cannot be saved."""
    kind, text = type(value), " ".join(repr(value).split())
    raise InputError(
        f"{text[:60]} is a {kind.__module__}.{kind.__qualname__}; only text, numbers, booleans, dates and times "
        "without a zone, None, and tuples and arrays of these can be saved."
    )


def to_json(value: Any, other: Callable[[Any], Json] = raise_unsupported) -> Json:
    """Convert a value to strict JSON; `other` converts values that are not plain."""
    # By exact type: np.float64 is a float and an Enum may be a str, but they would not be restored as such.
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value, other)
    if isinstance(value, np.generic):
        return {"scalar": _array(np.asarray(value), other)["array"]}
    return other(value)


def from_json(content: Json, readers: Readers | None = None) -> Any:
    """Restore a value written by `to_json`; `readers` maps additional tags to their readers."""
    readers = readers or {}
    if isinstance(content, list):
        return [from_json(item, readers) for item in content]
    if not isinstance(content, dict):
        return content
    if len(content) != 1:
        raise InputError(f"expected one tag, found the keys {sorted(content)}.")
    ((tag, inner),) = content.items()
    if tag in readers:
        return readers[tag](inner)
    if tag not in _READERS:
        raise InputError(f"unknown tag {tag!r}.")
    return _READERS[tag](inner, readers)


def _array(array: NDArray[Any], other: Callable[[Any], Json]) -> dict[str, Json]:
    if not DTYPES.fullmatch(array.dtype.str):
        raise InputError(f"an array of {array.dtype} cannot be saved.")
    if array.size > MOST_IN_JSON and array.dtype.kind in "biuf" and array.dtype.isnative:
        return other(array)
    items = array.ravel()
    if array.dtype.kind in "Mm":
        listed = items.view(array.dtype.str[0] + "i8").tolist()
    elif array.dtype.kind == "O":
        listed = [to_json(item, other) for item in items]
    else:
        listed = items.tolist()
    if array.dtype.kind == "f" and not np.isfinite(items).all():  # strict JSON has no NaN or infinity
        listed = [item if math.isfinite(item) else repr(item) for item in listed]
    return {"array": {"dtype": array.dtype.str, "shape": list(array.shape), "items": listed}}


def _read_array(content: Json, readers: Readers) -> NDArray[Any]:
    name, items = content["dtype"], content["items"]
    if not DTYPES.fullmatch(name):
        raise InputError(f"unsupported array type {name!r}.")
    dtype = np.dtype(name)
    if dtype.itemsize * len(items) > MOST_BYTES:
        raise InputError(f"an array of {len(items)} items of {name!r} is too large.")
    if dtype.kind == "O":
        array = np.empty(len(items), dtype=object)
        array[:] = [from_json(item, readers) for item in items]
    elif dtype.kind in "Mm":
        array = np.array(items, dtype=name[0] + "i8").view(dtype)
    else:
        array = np.array([float(item) for item in items] if dtype.kind == "f" else items, dtype=dtype)
    return array.reshape(content["shape"])


def _index(index: pd.Index[Any], other: Callable[[Any], Json]) -> Json:
    return [to_json(index.to_numpy(), other), to_json(index.name, other), index.dtype == object]


def _read_index(content: Json, readers: Readers) -> pd.Index[Any]:
    # pandas infers the type (text, dates) unless the values are to stay objects.
    values, name, are_objects = from_json(content, readers)
    return pd.Index(values, dtype=object if are_objects else None, name=name, tupleize_cols=False)


def _table(table: pd.DataFrame, other: Callable[[Any], Json]) -> Json:
    columns = [to_json(table.iloc[:, k].to_numpy(), other) for k in range(table.shape[1])]
    return {"table": [_index(table.index, other), _index(table.columns, other), columns]}


def _read_table(content: Json, readers: Readers) -> pd.DataFrame:
    index, names, columns = content
    table = pd.DataFrame(dict(enumerate(from_json(columns, readers))), index=_read_index(index, readers))
    table.columns = _read_index(names, readers)
    return table


def _moment(moment: dt.datetime, other: Callable[[Any], Json]) -> Json:
    if moment.tzinfo is not None:
        return other(moment)
    if isinstance(moment, pd.Timestamp):
        return {"timestamp": [int(moment.to_datetime64().view("i8")), moment.unit]}
    return {"datetime": moment.isoformat()}


def _read_timestamp(content: Json, _: Readers) -> pd.Timestamp:
    count, unit = content
    if unit not in ("s", "ms", "us", "ns"):
        raise InputError(f"unknown time unit {unit!r}.")
    return pd.Timestamp(np.datetime64(count, unit))


_WRITERS: dict[type, Callable[[Any, Callable[[Any], Json]], Json]] = {
    **dict.fromkeys((type(None), bool, int, str), lambda value, _: value),
    float: lambda value, _: value if math.isfinite(value) else {"float": repr(value)},
    list: lambda value, other: [to_json(item, other) for item in value],
    tuple: lambda value, other: {"tuple": [to_json(item, other) for item in value]},
    dict: lambda value, other: {"dict": [[to_json(key, other), to_json(item, other)] for key, item in value.items()]},
    np.ndarray: _array,
    pd.DataFrame: _table,
    pd.Timestamp: _moment,
    dt.datetime: _moment,
    dt.date: lambda value, _: {"date": value.isoformat()},
    Categories: lambda value, _: {"categories": list(value.levels)},
}

_READERS: dict[str, Callable[[Json, Readers], Any]] = {
    "float": lambda content, _: float(content),
    "tuple": lambda content, readers: tuple(from_json(content, readers)),
    "dict": lambda content, readers: {from_json(key, readers): from_json(item, readers) for key, item in content},
    "scalar": lambda content, readers: _read_array(content, readers)[()],
    "array": _read_array,
    "table": _read_table,
    "timestamp": _read_timestamp,
    "datetime": lambda content, _: dt.datetime.fromisoformat(content),
    "date": lambda content, _: dt.date.fromisoformat(content),
    "categories": lambda content, _: Categories(tuple(content)),
}
