"""Checkpoints from which an interrupted training resumes: the last two states, each written atomically.

A state is a safetensors file whose name contains the digest of its content, so that a corrupt file is detected and the
previous one used. It cannot contain code.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
from torch import Tensor

from domaincover.errors import InputError
from domaincover.files import fault, plain_json, remove_unfinished, write_whole

NAME = re.compile(r"state-(\d{6,12})-([0-9a-f]{32})\.safetensors")


class State(NamedTuple):
    """Named tensors, and everything else as plain data."""

    tensors: dict[str, Tensor]
    content: dict[str, Any]


class Checkpoints:
    """The checkpoint folder of one training."""

    def __init__(self, folder: Path, every_minutes: float = 10.0) -> None:
        if not every_minutes > 0:
            raise InputError(f"minutes between checkpoints must be above 0, got {every_minutes:g}.")
        self.folder = folder
        self._seconds, self._written = 60 * every_minutes, time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write checkpoints to {folder}: {fault(error)}.") from None

    @property
    def is_due(self) -> bool:
        """Whether enough time has passed since the last state was written."""
        return time.monotonic() - self._written >= self._seconds

    def write(self, state: State) -> None:
        """Write a state; of the older ones, only the newest is kept."""
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.tensors.items()}
        written = safetensors.torch.save(tensors, {"content": json.dumps(state.content)})
        older = self._files()
        number = max((number for number, _ in older), default=0) + 1
        remove_unfinished(self.folder)
        write_whole(self.folder / f"state-{number:06d}-{_digest(written)}.safetensors", written)
        for _, path in older[:-1]:
            path.unlink(missing_ok=True)
        self._written = time.monotonic()

    def newest(self) -> State | None:
        """Return the newest valid state, or None."""
        return next(filter(None, (_read(path) for _, path in reversed(self._files()))), None)

    def _files(self) -> list[tuple[int, Path]]:
        """Return number and path of every state, oldest first."""
        found = [(NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return sorted((int(match[1]), path) for match, path in found if match)


def _read(path: Path) -> State | None:
    """Return the state in a file, or None unless its content matches the digest in its name."""
    try:
        written = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from None
    if not path.stem.endswith(_digest(written)):
        return None
    length = int.from_bytes(written[:8], "little")
    try:
        header = plain_json(written[8 : 8 + length])
        return State(safetensors.torch.load(written), plain_json(header["__metadata__"]["content"]))
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} is not a checkpoint ({' '.join(str(error).split())[:100]}); remove it.") from None


def _digest(written: bytes) -> str:
    return hashlib.blake2b(written, digest_size=16).hexdigest()
