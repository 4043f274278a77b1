"""A folder of Parquet parts as one table; folder names such as country=fr give columns, as Hive and Spark write them.

Names that start with a point or an underscore are skipped. All parts have the same columns. Where their types differ,
as integers and floats, or numbers and a column without values, the table has the type that holds both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa

from domaincover.data.tables.arrow_columns import copies, to_pandas
from domaincover.data.tables.arrow_tables import ParquetTable, TypedTable
from domaincover.errors import InputError

ENDINGS = (".parquet", ".pq")
MISSING_VALUE = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")  # "007" is a name


class PartTable(ParquetTable):
    """One Parquet file of a folder, as a table with the columns and types of all."""

    def __init__(self, path: Path, root: Path) -> None:
        super().__init__(path)
        self.root = root
        self.folder_values = _folder_values(path.relative_to(root))
        self.types: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The path within the folder of parts."""
        return within(self.path, self.root)

    @property
    def base(self) -> Path:
        """The folder from which paths in the table start."""
        return self.root

    def join(self, columns: Sequence[str], types: Mapping[str, Any]) -> None:
        """Take the columns and types of the whole table."""
        self.columns, self.types = tuple(columns), dict(types)

    def arrow(self, columns: Sequence[str]) -> Any:
        """Return some columns as an Arrow table."""
        with self._opened() as file:
            return self._completed(file.read(self._stored(columns)), columns)

    def _with_copies(
        self,
        rows_at_once: int,
        columns: list[str],
        copied: list[str],
        text_columns: Collection[str],
        prose: Collection[str],  # noqa: ARG002
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        with self._opened() as file:
            for batch in file.iter_batches(rows_at_once, columns=self._stored([*dict.fromkeys([*columns, *copied])])):
                stored = pa.Table.from_batches([batch])
                for name in self.folder_values.keys() & {*copied}:
                    stored = stored.append_column(name, self._column(stored, name))
                kept = copies(stored, copied)  # with the types of this part
                yield to_pandas(self._completed(stored, columns), text_columns), kept

    def no_copies(self, copied: Sequence[str]) -> pd.DataFrame:
        """Return columns to copy without rows."""
        with self._opened() as file:
            return copies(file.schema_arrow.empty_table(), copied)

    def _stored(self, columns: Sequence[str]) -> list[str]:
        # One more where none is stored, for the number of rows.
        return [name for name in columns if name not in self.folder_values] or [self.stored[0]]

    def _completed(self, table: Any, columns: Sequence[str]) -> Any:
        return pa.table({name: self._column(table, name) for name in columns})

    def _column(self, table: Any, name: str) -> Any:
        kind = self.types[name]
        if name in self.folder_values:
            value = self.folder_values[name]
            known = int(value) if value is not None and pa.types.is_integer(kind) else value
            return pa.repeat(pa.scalar(known, kind), table.num_rows)
        column = table[name]
        if column.type == kind:
            return column
        try:
            return column.cast(kind)
        except pa.ArrowException as error:
            raise InputError(f"{self.path}: column {name!r} is not {kind}, as in other parts: {error}") from error


class PartsTable(TypedTable):
    """A folder of Parquet parts, in the order of their names."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.parts = [PartTable(path / name, path) for name in names]
        first = self.parts[0]
        types = dict(zip(first.stored, first.stored_types, strict=True))
        for part in self.parts:
            _check_alike(part, first)
            types = _common_types(types, part)
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

    def _read(
        self,
        columns: list[str],
        text_columns: Collection[str],
        prose: Collection[str],  # noqa: ARG002
    ) -> pd.DataFrame:
        return to_pandas(pa.concat_tables(part.arrow(columns) for part in self.parts), text_columns)


def part_names(folder: Path) -> list[str]:
    """Return the sorted names of the Parquet files in and below a folder."""
    return sorted(names_in(folder, ENDINGS))


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
        lacking = [name for name in (*other.columns, *other.folder_values) if name not in _columns_of(one)]
        if lacking:
            raise InputError(f"{one.path} has no column {lacking[0]!r}, which {other.path} has; parts need the same.")
    twice = [name for name in part.folder_values if name in part.columns]
    if twice:
        raise InputError(f"{part.path} has the column {twice[0]!r}, and so has its folder's name; remove one.")


def _columns_of(part: PartTable) -> set[str]:
    return {*part.columns, *part.folder_values}


def _common_types(types: dict[str, Any], part: PartTable) -> dict[str, Any]:
    """Return the types that hold the columns found before and those of a part."""
    own = dict(zip(part.stored, part.stored_types, strict=True))
    if own == types:
        return types
    common = dict(types)
    for name, kind in types.items():
        if name in own and own[name] != kind:
            both = [pa.schema([(name, one)]) for one in (kind, own[name])]
            try:
                common[name] = pa.unify_schemas(both, promote_options="permissive").field(0).type
            except pa.ArrowException:
                raise InputError(
                    f"{part.path}: column {name!r} is {own[name]}, but {kind} in parts before it; write one type."
                ) from None
    return common
