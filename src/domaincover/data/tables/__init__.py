"""Read and write tables in files, completely or in blocks: CSV and TSV, Parquet (also a folder of parts), Arrow.

CSV is UTF-8 text with a header line, plain or as `.gz`. The separator (comma,
semicolon or tab; in `.tsv` a tab) and, with semicolons, the decimal comma are inferred from the first lines. pandas'
missing values ("", NA, N/A, NaN, None, null, …) are missing in text columns too, so a category named "NA" needs another
name; only prose, such as a review, may be "NA". Rows shorter than the header are filled with missing values, longer
ones are rejected. Types are inferred from the values: of all rows in `read`, of each block in `blocks`.

Parquet and Arrow files (`.arrow`, `.feather`) have their own types. Decimals become floats, dates timestamps, times of
day and bytes text, dictionaries of texts categories, and nested values objects. Integers with missing values become
floats and booleans with missing values objects, as in CSV.

Unnamed row numbers, as written by pandas and R, are not columns of the table.

Tables are written as CSV or TSV (plain or gzip) or Parquet, atomically; - is CSV on standard output. All blocks use the
columns of the first and, in Parquet, its types. Categories are written as their values.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import csv
import gzip
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from domaincover.data.tables.arrow_tables import (
    PARQUET_ENDINGS,
    ArrowTable,
    ParquetTable,
    PartsTable,
    TypedTable,
    as_text,
    has_bytes,
    names_in,
    part_names,
    to_pandas,
)
from domaincover.data.tables.table import FORMATS, IMAGE_ENDINGS, CsvTable, ImageTable, no_column, reading
from domaincover.data.tables.table import ROWS_AT_ONCE as ROWS_AT_ONCE
from domaincover.data.tables.table import Table as Table
from domaincover.errors import InputError
from domaincover.files import replacing, writing

Rows = NDArray[np.int64]
READERS: dict[str, Callable[[Path], Table]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), CsvTable),
    **dict.fromkeys(PARQUET_ENDINGS, ParquetTable),
    **dict.fromkeys((".arrow", ".feather"), ArrowTable),
}
ENDINGS = tuple(READERS)
# What standard input begins with, and files of this kind.
MAGIC: dict[bytes, tuple[str, Any]] = {
    b"PAR1": (".parquet", ParquetTable),
    b"ARROW1": (".arrow", ArrowTable),
    b"\x1f\x8b": (".csv.gz", None),
}
LONGEST_MAGIC = max(map(len, MAGIC))
WRITTEN = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")


def open_table(path: Path, *, allow_empty: bool = False) -> Table:
    """Open a table by its file name extension, a folder of Parquet parts or of images, or standard input (-).

    Only local paths are read; URLs are not supported. A table without rows is rejected unless `allow_empty`.
    """
    path = _spooled_input() if is_standard_stream(path) else Path(path)
    table = _open_folder(path) if os.path.isdir(path) else _open_file(path)  # unlike Path.is_dir, isdir never raises
    if not allow_empty and not table.has_rows:
        raise InputError(f"{path} has columns but no rows.")
    return table


def is_standard_stream(path: Path | str | None) -> bool:
    """Return whether a path stands for standard input or output."""
    return str(path) == "-"


def _open_folder(path: Path) -> Table:
    parts = part_names(path)
    if parts and (labelled := next((name for name in names_in(path, IMAGE_ENDINGS) if name.count("/") == 2), None)):
        raise InputError(f"{path} holds Parquet parts ({parts[0]}) and images ({labelled}); move one kind elsewhere.")
    if not parts and next(names_in(path, IMAGE_ENDINGS), None) is None and (tables := sorted(names_in(path, ENDINGS))):
        raise InputError(f"{path} is a folder with {tables[0]}; only Parquet files are read as parts of one table.")
    return PartsTable(path, parts) if parts else ImageTable(path)


def _open_file(path: Path) -> Table:
    with reading(path), open(path, "rb") as file:
        start = file.read(LONGEST_MAGIC)
    if not start:
        raise InputError(f"{path} is empty.")
    reader = next((READERS[ending] for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if reader is None:
        raise InputError(
            f"cannot read {path}: the extension must be {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}; save a spreadsheet "
            "as CSV or Parquet, and unpack an archive."
        )
    for magic, (_, kind) in MAGIC.items():
        if reader is kind and not start.startswith(magic):
            raise InputError(f"{path} is not {FORMATS[magic]}, despite its extension.")
    return reader(path)


def _spooled_input() -> Path:
    """Return a temporary copy of standard input, since tables are read more than once; it lasts until the end."""
    folder = Path(tempfile.mkdtemp(prefix="domaincover-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / "standard-input"
    with reading(copy):
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with open(copy, "rb") as file:
            start = file.read(LONGEST_MAGIC)
        ending = next((ending for magic, (ending, _) in MAGIC.items() if start.startswith(magic)), ".csv")
        return copy.rename(f"{copy}{ending}")


def check_ending(path: Path) -> str:
    """Return the file name extension that determines the format of a table; standard output (-) is CSV."""
    for ending in WRITTEN:
        if path.name.lower().endswith(ending):
            return ending
    if str(path) == "-":
        return ".csv"
    raise InputError(f"cannot write {path}: the extension must be {', '.join(WRITTEN[:-1])} or {WRITTEN[-1]}.")


def write_table(
    path: Path, blocks: Iterable[pd.DataFrame], about: Callable[[], Mapping[str, str]] | None = None
) -> int:
    """Write blocks as they arrive and return the number of rows; on failure an old file remains unchanged.

    Standard output gets the whole table at the end, so that a reader is never given half of one. What `about` returns
    after the last block is kept with a Parquet file (`metadata_of`).
    """
    path = Path(path)
    if str(path) != "-":
        return _write(path, blocks, about)
    with tempfile.TemporaryDirectory(prefix="domaincover-") as folder:
        written = Path(folder) / "standard-output.csv"
        n_rows = _write(written, blocks)
        with open(written, "rb") as file:
            sys.stdout.flush()
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    return n_rows


def metadata_of(path: Path) -> dict[str, str]:
    """Return what a Parquet file's writer kept with it; nothing for a file that is missing or no Parquet file."""
    try:
        with pa.OSFile(os.fsencode(path)) as source:
            kept = pq.read_metadata(source).metadata or {}
    except (OSError, pa.ArrowException):
        return {}
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in kept.items()}


