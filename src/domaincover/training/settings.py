"""Settings of a training, their defaults by the number of rows, and how it is run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from domaincover.errors import InputError, check_choice
from domaincover.options import Iterate, JudgeAt, RecallFrom
from domaincover.training.checkpoints import Checkpoints
from domaincover.training.listeners import Listener

# Defaults for tables of a thousand to a million rows; docs/experiment-log.md has the measurements.
STEPS = 6_000
STEPS_ON_IMAGES = 2_000  # of a small network trained as a whole, where more gain nothing and take minutes
MOST_EPOCHS = 200
DUAL_STEPS = 60


@dataclass(frozen=True)
class TrainingSettings:
    """Training settings; the defaults are the paper's for its synthetic data, except `iterate`.

    With multipliers, weights oscillate around the target: an update that doubles a multiplier inflates the sets until
    later ones shrink them. `iterate="last"` keeps the final weights, as the paper does, anywhere in that oscillation;
    "best" keeps those of the dual step that was at target in every training cell (or came closest) with the smallest
    sets. A judge, if given, decides instead, and training stops after `patience` evaluations without improvement.
    `judge_at="epochs"` evaluates only after epochs, since a pass over held-out examples is expensive for large
    networks. `decay` lowers the learning rate to 0 over the second half. `batch_size` is for the caller, who makes the
    batches.
    """

    epochs: int = 30
    learning_rate: float = 1e-3
    update_every: int = 500
    recall_from: RecallFrom = "full-pass"
    iterate: Iterate = "best"
    decay: bool = False
    patience: int | None = None
    judge_at: JudgeAt = "steps"
    batch_size: int = 128

    def __post_init__(self) -> None:
        for name in ("epochs", "update_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate:g}.")
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience must be at least 1 or None, got {self.patience}.")
        check_choice("recall_from", self.recall_from, get_args(RecallFrom))
        check_choice("iterate", self.iterate, get_args(Iterate))


def plan_training(
    n_rows: int, batch_size: int | None, epochs: int | None, update_every: int | None, n_steps: int = STEPS
) -> TrainingSettings:
    """Fill in defaults: about `n_steps` steps, larger batches for larger tables, 60 dual steps or more."""
    if batch_size is None:
        batch_size = int(np.clip(2 ** round(math.log2(max(n_rows, 2) / 100)), 32, 1024))
    batch_size = whole_batches(batch_size, n_rows)
    n_batches = max(1, math.ceil(n_rows / max(batch_size, 1)))
    if epochs is None:
        epochs = min(MOST_EPOCHS, math.ceil(n_steps / n_batches))
    if update_every is None:
        update_every = n_batches // max(1, round(DUAL_STEPS / max(epochs, 1))) + 1
    # With several dual steps per epoch, a full pass at each would cost more than training itself.
    recall_from: RecallFrom = "full-pass" if update_every > n_batches else "batches"
    return TrainingSettings(epochs, update_every=update_every, recall_from=recall_from, batch_size=batch_size)


def plan_fine_tuning(
    n_rows: int, batch_size: int | None, epochs: int | None, update_every: int | None
) -> TrainingSettings:
    """Fill in defaults for a network that is costly to train: the paper's five epochs, batches of 64.

    Recall is that of the training batches, which is free; multipliers are updated eight times per epoch.
    """
    batch_size = whole_batches(64 if batch_size is None else batch_size, n_rows)
    n_batches = math.ceil(n_rows / batch_size)
    epochs = 5 if epochs is None else epochs
    # Rounded up, so that the last update of an epoch does not rest on a few remaining batches.
    update_every = math.ceil(n_batches / 8) if update_every is None else update_every
    return TrainingSettings(epochs, update_every=update_every, recall_from="batches", batch_size=batch_size)


def whole_batches(batch_size: int, n_rows: int) -> int:
    """Return a batch size that avoids a last batch of one example, which BatchNorm cannot normalise."""
    while 1 < batch_size < n_rows and n_rows % batch_size == 1:
        batch_size += 1
    return batch_size


@dataclass(frozen=True)
class TrainingRun:
    """How to run a training, which changes nothing in its result.

    Parameters
    ----------
    checkpoints : path or None
        Folder for checkpoints, written after every epoch and every `checkpoint_minutes`; the last two are kept.
    checkpoint_minutes : float
        Minutes between checkpoints within an epoch.
    resume : bool
        Resume from the checkpoints of an interrupted training; without it, existing checkpoints are an error.
    listeners : tuple of Listener
        What follows the training, such as a log of its metrics (`domaincover.training.listeners.Listener`).
    """

    checkpoints: str | Path | None = None
    checkpoint_minutes: float = 10.0
    resume: bool = False
    listeners: tuple[Listener, ...] = ()

    def __deepcopy__(self, memo: Any) -> TrainingRun:
        """Return itself, which cannot change: copies of an estimator have the same listeners."""
        return self

    def open_checkpoints(self, identity: Mapping[str, Any]) -> Checkpoints:
        """Return the checkpoints of a training, in a folder named by its identity."""
        plain = json.dumps(identity, default=str, sort_keys=True)
        own = Path(str(self.checkpoints)) / hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()
        kept = Checkpoints(own, self.checkpoint_minutes)
        state = None if self.resume else kept.newest()
        # A finished training is reused: one fit may contain the same training twice, such as a baseline's.
        if state is not None and not state.content["is_finished"]:
            raise InputError(
                f"{self.checkpoints} contains checkpoints of this training; pass resume=True (--resume) to resume "
                "it, or delete the folder to start again."
            )
        return kept
