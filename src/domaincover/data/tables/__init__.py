"""Read tables from files, completely or in blocks: CSV and TSV, Parquet (also a folder of parts), Arrow.

CSV is UTF-8 text with a header line (or UTF-16, if a byte order mark says so), plain or as `.gz`. The separator (comma,
semicolon or tab; in `.tsv` a tab) and, with semicolons, the decimal comma are inferred from the first lines. pandas'
missing values ("", NA, N/A, NaN, None, null, …) are missing in text columns too, so a category named "NA" needs another
name; only prose, such as a review, may be "NA". Rows shorter than the header are filled with missing values, longer
ones are rejected. Types are inferred from the values: of all rows in `read`, of each block in `blocks`.

Parquet and Arrow files (`.arrow`, `.feather`) have their own types. Decimals become floats, dates timestamps, times of
day and bytes text, dictionaries of texts categories, and nested values objects. Integers with missing values become
floats and booleans with missing values objects, as in CSV.

Unnamed row numbers, as written by pandas and R, are not columns of the table.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from domaincover.data.tables.arrow_tables import (
    PARQUET_ENDINGS,
    ArrowTable,
    ParquetTable,
    PartsTable,
    names_in,
    part_names,
)
from domaincover.data.tables.table import FORMATS, IMAGE_ENDINGS, ROWS_AT_ONCE, CsvTable, ImageTable, Table, reading
from domaincover.data.tables.writer import write_table
from domaincover.errors import InputError

__all__ = ["ROWS_AT_ONCE", "Table", "is_standard_stream", "open_table", "write_table"]

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
