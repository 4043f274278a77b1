"""A table that stays on disk, to train networks on more rows than memory holds."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from domaincover.data.tables import ROWS_AT_ONCE, Table, open_table
from domaincover.data.tables.arrow_tables import TypedTable, to_pandas
from domaincover.data.tables.table import no_column
from domaincover.errors import InputError
from domaincover.files import writing

Rows = NDArray[np.int64]


class DiskTable:
    """A Parquet file, a folder of Parquet parts or an Arrow file, whose rows are read as they are needed.

    Networks train on it as on a pandas table, with the same result in every bit; memory then grows with the number of
    rows, not with that of columns. A network's inputs are kept in a temporary file in `scratch` while it trains, which
    is memory-mapped and vanishes with the process. The table itself must not change meanwhile.

    A column is read into memory by its name. Rows are selected by a slice, or an array of booleans or of increasing
    places, and keep their order.

    Parameters
    ----------
    path : path or open table
        A Parquet or Arrow file, or a folder of Parquet parts.
    columns : sequence of str or None, default=None
        Columns to keep; None keeps all.
    scratch : path or None, default=None
        Folder for temporary files; None is the system's, which may itself be in memory.
    first_row : int, default=0
        Number of the first row in messages.

    >>> folder = Path(tempfile.mkdtemp())
    >>> pd.DataFrame({"dose": [1.0, 2.5, 4.0], "ill": [0, 1, 1]}).to_parquet(folder / "visits.parquet")
    >>> visits = DiskTable(folder / "visits.parquet")
    >>> visits.shape
    (3, 2)
    >>> visits["ill"].tolist()
    [0, 1, 1]
    >>> visits.drop(columns=["ill"])[1:].read()
       dose
    1   2.5
    2   4.0
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Table,
        columns: Sequence[str] | None = None,
        scratch: str | os.PathLike[str] | None = None,
        first_row: int = 0,
    ) -> None:
        table = path if isinstance(path, Table) else open_table(Path(path))
        if not isinstance(table, TypedTable):
            raise InputError(f"{table.path} is not Parquet or Arrow, whose rows can stay on disk; write Parquet first.")
        self.columns = list(table.columns if columns is None else columns)
        for name in self.columns:
            table.check_column(name, option="")
        self._table, self._rows, self._first_row = table, np.arange(table.n_rows), first_row
        self._scratch = Path(tempfile.gettempdir() if scratch is None else scratch)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self._rows), len(self.columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, wanted: Any) -> Any:
        """Return a column as a pandas series, or a selection of columns or rows that stays on disk."""
        if isinstance(wanted, str):
            return self[[wanted]].read()[wanted]
        if isinstance(wanted, list) and wanted and all(isinstance(name, str) for name in wanted):
            return self._selected(wanted, self._rows)
        if isinstance(wanted, tuple) and wanted[1:] == (...,):  # how scikit-learn selects rows
            wanted = wanted[0]
        what = "rows are selected by a slice, or by an array of increasing places or of booleans, one for each row"
        try:
            rows = self._rows[wanted if isinstance(wanted, slice) else np.asarray(wanted)]
        except IndexError as error:
            raise InputError(f"{what}: {error}.") from None
        if rows.ndim != 1 or (rows[1:] <= rows[:-1]).any():
            raise InputError(f"{what}; got {str(wanted)[:60]!r}.")
        return self._selected(self.columns, rows)

    def __repr__(self) -> str:
        return f"DiskTable({str(self._table.path)!r}: {len(self):,} rows × {len(self.columns)} columns)"

    def drop(self, *, columns: Sequence[str]) -> DiskTable:
        """Return the table without some columns."""
        dropped = self[list(columns)].columns
        return self._selected([name for name in self.columns if name not in dropped], self._rows)

    def read(self) -> pd.DataFrame:
        """Return all rows as a pandas table, in memory."""
        return to_pandas(pa.concat_tables(self._parts()), ()).set_axis(self._rows + self._first_row)

    def blocks(self) -> Iterator[tuple[slice, pd.DataFrame]]:
        """Yield the rows as pandas tables, each with the places of its rows in this table."""
        start = 0
        for rows in self._parts():
            if rows.num_rows == 0:  # of a first block
                continue
            part = slice(start, start := start + rows.num_rows)
            yield part, to_pandas(rows, ()).set_axis(self._rows[part] + self._first_row)

    def _parts(self) -> Iterator[Any]:
        """Yield the rows as Arrow tables, at least one."""
        n_seen = n_found = 0
        for block in self._table.arrow_blocks(ROWS_AT_ONCE, self.columns):
            start, n_seen = n_seen, n_seen + block.num_rows  # before the block is given away
            end = int(np.searchsorted(self._rows, n_seen))
            own, n_found = self._rows[n_found:end] - start, end
            if len(own) or not start:
                yield block if len(own) == block.num_rows else _selectable(block).take(pa.array(own))
        if n_seen != self._table.n_rows:
            raise InputError(f"{self._table.path} has changed while it was read; start again.")

    def mapped(self, encode: Callable[[pd.DataFrame], NDArray[np.float32]], n_columns: int) -> NDArray[np.float32]:
        """Return all rows, encoded block by block, as one matrix that is memory-mapped from a temporary file."""
        shape = len(self), n_columns
        with writing(self._scratch):
            self._scratch.mkdir(parents=True, exist_ok=True)
            file = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115 - closed below
        with writing(self._scratch), file:
            _reserve(file, 4 * shape[0] * shape[1])
            matrix = np.memmap(file, np.float32, "r+", shape=shape)
            for places, block in self.blocks():
                matrix[places] = encode(block)
        return matrix

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise InputError(
            "the table is on disk, and only domaincover's networks train on it there; read it with X.read()."
        )

    def _selected(self, columns: Sequence[str], rows: Rows) -> DiskTable:
        for name in columns:
            if name not in self.columns:
                raise no_column("the table", name, self.columns)
        selected = copy.copy(self)
        selected.columns, selected._rows = list(columns), rows
        return selected


def _selectable(block: Any) -> Any:
    """Return a block with types of whose values Arrow can select some."""
    for k, field in enumerate(block.schema):
        if pa.types.is_run_end_encoded(field.type):
            block = block.set_column(k, field.name, pc.run_end_decode(block[k]))
        elif pa.types.is_string_view(field.type) or pa.types.is_binary_view(field.type):
            plain = pa.large_string() if pa.types.is_string_view(field.type) else pa.large_binary()
            block = block.set_column(k, field.name, block[k].cast(plain))
    return block


def _reserve(file: Any, n_bytes: int) -> None:
    """Reserve a file's space, since a full disk would end the process that writes to a mapped file."""
    if hasattr(os, "posix_fallocate") and n_bytes:
        os.posix_fallocate(file.fileno(), 0, n_bytes)
    else:
        file.truncate(max(n_bytes, 1))
