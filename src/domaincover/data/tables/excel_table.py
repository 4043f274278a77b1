"""Excel workbooks with one sheet that is not empty: a header row, and values as Excel last computed them."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from domaincover.data.columns import category_text
from domaincover.data.tables.arrow_columns import copies, to_pandas
from domaincover.data.tables.faults import reading
from domaincover.data.tables.table import MISSING, MemoryTable, Wanted
from domaincover.errors import InputError

INSTALL = "Excel workbooks need the openpyxl package: pip install 'domaincover[excel]', or save the sheet as CSV."
MOST_BYTES = 2**31  # of an unpacked workbook; a sheet of a million rows and fifty columns has fewer
ERRORS = ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")  # beside #N/A


class ExcelTable(MemoryTable):
    """The only sheet of a workbook that is not empty; it is kept in memory."""

    def __init__(self, path: Path) -> None:
        rows = _rows_of(path)
        header = ["" if cell is None else str(cell) for cell in next(rows, ())]
        while header and header[-1] == "":
            header.pop()
        if not header:
            raise InputError(f"{path} is empty: it has no header row.")
        first = 1 if header[0] == "" else 0  # unnamed row numbers
        if "" in header[first:]:
            number = header.index("", first) + 1
            raise InputError(f"{path} has a column without a name, number {number}; name or remove it.")
        cells = [(*row[: len(header)], *[None] * (len(header) - len(row))) for row in rows]
        super().__init__(path, pd.DataFrame(cells, columns=header, dtype=object).iloc[:, first:])

    def _read(self, wanted: Wanted) -> pd.DataFrame:
        return to_pandas(self._arrow(wanted), wanted.texts)

    def _copies(self, copied: list[str]) -> pd.DataFrame:
        return copies(self._arrow(Wanted(copied, prose=copied)), copied)

    def _arrow(self, wanted: Wanted) -> Any:
        typed = {name: _typed(self._cells[name], name in wanted.prose) for name in wanted.columns}
        try:
            return pa.table({name: pa.array(column, from_pandas=True) for name, column in typed.items()})
        except pa.ArrowException as error:
            raise InputError(f"{self.path} cannot be read: {str(error).splitlines()[0]}.") from error


def _typed(column: pd.Series[Any], is_prose: bool) -> pd.Series[Any]:
    """Return a column of one type; where types are mixed, all values become text."""
    column = column.where(~column.isin([""] if is_prose else [*MISSING, *ERRORS]), None)
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind.startswith("mixed") and kind != "mixed-integer-float":
        column = column.map(_cell_text, na_action="ignore")
    return column


def _cell_text(cell: Any) -> str:
    """Return a cell beside texts as text; the number 1.234 becomes "1.2340", which is not read as 1,234."""
    text = category_text(cell)
    return f"{text}0" if isinstance(cell, float) and re.search(r"\.\d{3}$", text) else text


def _rows_of(path: Path) -> Iterator[tuple[Any, ...]]:
    """Return the rows of the sheet that are not empty."""
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(INSTALL) from error
    with reading(path):
        content = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        if n_bytes > MOST_BYTES:
            raise InputError(f"{path} unfolds to {n_bytes / 1e9:.1f} GB; save the sheet as CSV.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and other things that are not read
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            sheets = {sheet.title: _filled_rows(sheet) for sheet in book.worksheets}
    except InputError:
        raise
    except Exception as error:  # openpyxl passes on whatever its parsers raise
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path} is damaged or not an Excel workbook (.xlsx): {reason}.") from error
    filled = {title: rows for title, rows in sheets.items() if rows}
    if len(filled) > 1:
        named = ", ".join(map(repr, list(filled)[:6]))
        raise InputError(f"{path} has {len(filled)} sheets ({named}); keep the one meant, or save it as CSV.")
    return iter(next(iter(filled.values()), []))


def _filled_rows(sheet: Any) -> list[tuple[Any, ...]]:
    sheet.reset_dimensions()  # some programs write a wrong size
    return [row for row in sheet.iter_rows(values_only=True) if any(cell is not None for cell in row)]
