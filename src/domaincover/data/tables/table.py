"""Tables in files: what all can do, read all rows or blocks of them; and those of text and of images.

Text has a header line: CSV and TSV, plain or in gzip. A folder of images, domain/label/image, is one of their paths.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import os
import re
import warnings
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from domaincover.data.columns import THOUSANDS
from domaincover.errors import InputError
from domaincover.terminal.text import listed

ROWS_AT_ONCE = 65_536
# pandas' default missing values; they must be listed if any column is read differently.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)
HEAD = 100_000  # characters used to infer the separator; the csv module limits fields to 131,072
FORMATS = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file (Feather version 2)",
    b"\x1f\x8b": "gzip data",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
}  # by the first bytes of a file
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2")
LAYOUT = "images belong in folders domain/label, such as hospital-1/tumor/a.png"


class Wanted(NamedTuple):
    """Columns to read in this order; those among `texts` are read as text, and in `prose` only "" is missing."""

    columns: list[str]
    texts: Collection[str] = ()
    prose: Collection[str] = ()


class Table(ABC):
    """An open table file; only its column names have been read.

    `base` is the folder from which paths in the table start, `files` are those that the table consists of (images are
    known by name and size), and `notes` tell what was inferred about its format. `has_types` is whether the format says
    what is a number, `decimal` the decimal mark of text, and `is_images` whether the table is a folder of images.
    """

    has_types = True
    decimal = "."
    is_images = False
    n_rows: int | None = None  # where the format says so
    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, columns: Sequence[str], has_rows: bool = True) -> None:
        self.path, self.base, self.files = path, path.parent, [path]
        self.columns = tuple(columns)
        self.has_rows = has_rows
        for name, count in Counter(columns).most_common(1):
            if count > 1:
                raise InputError(f"{path} has {count} columns named {name!r}; rename all but one.")

    def read(
        self, columns: Sequence[str] | None = None, text_columns: Collection[str] = (), prose: Collection[str] = ()
    ) -> pd.DataFrame:
        """Read the table, or some of its columns in the given order; the other parameters are those of `blocks`."""
        return self._read(self._wanted(columns, text_columns, prose))

    def blocks(
        self,
        rows_at_once: int = ROWS_AT_ONCE,
        columns: Sequence[str] | None = None,
        text_columns: Collection[str] = (),
        prose: Collection[str] = (),
        copied: Sequence[str] = (),
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        """Read at most `rows_at_once` rows at a time, so that memory does not grow with the file.

        Beside each block are its `copied` columns as they are: with their types, or as their text. `text_columns` are
        read as text: in CSV "007" stays "007", in Parquet the number 7 becomes "7". In `prose` columns only empty
        values are missing, since a review may be "NA". The rows of each block are numbered from 0.
        """
        wanted = self._wanted(columns, text_columns, prose)
        return self._blocks(rows_at_once, wanted, self._wanted(copied).columns)

    def check_column(self, name: str, option: str) -> None:
        """Raise if there is no such column, and suggest a similar one."""
        if name not in self.columns:
            raise no_column(str(self.path), name, self.columns, f" ({option})" if option else "")

    def _wanted(
        self, columns: Sequence[str] | None, text_columns: Collection[str] = (), prose: Collection[str] = ()
    ) -> Wanted:
        for name in columns or ():
            self.check_column(name, option="")
        return Wanted(list(self.columns if columns is None else columns), {*text_columns, *prose}, prose)

    @abstractmethod
    def _read(self, wanted: Wanted) -> pd.DataFrame: ...

    @abstractmethod
    def _blocks(
        self, rows_at_once: int, wanted: Wanted, copied: list[str]
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]: ...


def no_column(place: str, name: str, columns: Sequence[str], option: str = "") -> InputError:
    """Return the error for a column that a table lacks, with a similar one."""
    by_plain_name = {column.strip().casefold(): column for column in columns}
    near = difflib.get_close_matches(name.strip().casefold(), by_plain_name, n=1)
    advice = f"did you mean {by_plain_name[near[0]]!r}?" if near else f"its columns are {listed(columns, 8)}."
    return InputError(f"{place} has no column {name!r}{option}; {advice}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the file system, pandas and pyarrow while reading a table into an InputError."""
    try:
        yield
    except pd.errors.ParserWarning as error:
        raise InputError(
            f"the first row of {path} has more fields than its header; quote texts with separators."
        ) from error
    except (pd.errors.ParserError, csv.Error) as error:
        raise InputError(_parser_fault(path, str(error))) from error
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise InputError(_file_fault(path, error)) from error


