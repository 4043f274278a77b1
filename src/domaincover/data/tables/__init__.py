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
import csv
import gzip
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from domaincover.data.tables.arrow_tables import (
    PARQUET_ENDINGS,
    ArrowTable,
    ParquetTable,
    PartsTable,
    as_text,
    has_bytes,
    names_in,
    part_names,
)
from domaincover.data.tables.table import FORMATS, IMAGE_ENDINGS, ROWS_AT_ONCE, CsvTable, ImageTable, Table, reading
from domaincover.errors import InputError
from domaincover.files import replacing, writing

__all__ = ["ROWS_AT_ONCE", "Table", "check_ending", "is_standard_stream", "metadata_of", "open_table", "write_table"]

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
