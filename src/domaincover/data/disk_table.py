"""A table that stays on disk, to train networks on more rows than memory holds."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.tables.table import ROWS_AT_ONCE, Table
from domaincover.errors import InputError, suggestion
from domaincover.files import writing

Rows = NDArray[np.int64]


class DiskTable:
    """A Parquet file, a folder of Parquet parts or an Arrow file, whose rows are read as they are needed.

    Networks train on it as on a pandas table, with the same result in every bit; memory then grows with the number of
    rows, not with that of columns. It is copied once, as uncompressed Arrow, to a temporary file in `scratch`, which
    is memory-mapped; a network's inputs are kept there as well while it trains. These files vanish with the process.

    A column is read into memory by its name. Rows are selected by a slice, or an array of booleans or of places; a
    mask is applied by position. Other processes (`n_jobs`) copy the table anew.

    Parameters
    ----------
    path : path
        A Parquet or Arrow file, or a folder of Parquet parts.
    columns : str, sequence of str or None, default=None
        Columns to keep; None keeps all.
    scratch : path or None, default=None
        Folder for temporary files; None is the system's, which may itself be in memory.

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
        path: str | os.PathLike[str],
        columns: str | Sequence[str] | None = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        from domaincover.data.tables import open_table

        self._hold(_Stored(open_table(Path(path)), columns, None if scratch is None else Path(scratch)))

    @classmethod
    def of(cls, table: Table, columns: Sequence[str], scratch: Path | None, first_row: int = 0) -> DiskTable:
        """Return columns of an open table; messages count rows from `first_row`."""
        return cls.__new__(cls)._hold(_Stored(table, columns, scratch, first_row))

    def _hold(self, stored: _Stored, columns: Sequence[str] | None = None, rows: Rows | None = None) -> DiskTable:
        """Set the copy on disk, and the columns and rows of it that this table has; None means all."""
        self._stored = stored
        self.columns = list(stored.columns if columns is None else columns)
        self._rows = np.arange(stored.n_rows) if rows is None else rows
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self._rows), len(self.columns)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, wanted: Any) -> Any:
        """Return a column as a pandas series, or a selection of columns or rows that stays on disk."""
        if isinstance(wanted, str):
            return self._selected([wanted], self._rows).read()[wanted]
        if isinstance(wanted, tuple) and len(wanted) == 2 and wanted[1] is ...:  # how scikit-learn selects rows
            wanted = wanted[0]
        if isinstance(wanted, list | pd.Index) and len(wanted) and all(isinstance(name, str) for name in wanted):
            return self._selected(list(wanted), self._rows)
        return self._selected(self.columns, self._chosen(wanted))

    def _chosen(self, wanted: Any) -> Rows:
        """Return the rows that a mask, a slice or numbers select, by their places in this table."""
        what = "rows are selected by a slice, or by an array of their places or of booleans, one for each row"
        if isinstance(wanted, slice):
            return self._rows[wanted]
        chosen = np.asarray(wanted)
        if chosen.size == 0 and chosen.ndim == 1:
            chosen = chosen.astype(np.int64)
        if chosen.dtype.kind not in "biu" or chosen.ndim != 1 or isinstance(wanted, tuple):
            raise InputError(f"{what}; got {str(wanted)[:60]!r}.")
        try:
            return self._rows[chosen]
        except IndexError as error:
            raise InputError(f"{what}: {error}.") from None

    def __repr__(self) -> str:
        return f"DiskTable({str(self._stored.path)!r}: {len(self):,} rows × {len(self.columns)} columns)"

    def drop(self, *, columns: str | Sequence[str]) -> DiskTable:
        """Return the table without some columns."""
        dropped = _names(columns)
        self._check_columns(dropped)
        return self._selected([name for name in self.columns if name not in dropped], self._rows)

    def read(self) -> pd.DataFrame:
        """Return all rows as a pandas table, in memory."""
        return self._stored.read(self.columns, self._rows)

    def blocks(self) -> Iterator[tuple[slice | Rows, pd.DataFrame]]:
        """Yield the rows as pandas tables, in their order on disk, each with the places of its rows in this table."""
        yield from self._stored.blocks(self.columns, self._rows)

    def mapped(self, encode: Callable[[pd.DataFrame], NDArray[np.float32]], n_columns: int) -> NDArray[np.float32]:
        """Return all rows, encoded block by block, as one matrix that is memory-mapped from a temporary file."""
        shape = len(self), n_columns
        with writing(self._stored.scratch), tempfile.TemporaryFile(dir=self._stored.scratch) as file:
            _reserve(file, 4 * shape[0] * shape[1])
            matrix = np.memmap(file, np.float32, "r+", shape=shape)
            for places, block in self.blocks():
                matrix[places] = encode(block)
        return matrix

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the table anew in another process, which does not share the mapped file."""
        stored = self._stored
        return _opened_again, (stored.path, self.columns, self._rows, stored.scratch, stored.first_row)

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise InputError(
            "the table is on disk, and only domaincover's networks train on it there; read it with X.read()."
        )

    def _selected(self, columns: Sequence[str], rows: Rows) -> DiskTable:
        self._check_columns(columns)
        return type(self).__new__(type(self))._hold(self._stored, columns, rows)

    def _check_columns(self, columns: Sequence[str]) -> None:
        for name in columns:
            if name not in self.columns:
                known = f"its columns are {', '.join(self.columns[:8])}{', …' if len(self.columns) > 8 else ''}."
                raise InputError(f"the table has no column {name!r}; {suggestion(name, self.columns, known)}")


class _Stored:
    """A table's copy as uncompressed Arrow, memory-mapped from a file without a name, which ends with the process.

    The format is that of streams, where a column's categories may differ between batches.
    """

    def __init__(
        self, table: Table, columns: str | Sequence[str] | None, scratch: Path | None, first_row: int = 0
    ) -> None:
        import pyarrow as pa

        self.path, self.first_row = table.path, first_row
        self.columns = list(table.columns) if columns is None else _names(columns)
        self.scratch = Path(tempfile.gettempdir()) if scratch is None else scratch
        for name in self.columns:
            table.check_column(name, option="")
        with writing(self.scratch):
            self.scratch.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.scratch) as file:
                _copy(table, self.columns, file)
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._batches = list(pa.ipc.open_stream(pa.py_buffer(mapped)))
        self._ends = np.cumsum([batch.num_rows for batch in self._batches])
        self.n_rows = int(self._ends[-1])

    def read(self, columns: Sequence[str], rows: Rows) -> pd.DataFrame:
        """Return rows as one pandas table, in their order."""
        import pyarrow as pa

        from domaincover.data.tables.arrow_columns import to_pandas

        places, ordered = _in_disk_order(rows)
        found = [self._rows_of(k, columns, own) for k, own in self._by_batch(ordered)]
        whole = pa.concat_tables(found or [self._rows_of(0, columns, ordered)])
        frame = to_pandas(whole, ()).set_axis(ordered + self.first_row)
        return frame if places is None else frame.iloc[np.argsort(places)]

    def blocks(self, columns: Sequence[str], rows: Rows) -> Iterator[tuple[slice | Rows, pd.DataFrame]]:
        """Yield rows batch by batch, with their places among `rows`."""
        from domaincover.data.tables.arrow_columns import to_pandas

        places, ordered = _in_disk_order(rows)
        start = 0
        for k, own in self._by_batch(ordered):
            part = slice(start, start + len(own))
            frame = to_pandas(self._rows_of(k, columns, own), ()).set_axis(ordered[part] + self.first_row)
            yield part if places is None else places[part], frame
            start = part.stop

    def _by_batch(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Yield the batches that hold some of the sorted rows, and their numbers within the batch."""
        ends = np.searchsorted(rows, self._ends)
        starts = np.concatenate([[0], ends[:-1]])
        for k in np.flatnonzero(ends > starts).tolist():
            yield k, rows[starts[k] : ends[k]] - (self._ends[k] - self._batches[k].num_rows)

    def _rows_of(self, k: int, columns: Sequence[str], rows: Rows) -> Any:
        import pyarrow as pa

        batch = self._batches[k].select(list(columns))
        is_whole = np.array_equal(rows, np.arange(batch.num_rows))
        return pa.Table.from_batches([batch if is_whole else batch.take(pa.array(rows))])


def _names(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _opened_again(path: Path, columns: list[str], rows: Rows, scratch: Path, first_row: int) -> DiskTable:
    from domaincover.data.tables import open_table

    return DiskTable.of(open_table(path), columns, scratch, first_row)._selected(columns, rows)


def _in_disk_order(rows: Rows) -> tuple[Rows | None, Rows]:
    """Return the places of the sorted rows, None where they are sorted already, and the sorted rows."""
    if (rows[1:] >= rows[:-1]).all():
        return None, rows
    places = np.argsort(rows, kind="stable")
    return places, rows[places]


def _copy(table: Table, columns: Sequence[str], file: Any) -> None:
    """Write columns of a table as a stream of Arrow batches."""
    import pyarrow as pa

    blocks = map(_selectable, table.arrow_blocks(ROWS_AT_ONCE, list(columns)))
    first = next(blocks)
    with pa.ipc.new_stream(file, first.schema) as stream:
        for block in chain([first], blocks):
            stream.write_table(block)
    file.flush()


def _selectable(block: Any) -> Any:
    """Return a block with types of whose values Arrow can select some."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
