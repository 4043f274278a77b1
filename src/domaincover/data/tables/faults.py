"""Report errors of reading tables in one line that names the file."""

from __future__ import annotations

import csv
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa

from domaincover.errors import InputError


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
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException) as error:
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
            return f"{path} is corrupt or not gzip data." if path.suffix != ".zip" else f"{path} is corrupt."
        case lzma.LZMAError() | zipfile.BadZipFile():
            return f"{path} is corrupt or not a zip archive."
        case EOFError():
            return f"{path} is truncated: its compressed data ends too early; copy it again."
        case OSError(strerror=str(reason)):
            return f"cannot read {path}: {reason}."
    return f"{path} is corrupt or truncated: {str(fault).strip().splitlines()[0].rstrip('.')}."
