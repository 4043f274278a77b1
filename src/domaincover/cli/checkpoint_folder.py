"""The folder of checkpoints of a command: locked while it is used, and kept for the same command only."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError
from domaincover.files import plain_json, remove_unfinished, write_whole, writing

if TYPE_CHECKING:
    from filelock import BaseFileLock

COMMAND = "command.json"
LOCK = ".lock"


def open_command(folder: str | Path, command: Mapping[str, Any], resume: bool) -> BaseFileLock:
    """Lock a checkpoint folder for a command; raise if it belongs to another command, or exists without `resume`.

    The lock is held until the returned object is released or the process ends.
    """
    from filelock import FileLock, Timeout

    place = Path(folder) / LOCK
    lock, was_there = FileLock(place), place.exists()
    with writing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"another fit is using the checkpoints in {folder}; wait until it has ended, or choose another folder."
            ) from None
    try:
        _mark(folder, command, resume)
    except InputError:
        if not was_there:
            place.unlink(missing_ok=True)
        lock.release()
        raise
    return lock


def _mark(folder: str | Path, command: Mapping[str, Any], resume: bool) -> None:
    path, plain = Path(folder) / COMMAND, json.loads(json.dumps(command, default=str))
    if path.is_file():
        if not resume:
            raise InputError(
                f"{folder} contains checkpoints of an interrupted fit; add --resume to resume it, or choose another "
                "folder."
            )
        try:
            before = dict(plain_json(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path} cannot be read ({error}); choose another folder.") from None
        differing = sorted(key for key in {*before, *plain} if before.get(key) != plain.get(key))
        if differing:
            raise InputError(
                f"{folder} contains checkpoints of another fit, with a different {', '.join(differing[:5])}; choose "
                "another folder, or use the same settings."
            )
    else:
        write_whole(path, json.dumps(plain, indent=1).encode())


def close_checkpoints(folder: str | Path) -> None:
    """Delete the checkpoints in a folder, and the folder if it is then empty."""
    from domaincover.training.checkpoints import NAME

    folder = Path(folder)
    for own in [path for path in folder.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name)]:
        remove_unfinished(own)
        for state in own.iterdir():
            if NAME.fullmatch(state.name):
                state.unlink()
        with contextlib.suppress(OSError):
            own.rmdir()
    remove_unfinished(folder)
    for name in (COMMAND, LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
