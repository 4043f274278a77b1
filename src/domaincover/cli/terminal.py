"""What the commands share: the terminal, and faults of writing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from domaincover.errors import InputError


def text_width() -> int:
    """Return how wide a table may be: the terminal's width, or 110 in a file or pipe."""
    return shutil.get_terminal_size((110, 24)).columns if sys.stdout.isatty() else 110


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a fault of the disk into one line that names the path."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from None
