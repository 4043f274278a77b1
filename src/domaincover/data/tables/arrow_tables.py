"""Tables with types of their own: Arrow files, Parquet files, and folders of Parquet parts as one table.

Folder names such as country=fr give columns, as Hive and Spark write them; names that start with a point or an
underscore are skipped. All parts have the same columns. Where their types differ, as integers and floats, or numbers
and a column without values, the table has the type that holds both. In pandas, columns have the types that CSV would
give: decimals are floats, dates timestamps, bytes and times of day text.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from domaincover.data.columns import day_texts, unreadable
from domaincover.data.tables.table import ROWS_AT_ONCE, Table, Wanted, reading
from domaincover.errors import InputError

PARQUET_ENDINGS = (".parquet", ".pq")
HIDDEN = (".", "_")  # how names begin that are skipped
INDEX_COLUMN = re.compile(r"__index_level_\d+__")  # unnamed row numbers of pandas
MISSING_VALUE = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")  # "007" is a name


class TypedTable(Table):
    """A table whose format has types, read as Arrow tables; `schema` has its columns and their types."""

    def __init__(self, path: Path, schema: Any, n_rows: int) -> None:
        self.schema = self._own_schema = schema
        self.n_rows: int = n_rows
        columns = [name for name in schema.names if not INDEX_COLUMN.fullmatch(name)]
        if not columns:
            raise InputError(f"{path} has no columns.")
        super().__init__(path, columns, n_rows > 0)

    def no_copies(self, copied: Sequence[str]) -> pd.DataFrame:
        """Return columns to copy without rows."""
        return _copies(self._own_schema.empty_table(), copied)

    def arrow_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        """Read some columns as Arrow tables of at most `rows_at_once` rows."""
        return (self._joined(block, columns) for block in self._own_blocks(rows_at_once, columns))

    def _read(self, wanted: Wanted) -> pd.DataFrame:
        blocks = list(self.arrow_blocks(ROWS_AT_ONCE, wanted.columns))
        whole = pa.concat_tables(blocks or [self.schema.empty_table().select(wanted.columns)])
        return to_pandas(whole, wanted.texts)

    def _blocks(
        self, rows_at_once: int, wanted: Wanted, copied: list[str]
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        for block in self._own_blocks(rows_at_once, list(dict.fromkeys([*wanted.columns, *copied]))):
            kept = _copies(block, copied)
            yield to_pandas(self._joined(block, wanted.columns), wanted.texts), kept

    @abstractmethod
    def _own_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        """Read some columns with the types of the file."""

    def _joined(self, block: Any, columns: list[str]) -> Any:
        """Return some columns of a block with the types of the whole table."""
        joined = block.select(columns)
        for k, name in enumerate(columns):
            kind = self.schema.field(name).type
            if block[name].type != kind:
                try:
                    joined = joined.set_column(k, name, block[name].cast(kind))
                except pa.ArrowException as error:
                    what = f"column {name!r} is not {kind}, as in other parts"
                    raise InputError(f"{self.path}: {what}: {error}") from error
        return joined


class ArrowTable(TypedTable):
    """An Arrow file (Feather), whose batches are checked in full: Arrow itself trusts offsets within them."""

    def __init__(self, path: Path) -> None:
        with _arrow_file(path) as file:
            n_rows = sum(file.get_batch(k).num_rows for k in range(file.num_record_batches))
            super().__init__(path, file.schema, n_rows)

    def _own_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        with _arrow_file(self.path) as file:
            for k in range(file.num_record_batches):
                batch = file.get_batch(k).select(columns)
                batch.validate(full=True)
                for start in range(0, batch.num_rows, rows_at_once):
                    yield pa.Table.from_batches([batch.slice(start, rows_at_once)])


class ParquetTable(TypedTable):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        with _parquet_file(path) as file:
            super().__init__(path, file.schema_arrow, file.metadata.num_rows)

    def _own_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        with _parquet_file(self.path) as file:
            for batch in file.iter_batches(rows_at_once, columns=columns):
                yield pa.Table.from_batches([batch])


class PartTable(ParquetTable):
    """One Parquet file of a folder, as a table with the columns and types of all."""

    def __init__(self, path: Path, root: Path) -> None:
        super().__init__(path)
        self.base = root
        self.name = path.relative_to(root).as_posix()
        self.folder_values = _folder_values(path.relative_to(root))
        if twice := self.folder_values.keys() & {*self.columns}:
            raise InputError(f"{path} has the column {min(twice)!r}, and so has its folder's name; remove one.")

    def join(self, schema: Any) -> None:
        """Take the columns and types of the whole table."""
        self.schema, self.columns = schema, tuple(schema.names)

    def _own_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        # One more where none is stored, for the number of rows.
        stored = [name for name in columns if name not in self.folder_values] or self._own_schema.names[:1]
        for block in super()._own_blocks(rows_at_once, stored):
            for name in self.folder_values.keys() & {*columns}:
                value, kind = self.folder_values[name], self.schema.field(name).type
                known = int(value) if value is not None and pa.types.is_integer(kind) else value
                block = block.append_column(name, pa.repeat(pa.scalar(known, kind), block.num_rows))
            yield block


class PartsTable(TypedTable):
    """A folder of Parquet parts, in the order of their names."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.parts = [PartTable(path / name, path) for name in names]
        first = self.parts[0]
        types = {name: first.schema.field(name).type for name in first.columns}
        for part in self.parts:
            _widen(types, part, first)
        for name in first.folder_values:
            types[name] = _type_of_values([part.folder_values[name] for part in self.parts])
        super().__init__(path, pa.schema(types.items()), sum(part.n_rows for part in self.parts))
        self.base, self.files = path, [part.path for part in self.parts]
        for part in self.parts:
            part.join(self.schema)

    def _own_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        for part in self.parts:
            yield from part.arrow_blocks(rows_at_once, columns)


