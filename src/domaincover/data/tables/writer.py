"""Write tables as CSV or TSV (plain or gzip) or Parquet, block by block and atomically; - is CSV on standard output.

All blocks use the columns of the first and, in Parquet, its types. Categories are written as their values.
"""

from __future__ import annotations

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

from domaincover.data.tables.arrow_tables import as_text, has_bytes
from domaincover.errors import InputError
from domaincover.files import replacing, writing

ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")


def check_ending(path: Path) -> str:
    """Return the file name extension that determines the format of a table; standard output (-) is CSV."""
    for ending in ENDINGS:
        if path.name.lower().endswith(ending):
            return ending
    if str(path) == "-":
        return ".csv"
    raise InputError(f"cannot write {path}: the extension must be {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}.")


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
