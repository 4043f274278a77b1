"""Messages on standard error, warnings as notes, and the width of the terminal."""

from __future__ import annotations

import logging
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from typing import Any

import typer

from domaincover.errors import InputError

WIDTH_OF_FILES = 110
_left_behind: ContextVar[str] = ContextVar("_left_behind", default="nothing was written")
_arguments: ContextVar[Sequence[str]] = ContextVar("_arguments", default=())  # of the command that runs


def say(message: str) -> None:
    """Print a message to standard error."""
    typer.echo(message, err=True)


def if_stopped(left_behind: str) -> None:
    """Set what a command says that it leaves behind, should it be stopped from now on."""
    _left_behind.set(left_behind)


def left_behind() -> str:
    """Return what the command leaves behind."""
    return _left_behind.get()


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
        say(f"Note: {as_options(' '.join(message.split()), _arguments.get())}")


@contextmanager
def logs_as_messages(*, all_of_them: bool) -> Iterator[None]:
    """Print what the library logs: all of it, or a line every now and then; of networks a terminal shows a bar."""
    has_bar = not all_of_them and sys.stderr.isatty()
    logger = logging.getLogger("domaincover.estimators" if has_bar else "domaincover")
    handler, level = logging.StreamHandler(), logger.level  # to standard error, without level and time
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if all_of_them else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def as_options(message: str, arguments: Sequence[str]) -> str:
    """Return a message of the library in words of the command line: arguments are named as its options.

    Names in quotes are a user's, and stay.

    >>> as_options("lower min_cell_size, or set calibration='cross-fit'; 'min_cell_size' is a column.",
    ...            ["min_cell_size", "calibration"])
    "lower --min-cell-size, or set --calibration cross-fit; 'min_cell_size' is a column."
    """
    for name in arguments:
        option = f"--{name.replace('_', '-')}"
        message = re.sub(rf"(?<![\w'\"\-.]){name}=(['\"]?)([\w.+\-]+)\1", rf"{option} \2", message)
        if "_" in name:  # others are words, too
            message = re.sub(rf"(?<![\w'\"\-.]){name}(?![\w'\"])", option, message)
    return message


def speaks_of_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let errors and notes of a command name options, where the library names arguments of Python."""
    arguments = tuple(signature(command).parameters)

    @wraps(command)
    def called(*args: Any, **given: Any) -> None:
        before = _arguments.set(arguments)
        try:
            command(*args, **given)
        except InputError as error:
            raise InputError(as_options(str(error), arguments)) from error
        finally:
            _arguments.reset(before)

    return called