def part_names(folder: Path) -> list[str]:
    """Return the sorted names of the Parquet files in and below a folder."""
    return sorted(names_in(folder, PARQUET_ENDINGS))


def names_in(folder: Path, endings: tuple[str, ...]) -> Iterator[str]:
    """Yield the files in and below a folder that end so, with slashes on every system."""
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(HIDDEN)]
        found = (name for name in files if not name.startswith(HIDDEN) and name.lower().endswith(endings))
        yield from (Path(above, name).relative_to(folder).as_posix() for name in found)


def _folder_values(path: Path) -> dict[str, str | None]:
    """Return the columns that a path's folders give.

    >>> _folder_values(Path("country=fr/city=Le%20Mans/part-0.parquet"))
    {'country': 'fr', 'city': 'Le Mans'}
    """
    pairs = (name.partition("=") for name in path.parts[:-1])
    values = {unquote(key): unquote(value) for key, is_pair, value in pairs if is_pair and key}
    return {key: None if value == MISSING_VALUE else value for key, value in values.items()}


def _type_of_values(values: Sequence[str | None]) -> Any:
    """Return the type of a column of folder names: integers where all are, else text."""
    known = [value for value in values if value is not None]
    return pa.int64() if known and all(WHOLE_NUMBER.fullmatch(value) for value in known) else pa.string()


def _widen(types: dict[str, Any], part: PartTable, first: PartTable) -> None:
    """Replace types by those that hold the columns of a part as well; reject a part with others than the first."""
    for one, other in ((part, first), (first, part)):
        own = {*one.columns, *one.folder_values}
        if lacking := [name for name in (*other.columns, *other.folder_values) if name not in own]:
            raise InputError(f"{one.path} has no column {lacking[0]!r}, which {other.path} has; parts need the same.")
    for name in part.columns:
        known, kind = types[name], part.schema.field(name).type
        try:
            both = [pa.schema([(name, one)]) for one in (known, kind)]
            types[name] = pa.unify_schemas(both, promote_options="permissive").field(0).type
        except pa.ArrowException:
            raise InputError(
                f"{part.path}: column {name!r} is {kind}, but {known} in parts before it; write one type."
            ) from None


@contextmanager
def _arrow_file(path: Path) -> Iterator[Any]:
    with reading(path), pa.OSFile(os.fsencode(path)) as source:
        yield pa.ipc.open_file(source)


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    # OSFile, because pyarrow resolves URLs such as s3://…; a buffer, because pre_buffer loads whole row groups;
    # checksums, where the file has some, because damaged numbers are still numbers
    with (
        reading(path),
        pa.OSFile(os.fsencode(path)) as source,
        pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True) as file,
    ):
        yield file


def to_pandas(table: Any, text_columns: Collection[str]) -> pd.DataFrame:
    """Return a pandas table, with some columns as text."""
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


def _copies(table: Any, columns: Sequence[str]) -> pd.DataFrame:
    """Return columns with the types of the file."""
    plain = {name: table[name].cast(_plain_type(table[name].type)) for name in columns}
    kept = {name: pd.Series(pd.arrays.ArrowExtensionArray(column)) for name, column in plain.items()}
    return pd.DataFrame(kept, index=range(table.num_rows), columns=list(columns))


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a copied column as text columns are read."""
    found = _to_text(column.array.__arrow_array__(), str(column.name))
    return pd.Series(found.to_pandas().to_numpy(), index=column.index, name=column.name, dtype=object)


def has_bytes(column: pd.Series[Any]) -> bool:
    """Return whether a copied column has bytes."""
    return isinstance(column.dtype, pd.ArrowDtype) and _is_binary(column.dtype.pyarrow_dtype)


def _plain_type(kind: Any) -> Any:
    """Return the type of the values of categories, and what those of an extension are stored as."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_binary(kind: Any) -> bool:
    """Return whether a column contains bytes, which older writers use for text."""
    types, kind = pa.types, _plain_type(kind)
    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(is_kind(kind) for is_kind in tests)


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
