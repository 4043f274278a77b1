"""Standard streams and signals: characters an encoding lacks, closed pipes, SIGTERM."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

PLAIN = {
    "─": "-",
    "…": "...",
    "−": "-",
    "–": "-",
    "—": "-",
    "·": ".",
    "×": "x",
    "≤": "<=",
    "≥": ">=",
    "±": "+/-",
    "’": "'",
}
PLAIN |= {"“": '"', "”": '"', "→": "->", "∞": "inf", "²": "^2", "ε": "epsilon", "δ": "delta", "λ": "lambda"}
PLAIN_CHARACTERS = "domaincover-plain"


def accept_any_text() -> None:
    """Let standard output and error accept any text, whatever their encoding."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    codecs.register_error(PLAIN_CHARACTERS, _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=PLAIN_CHARACTERS)


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """Replace a character that an encoding lacks by a similar one, or by its code."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign = error.object[error.start]
    return PLAIN.get(sign, sign.encode("ascii", "backslashreplace").decode()), error.start + 1


def discard_output() -> None:
    """Discard what is still buffered: the disk is full."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a stream that tests substituted has no file descriptor
            stream.flush()
            continue
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


class Termination:
    """Whether SIGTERM was received, as from a shutdown or a batch system."""

    was_received = False

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Raise what Ctrl-C raises, so that partial files are removed and child processes end."""
        self.was_received = True
        raise KeyboardInterrupt


@contextmanager
def sigterm_as_interrupt() -> Iterator[Termination]:
    """Treat SIGTERM as Ctrl-C."""
    termination = Termination()
    try:
        before = signal.signal(signal.SIGTERM, termination)
    except ValueError:  # not the main thread, which receives signals
        yield termination
        return
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, before)