def _write(path: Path, blocks: Iterable[pd.DataFrame], about: Callable[[], Mapping[str, str]] | None = None) -> int:
    n_rows, ending = 0, check_ending(path)
    with replacing(path) as file:
        sink = _CsvSink(file, ending) if ending.startswith((".csv", ".tsv")) else _ParquetSink(file)
        try:
            for block in blocks:
                with writing(path), _types_as_input_error(path):
                    sink.append(block)
                n_rows += len(block)
            with writing(path):
                sink.close({} if about is None else about())
        except BaseException:
            with contextlib.suppress(Exception):  # such as a full disk
                sink.close({})
            raise
    return n_rows


@contextlib.contextmanager
def _types_as_input_error(path: Path) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        reason = ": ".join(map(str, error.args[::-1]))
        raise InputError(
            f"cannot write {path}: the types of a column differ ({reason}); make them one, or write .csv."
        ) from error


class _CsvSink:
    def __init__(self, file: BinaryIO, ending: str) -> None:
        self._separator = "\t" if ending.startswith(".tsv") else ","
        # without name and time, so that equal tables give equal bytes
        packed: Any = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if ending.endswith(".gz") else file
        self._text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        self._columns: list[Any] | None = None

    def append(self, block: pd.DataFrame) -> None:
        is_first = self._columns is None
        self._columns = self._columns or list(block.columns)
        block = block.assign(**{str(name): as_text(column) for name, column in block.items() if has_bytes(column)})
        form: dict[str, Any] = {"sep": self._separator, "index": False, "lineterminator": "\n"}
        if any(_has_returns(block[name]) for name in block):  # which end a line for readers, unless quoted
            form["quoting"] = csv.QUOTE_NONNUMERIC
        block.to_csv(self._text, columns=self._columns, header=is_first, **form)

    def close(self, _: Mapping[str, str]) -> None:
        self._text.close()


class _ParquetSink:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None

    def append(self, block: pd.DataFrame) -> None:
        if self._writer is None:
            first = pa.Schema.from_pandas(block, preserve_index=False)
            schema = pa.schema([(field.name, _lasting_type(field.type)) for field in first])
            self._writer = pq.ParquetWriter(self._file, schema, write_page_checksum=True)
        self._writer.write_table(pa.Table.from_pandas(block, schema=self._writer.schema, preserve_index=False))

    def close(self, about: Mapping[str, str]) -> None:
        if self._writer is None:
            pq.write_table(pa.table({}), self._file)
            return
        if about:
            self._writer.add_key_value_metadata(about)
        self._writer.close()


def _has_returns(column: pd.Series[Any]) -> bool:
    is_text = pd.api.types.is_string_dtype(column) or column.dtype == object
    return is_text and bool(column.astype("string").str.contains("\r", regex=False).any())


def _lasting_type(kind: Any) -> Any:
    """Replace types that may fit the first block only: categories, and columns without any values."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(_lasting_type(kind.value_type))
    return pa.string() if pa.types.is_null(kind) else kind


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
