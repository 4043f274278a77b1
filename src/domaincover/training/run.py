"""How a training is carried out: what it leaves behind, where it goes on, in what precision."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from domaincover.errors import InputError
from domaincover.files import plain_json, remove_unfinished, write_whole, writing
from domaincover.options import Precision
from domaincover.training.checkpoints import NAME, Checkpoints
from domaincover.training.engine import Engine, make_engine

COMMAND = "command.json"
LOCK = ".lock"


@dataclass(frozen=True)
class TrainingRun:
    """How to carry out a training; what is learned is the same, up to rounding and what BatchNorm sees of a batch.

    Parameters
    ----------
    checkpoints : path or None
        Folder for checkpoints: at every epoch and every so many minutes, the last two of each training.
    checkpoint_minutes : float
        Minutes between checkpoints within an epoch.
    resume : bool
        Go on from the checkpoints of an interrupted training. Without it, such checkpoints are refused.
    precision : "full", "bf16" or "fp16"
        Mixed precision, by way of accelerate.
    accumulate : int
        Pieces in which a batch goes through the network, for want of memory.
    trackers : tuple of str
        Where to tell how training goes: "csv", "tensorboard", "mlflow" (its local store) or "wandb" (offline unless
        WANDB_MODE says otherwise).
    tracking : path
        Folder for what trackers write.
    """

    checkpoints: str | Path | None = None
    checkpoint_minutes: float = 10.0
    resume: bool = False
    precision: Precision = "full"
    accumulate: int = 1
    trackers: tuple[str, ...] = ()
    tracking: str | Path = "tracking"

    def engine(self, device: str) -> Engine:
        """Return what training runs on."""
        return make_engine(device, self.precision, self.accumulate)

    def open_checkpoints(self, identity: Mapping[str, Any]) -> Checkpoints | None:
        """Return the place for the checkpoints of a training, a folder of its own; None where none are asked for."""
        if self.checkpoints is None:
            return None
        plain = json.dumps(identity, default=str, sort_keys=True)
        own = Path(self.checkpoints) / hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()
        kept = Checkpoints(own, identity, self.checkpoint_minutes)
        state = None if self.resume else kept.newest()
        # A finished one is taken as it is: a fit may hold the same training twice, such as a baseline's.
        if state is not None and not state.content["is_finished"]:
            raise InputError(
                f"{self.checkpoints} holds checkpoints of this very training; give resume=True (--resume) to go on "
                "from them, or delete the folder to start afresh."
            )
        return kept


def open_command(folder: str | Path, command: Mapping[str, Any], resume: bool) -> BaseFileLock:
    """Mark a folder of checkpoints as that of a command; refuse another command's, or one that is not to go on.

    Nobody else can open it as long as what is returned is kept, or the process lives.
    """
    place = Path(folder) / LOCK
    lock, was_there = FileLock(place), place.exists()
    with writing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"another fit is at work with the checkpoints in {folder}; wait until it has ended, or name another "
                "folder."
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
                f"{folder} holds checkpoints of an interrupted fit; add --resume to go on from them, or name another "
                "folder."
            )
        try:
            before = dict(plain_json(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path} cannot be read ({error}); name another folder.") from None
        differing = sorted(key for key in {*before, *plain} if before.get(key) != plain.get(key))
        if differing:
            raise InputError(
                f"{folder} holds checkpoints of another fit, with another {', '.join(differing[:5])}; name another "
                "folder, or give what was given then."
            )
    else:
        write_whole(path, json.dumps(plain, indent=1).encode())


def close_checkpoints(folder: str | Path) -> None:
    """Delete the checkpoints in a folder, and the folder where nothing else is in it."""
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
