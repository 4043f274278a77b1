"""What every open table can do, whatever its format: read all rows, or blocks of them, of some columns."""

from __future__ import annotations

import csv
import difflib
import gzip
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from domaincover.errors import InputError

ROWS_AT_ONCE = 65_536
# pandas' default missing values; they must be listed if any column is read differently.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)


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
    more = f", … and {len(columns) - 8} more" if len(columns) > 8 else ""
    listed = f"its columns are {', '.join(columns[:8])}{more}."
    return InputError(
        f"{place} has no column {name!r}{option}; {f'did you mean {by_plain_name[near[0]]!r}?' if near else listed}"
    )


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
