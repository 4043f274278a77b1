"""Weights that are kept: checkpoints from which an interrupted training resumes, and the best of a training.

Of checkpoints there are the last two states, each written atomically: a safetensors file whose name contains the digest
of its content, so that a corrupt file is detected and the previous one used. It cannot contain code.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.files import fault, plain_json, remove_unfinished, write_whole
from domaincover.networks.perceptrons import Stack

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


class BestWeights(nn.Module):
    """The best weights of each replica: lowest first criterion, then lowest second.

    A replica that has stopped, while others go on, is held at the weights that it had then, as if trained alone. All is
    in `state_dict()`.
    """

    first: Tensor
    second: Tensor
    n_offers_since_better: Tensor
    stopped: Tensor  # the length of each replica's history when it stopped; 0 for one that has not

    def __init__(self, stacked: Stack, n_replicas: int) -> None:
        super().__init__()
        self._stacked = (stacked,)  # a tuple, so that torch does not register it as a submodule
        for name in ("first", "second"):
            self.register_buffer(name, torch.full((n_replicas,), torch.inf, dtype=torch.float64))
        for name in ("n_offers_since_better", "stopped"):
            self.register_buffer(name, torch.zeros(n_replicas, dtype=torch.int64))
        self._best, self._held = self._copies("best"), self._copies("held") if n_replicas > 1 else []

    @property
    def stopped_at(self) -> list[int | None]:
        """The length of each replica's history when it stopped; None for one that has not."""
        return [length or None for length in self.stopped.tolist()]

    @property
    def all_closed(self) -> bool:
        """Whether all replicas have stopped."""
        return None not in self.stopped_at

    def close(self, patience: int, length: int) -> None:
        """Stop the replicas without improvement in the last `patience` offers; `length` is that of histories."""
        stops = (self.n_offers_since_better >= patience) & (self.stopped == 0)
        self.stopped[stops] = length
        self._copy(stops, self._current(), self._held)

    def hold(self) -> None:
        """Give the replicas that have stopped the weights that they had then."""
        self._copy(self.stopped > 0, self._held, self._current())

    def offer(self, first: Tensor, second: Tensor) -> None:
        """Store the current weights of the replicas that have improved."""
        first, second = first.to(self.first), second.to(self.second)
        better = (first < self.first) | ((first == self.first) & (second < self.second))
        better &= ~second.isnan() & (self.stopped == 0)  # NaN: nothing was counted, as after two updates in a row
        self.first = torch.where(better, first, self.first)
        self.second = torch.where(better, second, self.second)
        self._copy(better, self._current(), self._best)
        self.n_offers_since_better = torch.where(better, 0, self.n_offers_since_better + 1)

    def restore(self) -> None:
        """Restore the best weights of all replicas that were evaluated."""
        self._copy(self.first.isfinite(), self._best, self._current())

    def _current(self) -> list[Tensor]:
        return [*self._stacked[0].parameters(), *self._stacked[0].buffers()]

    def _copies(self, name: str) -> list[Tensor]:
        """Return copies of the current weights, as buffers."""
        copies = [state.detach().clone() for state in self._current()]
        for number, copy in enumerate(copies):
            self.register_buffer(f"{name}{number}", copy)
        return copies

    @torch.no_grad()
    def _copy(self, replicas: Tensor, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
        """Copy the weights of the masked replicas."""
        if target and source and replicas.any():
            for new, old in zip(source, target, strict=True):
                old.copy_(torch.where(self._stacked[0].by_replica(replicas, old), new, old))


def shortfall(recall: Tensor, target_recall: Tensor) -> Tensor:
    """Return how far the worst cell of each replica is below its target, at least 0."""
    return (target_recall - recall).nan_to_num(0.0).clamp(min=0).amax((-2, -1))


def worst_recall(recall: Tensor, target_recall: Tensor) -> Tensor:
    """Return the recall of the worst cell of each replica that has a target; infinity without one."""
    return (recall + 0 * target_recall).nan_to_num(torch.inf).amin((-2, -1))
