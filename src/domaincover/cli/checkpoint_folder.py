"""The folder of checkpoints of a command: locked while it is used, and kept for the same command only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from domaincover.errors import InputError
from domaincover.files import only_writer, plain_json, remove_unfinished, write_whole

COMMAND = "command.json"


@contextmanager
def checkpoints_of(command: Mapping[str, Any], folder: Path, *, resume: bool) -> Iterator[None]:
    """Lock a folder for the checkpoints of a command, and delete them when it has succeeded.

    Raise if there are checkpoints of another command, or some of this one without `resume`.
    """
    with only_writer(folder):
        _check_command(folder / COMMAND, json.loads(json.dumps(command, default=str)), resume)
        yield
        _delete_checkpoints(folder)


def _check_command(path: Path, command: dict[str, Any], resume: bool) -> None:
    if not path.is_file():
        write_whole(path, json.dumps(command, indent=1).encode())
        return
    if not resume:
        raise InputError(
            f"{path.parent} contains checkpoints of an interrupted fit; add --resume to resume it, or choose another "
            "folder."
        )
    try:
        before = dict(plain_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read ({error}); choose another folder.") from None
    if differing := sorted(key for key in {*before, *command} if before.get(key) != command.get(key)):
        raise InputError(
            f"{path.parent} contains checkpoints of another fit, with a different {', '.join(differing[:5])}; choose "
            "another folder, or use the same settings."
        )


def _delete_checkpoints(folder: Path) -> None:
    """Delete what training and this module wrote, and nothing else."""
    from domaincover.training.checkpoints import NAME

    for own in [path for path in folder.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name)]:
        remove_unfinished(own)
        for state in [path for path in own.iterdir() if NAME.fullmatch(path.name)]:
            state.unlink()
        with suppress(OSError):  # it is not empty
            own.rmdir()
    remove_unfinished(folder)
    (folder / COMMAND).unlink(missing_ok=True)
