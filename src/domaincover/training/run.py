"""Execution settings of training: checkpoints, precision and trackers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domaincover.errors import InputError
from domaincover.options import Precision
from domaincover.training.checkpoints import Checkpoints
from domaincover.training.engine import Engine, make_engine


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
        """Return the checkpoints of a training, in a folder named by its identity; None if not requested."""
        if self.checkpoints is None:
            return None
        plain = json.dumps(identity, default=str, sort_keys=True)
        own = Path(self.checkpoints) / hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()
        kept = Checkpoints(own, self.checkpoint_minutes)
        state = None if self.resume else kept.newest()
        # A finished training is reused: one fit may contain the same training twice, such as a baseline's.
        if state is not None and not state.content["is_finished"]:
            raise InputError(
                f"{self.checkpoints} contains checkpoints of this training; pass resume=True (--resume) to resume "
                "it, or delete the folder to start again."
            )
        return kept