def _parser_fault(path: Path, fault: str) -> str:
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", fault):
        expected, line, saw = map(int, found.groups())
        return (
            f"line {line + 1} of {path} has {saw} fields, its header {expected}; quote texts with separators "
            "(cells of several lines are counted as one line)."
        )
    if found := re.search(r"EOF inside string starting at row (\d+)", fault):
        return f"{path} opens a quote in row {int(found[1]) + 1} below the header and never closes it."
    return f"{path} cannot be read as CSV: {fault.strip().splitlines()[-1]}."


def _file_fault(path: Path, fault: Exception) -> str:
    match fault:
        case FileNotFoundError():
            if address := re.match(r"([a-z][a-z0-9+.-]+:)/(?=[^/])", str(path), re.IGNORECASE):
                whole = f"{address[1]}//{str(path)[address.end() :]}"  # a path has no two slashes in a row
                return f"{whole} is an address; tables are read from files: download it first."
            return f"{path} does not exist."
        case IsADirectoryError():
            return f"{path} is a directory, not a file."
        case gzip.BadGzipFile() | zlib.error():
            return f"{path} is corrupt or not gzip data."
        case EOFError():
            return f"{path} is truncated: its compressed data ends too early; copy it again."
        case OSError(strerror=str(reason)):
            return f"cannot read {path}: {reason}."
    return f"{path} is corrupt or truncated: {str(fault).strip().splitlines()[0].rstrip('.')}."


