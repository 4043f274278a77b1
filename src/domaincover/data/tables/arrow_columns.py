"""Convert Arrow columns to pandas with the same types as CSV would give."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from domaincover.data.columns import day_texts, unreadable
from domaincover.errors import InputError


def to_pandas(table: Any, text_columns: Collection[str]) -> pd.DataFrame:
    """Return a pandas table: decimals as floats, dates as timestamps, bytes and times of day as text."""
    for k, field in enumerate(table.schema):
        _check_zone(field)
        if field.name in text_columns:
            table = table.set_column(k, field.name, _to_text(table[k], field.name))
        elif pa.types.is_decimal(field.type) or pa.types.is_null(field.type):
            table = table.set_column(k, field.name, table[k].cast(pa.float64()))
        elif pa.types.is_time(field.type) or _is_binary(field.type):
            table = table.set_column(k, field.name, _cast_to_text(table[k], field.name))
    return table.to_pandas(ignore_metadata=True, date_as_object=False, self_destruct=True)


def _check_zone(field: Any) -> None:
    """Reject times in a zone that this machine does not know, which packages report each in its own way."""
    if pa.types.is_timestamp(field.type) and field.type.tz:
        try:
            pa.array([0], field.type).to_pandas()
        except Exception:
            zone = f"the zone {field.type.tz!r}, which is not known here"
            raise InputError(f"column {field.name!r} has times in {zone}; write them in UTC.") from None


def copies(table: Any, columns: Sequence[str]) -> pd.DataFrame:
    """Return columns of an Arrow table with the types of the file."""
    kept = {name: pd.Series(pd.arrays.ArrowExtensionArray(_plain(table[name]))) for name in columns}
    return pd.DataFrame(kept, index=range(table.num_rows), columns=list(columns))


def _plain(column: Any) -> Any:
    """Return categories as their values, and values of an extension as what they are stored as."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column.cast(column.type.storage_type) if isinstance(column.type, pa.BaseExtensionType) else column


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a copied column as text columns are read."""
    found = _to_text(column.array.__arrow_array__(), str(column.name))
    return pd.Series(found.to_pandas().to_numpy(), index=column.index, name=column.name, dtype=object)


def has_bytes(column: pd.Series[Any]) -> bool:
    """Return whether a copied column has bytes."""
    return isinstance(column.dtype, pd.ArrowDtype) and _is_binary(column.dtype.pyarrow_dtype)


def _is_binary(kind: Any) -> bool:
    """Return whether a column contains bytes, which older writers use for text."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _to_text(column: Any, name: str) -> Any:
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "True", "False")  # as in CSV; Arrow would write lower case
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)  # which Arrow would write as text
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type) or pa.types.is_duration(column.type):
        spelled = day_texts(column.to_pandas(date_as_object=False))
        return pa.chunked_array([pa.array(spelled, pa.string(), from_pandas=True)])
    return _cast_to_text(column, name)


def _cast_to_text(column: Any, name: str) -> Any:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    try:
        return column.cast(pa.string())
    except pa.ArrowNotImplementedError:
        raise unreadable(name) from None
    except pa.ArrowInvalid:
        raise InputError(f"column {name!r} contains bytes that are not text; drop it, or write it as text.") from None
