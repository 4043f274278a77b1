"""What comes between a command and its terminal: signs it cannot show, a reader who left, a call to end."""

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
IN_PLAIN_SIGNS = "domaincover-plain"


def take_any_text() -> None:
    """Let standard output and error take whatever text there is, in whatever encoding they have."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    codecs.register_error(IN_PLAIN_SIGNS, _in_plain_signs)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=IN_PLAIN_SIGNS)


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    """Write a sign that an encoding does not have as one that looks like it, or by its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign = error.object[error.start]
    return PLAIN.get(sign, sign.encode("ascii", "backslashreplace").decode()), error.start + 1


def write_no_more() -> None:
    """Send what is still to be written nowhere: there is no room."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # one that tests have put in its place has no number
            stream.flush()
            continue
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


class Ending:
    """Whether the process was told to end, as a machine that is shut down or a batch system tells it."""

    was_asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End as Ctrl-C does, so that nothing half-written stays and other processes go."""
        self.was_asked = True
        raise KeyboardInterrupt


@contextmanager
def sigterm_as_interrupt() -> Iterator[Ending]:
    """Treat SIGTERM as Ctrl-C."""
    ending = Ending()
    try:
        before = signal.signal(signal.SIGTERM, ending)
    except ValueError:  # not the main thread, which is where signals arrive
        yield ending
        return
    try:
        yield ending
    finally:
        signal.signal(signal.SIGTERM, before)
