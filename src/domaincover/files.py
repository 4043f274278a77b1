"""Files appear whole or not at all; JSON from anybody is read or is a ValueError."""

import contextlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from domaincover.errors import InputError

UNFINISHED = re.compile(r"\.[0-9a-f]{12}\.part")


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, then rename; on failure the old file stays as it was."""
    if not path.name or os.path.isdir(path):
        raise InputError(f"cannot write {path}: it is a directory, not a file.")
    unfinished = path.with_name(f".{secrets.token_hex(6)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def plain_json(content: str | bytes) -> Any:
    """Return what JSON says; lists in lists without end are a ValueError, as every other fault is."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def remove_unfinished(folder: Path) -> None:
    """Remove what `write_whole` had begun in a folder when it was killed; nothing may be writing there."""
    for path in folder.iterdir():
        if UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)
