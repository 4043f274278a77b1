"""Files appear whole or not at all."""

import contextlib
import os
import secrets
from pathlib import Path

from domaincover.errors import InputError


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
