"""Tables with types of their own: Arrow files, Parquet files, and folders of Parquet parts as one table.

Folder names such as country=fr give columns, as Hive and Spark write them; names that start with a point or an
underscore are skipped. All parts have the same columns. Where their types differ, as integers and floats, or numbers
and a column without values, the table has the type that holds both.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from domaincover.data.tables.arrow_columns import as_text, copies, to_pandas
from domaincover.data.tables.faults import reading
from domaincover.data.tables.table import Table, Wanted
from domaincover.errors import InputError

PARQUET_ENDINGS = (".parquet", ".pq")
INDEX_COLUMN = re.compile(r"__index_level_\d+__")
MISSING_VALUE = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")  # "007" is a name


class TypedTable(Table):
    """A table whose format has types, read as Arrow tables."""

    @abstractmethod
    def arrow(self, columns: list[str]) -> Any:
        """Return some columns as one Arrow table."""

    def text_of(self, copied: pd.Series[Any]) -> pd.Series[Any]:
        """Return a copied column as `text_columns` are read."""
        return as_text(copied)

    def _read(self, wanted: Wanted) -> pd.DataFrame:
        return to_pandas(self.arrow(wanted.columns), wanted.texts)

    def _blocks(self, rows_at_once: int, wanted: Wanted) -> Iterator[pd.DataFrame]:
        for block in self.arrow_blocks(rows_at_once, wanted.columns):
            yield to_pandas(block, wanted.texts)

    def _with_copies(
        self, rows_at_once: int, wanted: Wanted, copied: list[str]
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        for block in self.arrow_blocks(rows_at_once, _distinct(wanted.columns, copied)):
            kept = copies(block, copied)
            yield to_pandas(block.select(wanted.columns), wanted.texts), kept


class ArrowTable(TypedTable):
    """An Arrow file (Feather), whose batches are checked in full: Arrow itself trusts offsets within them."""

    def __init__(self, path: Path) -> None:
        with _arrow_file(path) as file:
            self.n_rows = sum(file.get_batch(k).num_rows for k in range(file.num_record_batches))
            super().__init__(path, _named(path, file.schema.names), self.n_rows > 0)

    def arrow_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        """Read some columns as Arrow tables of at most `rows_at_once` rows."""
        with _arrow_file(self.path) as file:
            for k in range(file.num_record_batches):
                batch = file.get_batch(k).select(columns)
                batch.validate(full=True)
                for start in range(0, batch.num_rows, rows_at_once):
                    yield pa.Table.from_batches([batch.slice(start, rows_at_once)])

    def arrow(self, columns: list[str]) -> Any:
        """Return some columns as one Arrow table."""
        with _arrow_file(self.path) as file:
            table = file.read_all().select(columns)
            table.validate(full=True)
            return table


class ParquetTable(TypedTable):
    """A Parquet file."""

    n_rows: int

    def __init__(self, path: Path) -> None:
        with _parquet_file(path) as file:
            self._schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
        super().__init__(path, _named(path, self._schema.names), self.n_rows > 0)

    def arrow_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        """Read some columns as Arrow tables of at most `rows_at_once` rows."""
        for stored in self._stored_blocks(rows_at_once, columns):
            yield self._completed(stored, columns)

    def arrow(self, columns: list[str]) -> Any:
        """Return some columns as one Arrow table."""
        with _parquet_file(self.path) as file:
            return self._completed(file.read(self._stored(columns)), columns)

    def _stored_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        with _parquet_file(self.path) as file:
            for batch in file.iter_batches(rows_at_once, columns=self._stored(columns)):
                yield pa.Table.from_batches([batch])

    def _stored(self, columns: list[str]) -> list[str]:
        """Return which columns to read from the file."""
        return columns

    def _completed(self, stored: Any, columns: list[str]) -> Any:
        """Return the columns asked for, in their order, from those that were read."""
        return stored.select(columns)


class PartTable(ParquetTable):
    """One Parquet file of a folder, as a table with the columns and types of all."""

    def __init__(self, path: Path, root: Path) -> None:
        super().__init__(path)
        self.root = root
        self.folder_values = _folder_values(path.relative_to(root))
        self.types = {name: self._schema.field(name).type for name in self.columns}

    @property
    def name(self) -> str:
        """The path within the folder of parts."""
        return within(self.path, self.root)

    @property
    def base(self) -> Path:
        """The folder from which paths in the table start."""
        return self.root

    def join(self, columns: Sequence[str], types: dict[str, Any]) -> None:
        """Take the columns and types of the whole table."""
        self.columns, self.types = tuple(columns), types

    def no_copies(self, copied: Sequence[str]) -> pd.DataFrame:
        """Return columns to copy without rows."""
        return copies(self._schema.empty_table(), copied)

    def _with_copies(
        self, rows_at_once: int, wanted: Wanted, copied: list[str]
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        for stored in self._stored_blocks(rows_at_once, _distinct(wanted.columns, copied)):
            for name in self.folder_values.keys() & {*copied}:
                stored = stored.append_column(name, self._column(stored, name))
            kept = copies(stored, copied)  # with the types of this part
            yield to_pandas(self._completed(stored, wanted.columns), wanted.texts), kept

    def _stored(self, columns: list[str]) -> list[str]:
        # One more where none is stored, for the number of rows.
        return [name for name in columns if name not in self.folder_values] or self._schema.names[:1]

    def _completed(self, stored: Any, columns: list[str]) -> Any:
        return pa.table({name: self._column(stored, name) for name in columns})

    def _column(self, stored: Any, name: str) -> Any:
        kind = self.types[name]
        if name in self.folder_values:
            value = self.folder_values[name]
            known = int(value) if value is not None and pa.types.is_integer(kind) else value
            return pa.repeat(pa.scalar(known, kind), stored.num_rows)
        try:
            return stored[name] if stored[name].type == kind else stored[name].cast(kind)
        except pa.ArrowException as error:
            raise InputError(f"{self.path}: column {name!r} is not {kind}, as in other parts: {error}") from error


class PartsTable(TypedTable):
    """A folder of Parquet parts, in the order of their names."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.parts = [PartTable(path / name, path) for name in names]
        first = self.parts[0]
        types = dict(first.types)
        for part in self.parts:
            _check_alike(part, first)
            if part.types != types:
                _widen(types, part)
        columns = [*first.columns, *first.folder_values]
        for name in first.folder_values:
            types[name] = _type_of_values([part.folder_values[name] for part in self.parts])
        self.n_rows = sum(part.n_rows for part in self.parts)
        super().__init__(path, columns, self.n_rows > 0)
        for part in self.parts:
            part.join(columns, types)

    @property
    def base(self) -> Path:
        """The folder from which paths in the table start."""
        return self.path

    @property
    def files(self) -> list[Path]:
        """The files that the table consists of."""
        return [part.path for part in self.parts]

    def arrow_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        """Read some columns as Arrow tables of at most `rows_at_once` rows."""
        for part in self.parts:
            yield from part.arrow_blocks(rows_at_once, columns)

    def arrow(self, columns: list[str]) -> Any:
        """Return some columns as one Arrow table."""
        return pa.concat_tables(part.arrow(columns) for part in self.parts)


