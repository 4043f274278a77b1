"""Tables as text with a header line: CSV and TSV, plain or in gzip."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from domaincover.data.columns import THOUSANDS
from domaincover.data.tables.table import MISSING, ROWS_AT_ONCE, Table, Wanted, reading
from domaincover.errors import InputError

HEAD = 100_000  # characters used to infer the separator; the csv module limits fields to 131,072
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
FORMATS = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file (Feather version 2)",
    b"\x1f\x8b": "gzip data",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
}  # by the first bytes of a file


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
        encoding = _encoding(path, file.read(4096))
        file.seek(0)
        try:
            yield io.TextIOWrapper(file, encoding=encoding, newline="")
        except UnicodeDecodeError as error:  # error.object is the last chunk read
            byte = file.tell() - len(error.object) + error.start + 1
            written = "UTF-16" if encoding == "utf-16" else "UTF-8"
            raise InputError(f"{path} is not {written} text, at byte {byte:,}; save it as CSV in UTF-8.") from None
        except UnicodeError as error:  # UTF-16 that ends within a character
            raise InputError(f"{path} is not UTF-16 text: {error}; save it as CSV in UTF-8.") from None


def _encoding(path: Path, start: bytes) -> str:
    """Return the encoding of text, UTF-16 only by its mark; reject other formats."""
    if not start:
        raise InputError(f"{path} is empty.")
    for magic, what in FORMATS.items():
        if start.startswith(magic):
            raise InputError(f"{path} contains {what}, not CSV in UTF-8; rename, unpack or convert it.")
    if start.startswith(UTF_16) and start[2:4] != b"\0\0":
        return "utf-16"
    if b"\0" in start:
        if not any(start[::2]) or not any(start[1::2]):
            raise InputError(f"{path} seems to be UTF-16 without a byte order mark; save it as CSV in UTF-8.")
        raise InputError(f"{path} contains binary data, not CSV in UTF-8.")
    return "utf-8-sig"


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
