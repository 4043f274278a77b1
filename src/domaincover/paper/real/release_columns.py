"""Read columns of a release's CSV files in blocks, with multi-line quoted texts and "NA" as text."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from domaincover.data.tables.faults import reading
from domaincover.errors import InputError

TEXT, WHOLE, NUMBER = pa.large_string(), pa.int64(), pa.float64()  # the reviews exceed the 2 GB of plain strings
BYTES_AT_ONCE = 1 << 24  # a single review must fit
LARGEST_WHOLE = 2**53  # up to which every whole number is a float


def read_columns(path: Path, kinds: Mapping[str, Any], may_be_empty: Collection[str] = ()) -> Any:
    """Read some columns of a file as an Arrow table; texts must not be empty except in `may_be_empty`."""
    table = pa.Table.from_batches(list(read_blocks(path, kinds)), pa.schema(kinds.items()))
    if table.num_rows == 0:
        raise InputError(f"{path} has columns but no rows; copy it again.")
    for name in kinds:
        if kinds[name] == TEXT and name not in may_be_empty:
            reject_rows(to_array(pc.equal(table[name], "")), path, f"column {name!r} is empty")
    return table


def read_blocks(path: Path, kinds: Mapping[str, Any]) -> Iterator[Any]:
    """Read some columns of a file in blocks, with bounded memory; whole numbers may be written as decimals, as 3.0."""
    _reject_absent_columns(path, kinds)
    n_rows = 0
    with reading(path):
        try:
            for block in _blocks(path, kinds):
                yield _with_whole_numbers(block, kinds, path, n_rows)
                n_rows += len(block)
        except pa.ArrowInvalid as error:
            _reject_file(path, str(error))


def column_names(path: Path) -> list[str]:
    """Return the column names in a file's header."""
    with reading(path), path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return next(csv.reader(file), [])


def reject_rows(faulty: NDArray[np.bool_], path: Path, what: str, rows: NDArray[np.int64] | None = None) -> None:
    """Raise if any row is faulty, with the number of faulty rows and the first one; `rows` are the row numbers."""
    if faulty.any():
        first = int(faulty.argmax())
        row = first if rows is None else int(rows[first])
        n_rows = f"{int(faulty.sum()):,} row{'s' if faulty.sum() > 1 else ''}"
        raise InputError(f"{path}: {what} in {n_rows}, first in row {row + 1} below the header; copy the file again.")


def to_array(column: Any) -> NDArray[Any]:
    """Return an Arrow column as an array, with texts as objects."""
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)


def _blocks(path: Path, kinds: Mapping[str, Any]) -> Iterator[Any]:
    types = {name: NUMBER if kind == WHOLE else kind for name, kind in kinds.items()}
    conversion = arrow_csv.ConvertOptions(
        include_columns=list(kinds), column_types=types, null_values=[], strings_can_be_null=False
    )
    with arrow_csv.open_csv(
        path,
        arrow_csv.ReadOptions(block_size=BYTES_AT_ONCE, use_threads=False),  # or errors would not name the row
        arrow_csv.ParseOptions(newlines_in_values=True),
        conversion,
    ) as blocks:
        yield from blocks


def _with_whole_numbers(block: Any, kinds: Mapping[str, Any], path: Path, n_rows_before: int) -> Any:
    """Return a block whose columns of whole numbers are integers; reject other numbers in them."""
    for place, (name, kind) in enumerate(kinds.items()):
        if kind == WHOLE:
            numbers = to_array(block.column(place))
            faulty = ~((np.abs(numbers) <= LARGEST_WHOLE) & (numbers == np.rint(numbers)))
            if faulty.any():
                first = int(faulty.argmax())
                found, row = f"{numbers[first]:g}", n_rows_before + first + 1
                raise InputError(
                    f"{path}: column {name!r} contains {found!r} in row {row} below the header, which is not a whole "
                    "number."
                )
            block = block.set_column(place, pa.field(name, WHOLE), pa.array(numbers.astype(np.int64)))
    return block


def _reject_absent_columns(path: Path, wanted: Collection[str]) -> None:
    names = column_names(path)
    for name in wanted:
        if name not in names:
            has = ", ".join(filter(None, names[:12])) or "none"
            raise InputError(f"{path} has no column {name!r}; it has {has}, and may be of another dataset.")


def _reject_file(path: Path, fault: str) -> NoReturn:
    """Raise with Arrow's fault in our words."""
    found = re.search(r"Row #(\d+)", fault)
    where = f" in row {int(found[1]) - 1} below the header" if found else ""  # Arrow counts the header
    if found := re.search(r"column #(\d+).*invalid value '(.*)'", fault, flags=re.DOTALL):
        column = column_names(path)[int(found[1])]
        raise InputError(f"{path}: column {column!r} contains {found[2]!r}{where}, which is not a number.") from None
    if "UTF8" in fault:
        raise InputError(f"{path} is not UTF-8 text{where}; copy it again.") from None
    if found := re.search(r"Expected (\d+) columns, got (\d+)", fault):
        raise InputError(f"{path} has {found[2]} fields{where}, its header {found[1]}; copy it again.") from None
    raise InputError(f"{path} cannot be read as CSV: {' '.join(fault.split())[:200]}.") from None
