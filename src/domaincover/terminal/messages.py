"""Messages on standard error, warnings as notes, and the width of the terminal."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

WIDTH_OF_FILES = 110


def say(message: str) -> None:
    """Print a message to standard error."""
    typer.echo(message, err=True)


def text_width() -> int:
    """Return the width of a table: the terminal's, or 110 characters in a file or pipe."""
    return shutil.get_terminal_size((WIDTH_OF_FILES, 24)).columns if sys.stdout.isatty() else WIDTH_OF_FILES


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each warning once, as a note without its line of code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"Note: {' '.join(message.split())}")
