"""Read tables from CSV (plain or gzip) and Parquet files, completely or in blocks.

CSV is UTF-8 text with a header line. The separator (comma, semicolon or tab) and, with semicolons, the decimal comma
are inferred from the first lines. pandas' missing values ("", NA, N/A, NaN, None, null, …) are missing in text columns
too, so a category named "NA" needs another name; only prose, such as a review, may be "NA". Rows shorter than the
header are filled with missing values, longer ones are rejected. Types are inferred from the values: of all rows in
`read`, of each block in `blocks`.

Parquet has its own types. Decimals become floats, dates timestamps, times of day and bytes text, dictionaries of
texts categories, and nested values objects. Integers with missing values become floats and booleans with missing
values objects, as in CSV.

Unnamed row numbers, as written by pandas and R, are not columns of the table.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from domaincover.data.arrow_columns import to_pandas
from domaincover.data.image_folder import image_folder
from domaincover.data.table_errors import reading
from domaincover.data.table_writer import ending_of, write_table
from domaincover.errors import InputError

__all__ = ["Table", "open_table", "write_table"]

ROWS_AT_ONCE = 65_536
HEAD = 100_000  # characters used to infer the separator; the csv module limits fields to 131,072
# pandas' default missing values; they must be listed if any column is read differently.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)
OTHER_FORMATS = {
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "gzip data",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


class Table(ABC):
    """An open table file; only its column names have been read."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        self.columns = tuple(columns)
        for name, count in Counter(columns).most_common(1):
            if count > 1:
                raise InputError(f"{path} has {count} columns named {name!r}; rename all but one.")

    def read(
        self,
        columns: Sequence[str] | None = None,
        text_columns: Collection[str] = (),
        prose: Collection[str] = (),
    ) -> pd.DataFrame:
        """Read the table, or some of its columns in the given order; the other parameters are those of `blocks`."""
        return self._read(self._wanted(columns), {*text_columns, *prose}, prose)

    def blocks(
        self,
        rows_at_once: int = ROWS_AT_ONCE,
        columns: Sequence[str] | None = None,
        text_columns: Collection[str] = (),
        prose: Collection[str] = (),
    ) -> Iterator[pd.DataFrame]:
        """Read at most `rows_at_once` rows at a time, so that memory does not grow with the file.

        `text_columns` are read as text: in CSV "007" stays "007", in Parquet the number 7 becomes "7". In `prose`
        columns only empty values are missing, since a review may be "NA". The rows of each block are numbered from 0.
        """
        return self._blocks(rows_at_once, self._wanted(columns), {*text_columns, *prose}, prose)

    def check_column(self, name: str, option: str) -> None:
        """Raise if there is no such column, and suggest a similar one."""
        if name not in self.columns:
            given = f" ({option})" if option else ""
            raise InputError(f"{self.path} has no column {name!r}{given}; {self._suggestion(name)}")

    def _suggestion(self, name: str) -> str:
        by_plain_name = {column.strip().casefold(): column for column in self.columns}
        near = difflib.get_close_matches(name.strip().casefold(), by_plain_name, n=1)
        if near:
            return f"did you mean {by_plain_name[near[0]]!r}?"
        more = f", … and {len(self.columns) - 8} more" if len(self.columns) > 8 else ""
        return f"its columns are {', '.join(self.columns[:8])}{more}."

    def _wanted(self, columns: Sequence[str] | None) -> list[str]:
        for name in columns or ():
            self.check_column(name, option="")
        return list(self.columns if columns is None else columns)

    @abstractmethod
    def _read(self, columns: list[str], text_columns: Collection[str], prose: Collection[str]) -> pd.DataFrame: ...

    @abstractmethod
    def _blocks(
        self, rows_at_once: int, columns: list[str], text_columns: Collection[str], prose: Collection[str]
    ) -> Iterator[pd.DataFrame]: ...


def open_table(path: Path) -> Table:
    """Open a table by its file name extension, or a folder of images as a table.

    Only local paths are read; URLs are not supported.
    """
    path = Path(path)
    if os.path.isdir(path):  # unlike Path.is_dir, never raises
        return _FolderTable(path)
    with reading(path), open(path, "rb") as file:
        start = file.read(4)
    if not start:
        raise InputError(f"{path} is empty.")
    if ending_of(path, "read").startswith(".csv"):
        return _CsvTable(path)
    if start != b"PAR1":
        raise InputError(f"{path} is not a Parquet file, despite its extension.")
    return _ParquetTable(path)