def part_names(folder: Path) -> list[str]:
    """Return the sorted names of the Parquet files in and below a folder."""
    return sorted(names_in(folder, PARQUET_ENDINGS))


def names_in(folder: Path, endings: tuple[str, ...]) -> Iterator[str]:
    """Yield the files in and below a folder that end so, with slashes on every system."""
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _is_visible(name)]
        found = (name for name in files if _is_visible(name) and name.lower().endswith(endings))
        yield from (within(Path(above, name), folder) for name in found)


def within(path: PurePath, folder: PurePath) -> str:
    """Return a path within a folder, with slashes on every system."""
    return path.relative_to(folder).as_posix()


def _is_visible(name: str) -> bool:
    return not name.startswith((".", "_"))


def _distinct(columns: list[str], copied: list[str]) -> list[str]:
    return list(dict.fromkeys([*columns, *copied]))


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


def _check_alike(part: PartTable, first: PartTable) -> None:
    """Reject a part whose columns are not those of the first."""
    for one, other in ((part, first), (first, part)):
        lacking = [name for name in _columns_of(other) if name not in _columns_of(one)]
        if lacking:
            raise InputError(f"{one.path} has no column {lacking[0]!r}, which {other.path} has; parts need the same.")
    twice = [name for name in part.folder_values if name in part.columns]
    if twice:
        raise InputError(f"{part.path} has the column {twice[0]!r}, and so has its folder's name; remove one.")


def _columns_of(part: PartTable) -> dict[str, Any]:
    return part.types | part.folder_values


def _widen(types: dict[str, Any], part: PartTable) -> None:
    """Replace types by those that hold the columns of a part as well."""
    for name, own in part.types.items():
        try:
            both = [pa.schema([(name, kind)]) for kind in (types[name], own)]
            types[name] = pa.unify_schemas(both, promote_options="permissive").field(0).type
        except pa.ArrowException:
            raise InputError(
                f"{part.path}: column {name!r} is {own}, but {types[name]} in parts before it; write one type."
            ) from None


def _named(path: Path, names: list[str]) -> list[str]:
    """Return the columns without unnamed row numbers of pandas."""
    named = [name for name in names if not INDEX_COLUMN.fullmatch(name)]
    if not named:
        raise InputError(f"{path} has no columns.")
    return named


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
