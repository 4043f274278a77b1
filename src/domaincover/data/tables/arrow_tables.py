"""Tables with types of their own: Parquet and Arrow files, folders of images."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from domaincover.data.tables.arrow_columns import as_text, copies, to_pandas
from domaincover.data.tables.faults import reading
from domaincover.data.tables.image_folder import image_folder
from domaincover.data.tables.table import Table
from domaincover.errors import InputError

INDEX_COLUMN = re.compile(r"__index_level_\d+__")


class TypedTable(Table):
    """A table whose format has types, read as Arrow tables."""

    def text_of(self, copied: pd.Series[Any]) -> pd.Series[Any]:
        """Return a copied column as `text_columns` are read."""
        return as_text(copied)

    def _blocks(
        self,
        rows_at_once: int,
        columns: list[str],
        text_columns: Collection[str],
        prose: Collection[str],  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        for block in self.arrow_blocks(rows_at_once, columns):
            yield to_pandas(block, text_columns)

    def _with_copies(
        self,
        rows_at_once: int,
        columns: list[str],
        copied: list[str],
        text_columns: Collection[str],
        prose: Collection[str],  # noqa: ARG002
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        for block in self.arrow_blocks(rows_at_once, list(dict.fromkeys([*columns, *copied]))):
            kept = copies(block, copied)
            yield to_pandas(block.select(columns), text_columns), kept


class ParquetTable(TypedTable):
    """A Parquet file; `stored` are its columns and `stored_types` their types."""

    n_rows: int

    def __init__(self, path: Path) -> None:
        with _parquet_file(path) as file:
            schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
        super().__init__(path, _named(path, schema.names), self.n_rows > 0)
        self.stored = list(self.columns)
        self.stored_types = [schema.field(name).type for name in self.stored]

    def arrow_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        """Read some columns as Arrow tables of at most `rows_at_once` rows."""
        with self._opened() as file:
            for batch in file.iter_batches(rows_at_once, columns=self._stored(columns)):
                yield self._completed(pa.Table.from_batches([batch]), columns)

    def _read(
        self,
        columns: list[str],
        text_columns: Collection[str],
        prose: Collection[str],  # noqa: ARG002
    ) -> pd.DataFrame:
        with self._opened() as file:
            return to_pandas(self._completed(file.read(self._stored(columns)), columns), text_columns)

    def _opened(self) -> AbstractContextManager[Any]:
        return _parquet_file(self.path)

    def _stored(self, columns: Sequence[str]) -> list[str]:
        """Return which columns to read from the file."""
        return list(columns)

    def _completed(self, table: Any, columns: Sequence[str]) -> Any:
        """Return the columns asked for, in their order, from those that were read."""
        return table.select(columns)


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

    def _read(self, columns: list[str], text_columns: Collection[str], prose: Collection[str]) -> pd.DataFrame:  # noqa: ARG002
        with _arrow_file(self.path) as file:
            table = file.read_all().select(columns)
            table.validate(full=True)
            return to_pandas(table, text_columns)


class FolderTable(Table):
    """A folder of images, domain/label/image, with the columns path, label and domain."""

    is_images = True

    def __init__(self, path: Path) -> None:
        self._table = image_folder(path)
        super().__init__(path, list(self._table.columns))

    @property
    def files(self) -> list[Path]:
        """The files that the table consists of: none, since images are identified by name and size."""
        return []

    def _blocks(
        self,
        rows_at_once: int,
        columns: list[str],
        text_columns: Collection[str],  # noqa: ARG002
        prose: Collection[str],  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        for start in range(0, len(self._table), rows_at_once):
            yield self._table[columns].iloc[start : start + rows_at_once].reset_index(drop=True)

    def _read(
        self,
        columns: list[str],
        text_columns: Collection[str],  # noqa: ARG002
        prose: Collection[str],  # noqa: ARG002
    ) -> pd.DataFrame:
        return self._table[columns].copy()


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