class _CsvTable(Table):
    def __init__(self, path: Path) -> None:
        with _text_of(path) as text:
            self._dialect = _dialect(text.read(HEAD))
        with _text_of(path) as text:
            names = self._read_header(text)
            any_rows = any(part.strip() for part in iter(lambda: text.read(HEAD), ""))  # in parts: a line can be long
        super().__init__(path, names[1:] if names[:1] == [""] else names)
        if not names:
            raise InputError(f"{path} is empty: it has no header line.")
        if "" in self.columns:
            raise InputError(f"{path} has a column without a name, number {names.index('', 1) + 1}; name or remove it.")
        if not any_rows:
            raise InputError(f"{path} has columns but no rows.")

    def _read_header(self, text: io.TextIOWrapper) -> list[str]:
        rows = csv.reader(text, delimiter=self._dialect["sep"])
        return next((row for row in rows if any(field.strip() for field in row)), [])

    def _blocks(
        self, rows_at_once: int, columns: list[str], text_columns: Collection[str], prose: Collection[str]
    ) -> Iterator[pd.DataFrame]:
        with _text_of(self.path) as text:
            names = self._read_header(text)
            reader = pd.read_csv(
                text,
                header=None,
                names=names,  # without usecols, with which pandas ignores excess fields of rows that are too long
                index_col=False,
                dtype=dict.fromkeys(set(text_columns) & set(names), str),
                chunksize=rows_at_once,
                low_memory=False,  # otherwise types are inferred from parts of a block
                keep_default_na=not prose,
                na_values={name: [""] if name in prose else MISSING for name in names} if prose else None,
                **self._dialect,
            )
            while (block := _next_block(reader)) is not None:
                yield block[columns].reset_index(drop=True)

    def _read(self, columns: list[str], text_columns: Collection[str], prose: Collection[str]) -> pd.DataFrame:
        # concatenating blocks needs little more than half the memory of one read_csv, at the same speed
        blocks = list(self._blocks(ROWS_AT_ONCE, columns, text_columns, prose))
        kinds = {name: {_kind(block[name]) for block in blocks} - {"empty"} for name in columns}
        mixed = {name for name in columns if len(kinds[name]) > 1}
        if mixed:  # numbers in some blocks and text in others: read as text
            return self._read(columns, {*text_columns, *mixed}, prose)
        # text or booleans in some blocks, and in others only missing values, which pandas reads as floats
        uneven = [n for n in columns if kinds[n] - {"number"} and len({block[n].dtype for block in blocks}) > 1]
        blocks = [block.astype(dict.fromkeys(uneven, object)) for block in blocks]
        return pd.concat(blocks, ignore_index=True).infer_objects()


@contextmanager
def _text_of(path: Path) -> Iterator[io.TextIOWrapper]:
    open_bytes: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with reading(path), open_bytes(path, "rb") as file:
        _reject_other_formats(path, file.read(4096))
        file.seek(0)
        try:
            yield io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        except UnicodeDecodeError as error:  # error.object is the last chunk read
            byte = file.tell() - len(error.object) + error.start + 1
            raise InputError(f"{path} is not UTF-8 text, at byte {byte:,}; save it as CSV in UTF-8.") from None


def _reject_other_formats(path: Path, start: bytes) -> None:
    for magic, what in OTHER_FORMATS.items():
        if start.startswith(magic):
            raise InputError(f"{path} contains {what}, not CSV in UTF-8; rename or convert it.")
    if b"\0" in start:
        raise InputError(f"{path} contains binary data, not CSV in UTF-8.")


def _dialect(head: str) -> dict[str, Any]:
    rows_by_separator = {
        sep: list(islice(csv.reader(io.StringIO(head, newline=""), delimiter=sep), 100)) for sep in ",;\t"
    }
    sep = max(rows_by_separator, key=lambda sep: _fit(rows_by_separator[sep]))
    fields = [field for row in rows_by_separator[sep] for field in row]
    commas, points = (any(re.fullmatch(rf"[+-]?\d+{mark}\d+", f) for f in fields) for mark in (",", r"\."))
    return {"sep": sep, "decimal": "," if sep == ";" and commas and not points else "."}


def _fit(rows: list[list[str]]) -> tuple[bool, float, int]:
    """Score a separator: it splits the header, then rows match the header's length, then there are many columns."""
    widths = [len(row) for row in rows if row] or [0]
    return widths[0] > 1, widths.count(widths[0]) / len(widths) if widths[0] > 1 else 0, widths[0]


def _next_block(reader: Any) -> pd.DataFrame | None:
    with warnings.catch_warnings():  # pandas only warns if the first row is longer than the header
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return next(reader, None)


def _kind(column: pd.Series[Any]) -> str:
    if not column.notna().any():
        return "empty"
    kind = pd.api.types.infer_dtype(column, skipna=True)
    return "number" if kind in ("integer", "floating") else kind


class _ParquetTable(Table):
    def __init__(self, path: Path) -> None:
        with _parquet_file(path) as file:
            names, n_rows = file.schema_arrow.names, file.metadata.num_rows
        super().__init__(path, [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)])
        if not self.columns or not n_rows:
            raise InputError(f"{path} has {'columns but no rows' if self.columns else 'no columns'}.")

    def _blocks(
        self,
        rows_at_once: int,
        columns: list[str],
        text_columns: Collection[str],
        prose: Collection[str],  # noqa: ARG002
    ) -> Iterator[pd.DataFrame]:
        with _parquet_file(self.path) as file:
            for batch in file.iter_batches(rows_at_once, columns=columns):
                yield to_pandas(pa.Table.from_batches([batch]).select(columns), text_columns)

    def _read(
        self,
        columns: list[str],
        text_columns: Collection[str],
        prose: Collection[str],  # noqa: ARG002
    ) -> pd.DataFrame:
        with _parquet_file(self.path) as file:
            return to_pandas(file.read(columns).select(columns), text_columns)


class _FolderTable(Table):
    """A folder of images, domain/label/image, with the columns path, label and domain."""

    def __init__(self, path: Path) -> None:
        self._table = image_folder(path)
        super().__init__(path, list(self._table.columns))

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


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    # OSFile, because pyarrow resolves URLs such as s3://…; a buffer, because pre_buffer loads whole row groups
    with (
        reading(path),
        pa.OSFile(os.fsencode(path)) as source,
        pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20) as file,
    ):
        yield file
