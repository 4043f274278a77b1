"""What every open table can do, whatever its format: read all rows, or blocks of them, of some columns."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from domaincover.errors import InputError

ROWS_AT_ONCE = 65_536
# pandas' default missing values; they must be listed if any column is read differently.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"),
    *("NULL", "NaN", "None", "n/a", "nan", "null"),
)


class FileFormat(NamedTuple):
    """A file name extension, and what a file with it is called."""

    ending: str
    what: str


# By the first bytes of a file.
FORMATS = {
    b"PAR1": FileFormat(".parquet", "a Parquet file"),
    b"ARROW1": FileFormat(".arrow", "an Arrow file (Feather version 2)"),
    b"\x1f\x8b": FileFormat(".csv.gz", "gzip data"),
    b"PK\x03\x04": FileFormat(".zip", "a zip archive or a spreadsheet"),
    b"\xd0\xcf\x11\xe0": FileFormat(".xls", "an old spreadsheet"),
}


def format_of(start: bytes) -> FileFormat | None:
    """Return the format that a file's first bytes tell, None for text."""
    return next((found for magic, found in FORMATS.items() if start.startswith(magic)), None)


class Wanted(NamedTuple):
    """Columns to read in this order; those among `texts` are read as text, and in `prose` only "" is missing."""

    columns: list[str]
    texts: Collection[str] = ()
    prose: Collection[str] = ()


class Table(ABC):
    """An open table file; only its column names have been read.

    `notes` tell what was inferred about its format; `has_types` is whether the format says what is a number, `decimal`
    the decimal mark of text, and `is_images` whether the table is a folder of images.
    """

    has_types = True
    decimal = "."
    is_images = False
    n_rows: int | None = None  # where the format says so
    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, columns: Sequence[str], has_rows: bool = True) -> None:
        self.path = path
        self.columns = tuple(columns)
        self.has_rows = has_rows
        for name, count in Counter(columns).most_common(1):
            if count > 1:
                raise InputError(f"{path} has {count} columns named {name!r}; rename all but one.")

    @property
    def base(self) -> Path:
        """The folder from which paths in the table start."""
        return self.path.parent

    @property
    def files(self) -> list[Path]:
        """The files that the table consists of."""
        return [self.path]

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

    def arrow_blocks(self, rows_at_once: int, columns: list[str]) -> Iterator[Any]:
        """Read some columns as Arrow tables of at most `rows_at_once` rows, from formats with types of their own."""
        raise NotImplementedError

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


def a_spreadsheet(path: Path) -> InputError:
    """Return the error for a file of Excel."""
    return InputError(f"{path} is a spreadsheet, which is not read; save the sheet as CSV or Parquet.")


def no_column(place: str, name: str, columns: Sequence[str], option: str = "") -> InputError:
    """Return the error for a column that a table lacks, with a similar one."""
    by_plain_name = {column.strip().casefold(): column for column in columns}
    near = difflib.get_close_matches(name.strip().casefold(), by_plain_name, n=1)
    more = f", … and {len(columns) - 8} more" if len(columns) > 8 else ""
    listed = f"its columns are {', '.join(columns[:8])}{more}."
    return InputError(
        f"{place} has no column {name!r}{option}; {f'did you mean {by_plain_name[near[0]]!r}?' if near else listed}"
    )
