"""Execution settings of training: checkpoints, precision and trackers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Mapping
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
    """How to run a training; the result is the same up to rounding and BatchNorm's batch statistics.

    Parameters
    ----------
    checkpoints : path or None
        Folder for checkpoints, written after every epoch and every `checkpoint_minutes`; the last two are kept.
    checkpoint_minutes : float
        Minutes between checkpoints within an epoch.
    resume : bool
        Resume from the checkpoints of an interrupted training; without it, existing checkpoints are an error.
    precision : "full", "bf16" or "fp16"
        Mixed precision, through accelerate.
    accumulate : int
        Number of pieces in which a batch is processed, to save memory.
    trackers : tuple of str
        Where to log metrics: "csv", "tensorboard", "mlflow" (its local store) or "wandb" (offline unless
        WANDB_MODE says otherwise).
    tracking : path
        Folder for what trackers write.
    on_epoch : callable or None
        Called after every epoch with the number of networks that train together.
    """

    checkpoints: str | Path | None = None
    checkpoint_minutes: float = 10.0
    resume: bool = False
    precision: Precision = "full"
    accumulate: int = 1
    trackers: tuple[str, ...] = ()
    tracking: str | Path = "tracking"
    on_epoch: Callable[[int], object] | None = None

    def __deepcopy__(self, memo: Any) -> TrainingRun:
        """Return itself, which cannot change: copies of an estimator report to the same callback."""
        return self

    def engine(self, device: str) -> Engine:
        """Return the engine that training runs on."""
        return make_engine(device, self.precision, self.accumulate)

    def open_checkpoints(self, identity: Mapping[str, Any]) -> Checkpoints | None:
        """Return the checkpoints of a training, in a folder of its own; None if not requested."""
        if self.checkpoints is None:
            return None
        plain = json.dumps(identity, default=str, sort_keys=True)
        own = Path(self.checkpoints) / hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()
        kept = Checkpoints(own, identity, self.checkpoint_minutes)
        state = None if self.resume else kept.newest()
        # A finished training is reused: one fit may contain the same training twice, such as a baseline's.
        if state is not None and not state.content["is_finished"]:
            raise InputError(
                f"{self.checkpoints} contains checkpoints of this training; pass resume=True (--resume) to resume "
                "it, or delete the folder to start again."
            )
        return kept


def open_command(folder: str | Path, command: Mapping[str, Any], resume: bool) -> BaseFileLock:
    """Lock a checkpoint folder for a command; raise if it belongs to another command, or exists without `resume`.

    The lock is held until the returned object is released or the process ends.
    """
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
