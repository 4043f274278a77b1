"""What the commands know of the terminal."""

from __future__ import annotations

import shutil
import sys


def text_width() -> int:
    """Return how wide a table may be: the terminal's width, or 110 in a file or pipe."""
    return shutil.get_terminal_size((110, 24)).columns if sys.stdout.isatty() else 110