class CsvTable(Table):
    """Comma-, semicolon- or tab-separated text."""

    has_types = False

    def __init__(self, path: Path) -> None:
        with _text_of(path) as text:
            is_tsv = path.name.lower().removesuffix(".gz").endswith(".tsv")
            self._dialect = _dialect(text.read(HEAD), "\t" if is_tsv else ",;\t")
        with _text_of(path) as text:
            names = self._read_header(text)
            any_rows = any(part.strip() for part in iter(lambda: text.read(HEAD), ""))  # in parts: a line can be long
        self.decimal = self._dialect["decimal"]
        super().__init__(path, names[1:] if names[:1] == [""] else names, any_rows)
        if self._dialect["sep"] == ";":
            comma = ", and numbers have a decimal comma" if self.decimal == "," else ""
            self.notes = (f"Fields are separated by semicolons{comma}.",)
        if not names:
            raise InputError(f"{path} is empty: it has no header line.")
        if "" in self.columns:
            raise InputError(f"{path} has a column without a name, number {names.index('', 1) + 1}; name or remove it.")

    def _read_header(self, text: io.TextIOWrapper) -> list[str]:
        rows = csv.reader(text, delimiter=self._dialect["sep"])
        return next((row for row in rows if any(field.strip() for field in row)), [])

    def _text_blocks(self, rows_at_once: int, wanted: Wanted) -> Iterator[pd.DataFrame]:
        with _text_of(self.path) as text:
            names, prose = self._read_header(text), wanted.prose
            reader = pd.read_csv(
                text,
                header=None,
                names=names,  # without usecols, with which pandas ignores excess fields of rows that are too long
                index_col=False,
                dtype=dict.fromkeys({*wanted.texts} & {*names}, str),
                chunksize=rows_at_once,
                low_memory=False,  # otherwise types are inferred from parts of a block
                keep_default_na=not prose,
                na_values={name: [""] if name in prose else MISSING for name in names} if prose else None,
                **self._dialect,
            )
            while (block := _next_block(reader)) is not None:
                yield block[wanted.columns].reset_index(drop=True)

    def _blocks(
        self, rows_at_once: int, wanted: Wanted, copied: list[str]
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        if not {*wanted.columns}.isdisjoint(copied):  # the same column as number and as text
            as_written = Wanted(copied, copied, copied)
            ways = (self._text_blocks(rows_at_once, way) for way in (wanted, as_written))
            yield from zip(*ways, strict=False)
            return
        both = Wanted([*wanted.columns, *copied], {*wanted.texts, *copied}, {*wanted.prose, *copied})
        for block in self._text_blocks(rows_at_once, both):
            yield block[wanted.columns], block[copied]

    def _read(self, wanted: Wanted) -> pd.DataFrame:
        # concatenating blocks needs little more than half the memory of one read_csv, at the same speed
        blocks = list(self._text_blocks(ROWS_AT_ONCE, wanted))
        kinds = {name: {_kind(block[name]) for block in blocks} - {"empty"} for name in wanted.columns}
        mixed = {name for name in kinds if len(kinds[name]) > 1}
        if mixed:  # numbers in some blocks and text in others: read as text
            return self._read(wanted._replace(texts={*wanted.texts, *mixed}))
        # text or booleans in some blocks, and in others only missing values, which pandas reads as floats
        uneven = [n for n in kinds if kinds[n] - {"number"} and len({block[n].dtype for block in blocks}) > 1]
        blocks = [block.astype(dict.fromkeys(uneven, object)) for block in blocks]
        return pd.concat(blocks, ignore_index=True).infer_objects()


@contextmanager
def _text_of(path: Path) -> Iterator[io.TextIOWrapper]:
    unpacked: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with reading(path), unpacked(path, "rb") as file:
        _check_start(path, file.read(4096))
        file.seek(0)
        try:
            yield io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        except UnicodeDecodeError as error:  # error.object is the last chunk read
            byte = file.tell() - len(error.object) + error.start + 1
            raise InputError(f"{path} is not UTF-8 text, at byte {byte:,}; save it as CSV in UTF-8.") from None


def _check_start(path: Path, start: bytes) -> None:
    """Reject other formats than text in UTF-8."""
    if not start:
        raise InputError(f"{path} is empty.")
    for magic, what in FORMATS.items():
        if start.startswith(magic):
            raise InputError(f"{path} contains {what}, not CSV in UTF-8; rename, unpack or convert it.")
    if b"\0" in start:
        raise InputError(f"{path} contains binary data or UTF-16 text; save it as CSV in UTF-8.")


def _dialect(head: str, separators: str) -> dict[str, Any]:
    rows_by_separator = {
        sep: list(islice(csv.reader(io.StringIO(head, newline=""), delimiter=sep), 100)) for sep in separators
    }
    sep = max(rows_by_separator, key=lambda sep: _fit(rows_by_separator[sep]))
    fields = [field for row in rows_by_separator[sep] for field in row]
    commas = any(re.fullmatch(r"[+-]?\d+,\d+", field) for field in fields)
    points = any(re.fullmatch(r"[+-]?\d+\.\d+", field) and not re.fullmatch(THOUSANDS, field) for field in fields)
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


class ImageTable(Table):
    """A folder of images as a table with the columns path, label and domain."""

    is_images = True

    def __init__(self, path: Path) -> None:
        self._cells = image_folder(path)
        super().__init__(path, self._cells.columns.tolist())
        self.files = []

    def _read(self, wanted: Wanted) -> pd.DataFrame:
        return self._cells[wanted.columns].copy()

    def _blocks(
        self, rows_at_once: int, wanted: Wanted, copied: list[str]
    ) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        for start in range(0, len(self._cells), rows_at_once):
            block = self._cells[start : start + rows_at_once].reset_index(drop=True)
            yield block[wanted.columns], block[copied]


def image_folder(folder: str | Path) -> pd.DataFrame:
    """Return the sorted images of the folders `domain/label` as a table with columns path (absolute), label, domain.

    Hidden files and files without an image extension are skipped.
    """
    root = os.path.abspath(folder)
    if not os.path.isdir(root):
        raise InputError(f"{folder} is not a folder; {LAYOUT}.")
    rows: list[tuple[str, str, str]] = []
    for above, folders, files in os.walk(root, onerror=_cannot_read, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        images = sorted(name for name in files if not name.startswith(".") and name.lower().endswith(IMAGE_ENDINGS))
        within = Path(above).relative_to(root).parts
        _check_level(above, len(within), folders, images)
        rows += [(os.path.join(above, name), within[1], within[0]) for name in images]
    if not rows:
        raise InputError(f"{folder} contains no images; {LAYOUT}.")
    return pd.DataFrame(rows, columns=["path", "label", "domain"])


def _check_level(above: str, depth: int, folders: list[str], images: list[str]) -> None:
    """Raise unless images are in label folders, two levels down, and only there."""
    if depth < 2 and images:
        raise InputError(f"{os.path.join(above, images[0])} is not inside a label folder; {LAYOUT}.")
    if depth == 1 and not folders:
        raise InputError(f"{above} contains no label folders; {LAYOUT}.")
    if depth == 2 and folders:
        raise InputError(f"{os.path.join(above, folders[0])} is a folder inside a label folder; {LAYOUT}.")
    if depth == 2 and not images:
        raise InputError(f"{above} contains no images ({', '.join(IMAGE_ENDINGS)}); add some or remove the folder.")


def _cannot_read(error: OSError) -> None:
    raise InputError(f"cannot read {error.filename}: {error.strerror}.") from error
