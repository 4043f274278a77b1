"""Log training metrics to a CSV file, TensorBoard, MLflow or Weights & Biases; none needs an account."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from domaincover.errors import InputError
from domaincover.files import writing
from domaincover.options import TRACKERS
from domaincover.training.listeners import Listener, Step

Settings = Mapping[str, Any]


class Tracker(Listener):
    """Base class of trackers; subclasses implement `_open`, `_log` and `_close`."""

    def __init__(self, folder: str | Path, name: str, settings: Settings) -> None:
        self.folder, self.name = Path(folder), name
        self.settings = {
            key: value if isinstance(value, int | float | str) else repr(value) for key, value in settings.items()
        }
        self._is_open = False

    def start(self, epochs: int, n_batches: int) -> None:
        """Open the log."""
        self.settings |= {"epochs": epochs, "batches_per_epoch": n_batches}
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._open()
        self._is_open = True

    def step(self, step: Step) -> None:
        """Log the metrics of a step."""
        figures = {"loss": step.loss, "worst_recall": step.worst_recall, "set_size": step.set_size}
        known = {key: value for key, value in figures.items() if value is not None and math.isfinite(value)}
        with writing(self.folder):
            self._log(step.n_batches, {"epoch": step.epoch + 1, **known})

    def finish(self) -> None:
        """Close the log."""
        if self._is_open:
            self._close()
            self._is_open = False

    def _unused(self, ending: str = "") -> Path:
        """Return the first of `NAME-1`, `NAME-2`, … that does not exist."""
        stem, number = self.name.replace(" ", "").replace("×", "x"), 1
        while (path := self.folder / f"{stem}-{number}{ending}").exists():
            number += 1
        return path

    def _open(self) -> None: ...

    def _log(self, n_batches: int, figures: dict[str, float]) -> None: ...

    def _close(self) -> None: ...


class CsvTracker(Tracker):
    """Log to `NAME-1.csv`, one line per step; an existing file is kept and the next number used."""

    COLUMNS = ("batch", "epoch", "loss", "worst_recall", "set_size", "seconds")

    def _open(self) -> None:
        # line-buffered, so that interrupted runs keep lines
        self._file = self._unused(".csv").open("x", buffering=1, encoding="utf-8")
        self._file.write(",".join(self.COLUMNS) + "\n")
        self._started = time.monotonic()

    def _log(self, n_batches: int, figures: dict[str, float]) -> None:
        row = figures | {"batch": n_batches, "seconds": round(time.monotonic() - self._started, 3)}
        self._file.write(",".join(f"{row[name]:.9g}" if name in row else "" for name in self.COLUMNS) + "\n")

    def _close(self) -> None:
        self._file.close()


class TensorBoardTracker(Tracker):
    """Log event files for `tensorboard --logdir FOLDER`, in a folder `NAME-1`; an existing one is kept."""

    def _open(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(self._unused()))
        self._writer.add_text("settings", "\n".join(f"    {key} = {value}" for key, value in self.settings.items()))

    def _log(self, n_batches: int, figures: dict[str, float]) -> None:
        for key, value in figures.items():
            self._writer.add_scalar(key, value, n_batches)

    def _close(self) -> None:
        self._writer.close()


class MlflowTracker(Tracker):
    """Log to MLflow's local store, or to MLFLOW_TRACKING_URI."""

    EXPERIMENT = "domaincover"

    def _open(self) -> None:
        from mlflow import MlflowClient

        local = self.folder.resolve() / "mlflow.db"
        self._client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{local}")
        found = self._client.get_experiment_by_name(self.EXPERIMENT)
        experiment = found.experiment_id if found else self._client.create_experiment(self.EXPERIMENT)
        self._run = self._client.create_run(experiment, run_name=self.name).info.run_id
        for key, value in self.settings.items():
            self._client.log_param(self._run, key, value)

    def _log(self, n_batches: int, figures: dict[str, float]) -> None:
        for key, value in figures.items():
            self._client.log_metric(self._run, key, value, step=n_batches)

    def _close(self) -> None:
        self._client.set_terminated(self._run)


class WandbTracker(Tracker):
    """Log to Weights & Biases, offline unless WANDB_MODE says otherwise; upload later with `wandb sync`."""

    def _open(self) -> None:
        import wandb

        self._run: Any = wandb.init(
            project="domaincover",
            name=self.name,
            dir=str(self.folder),
            config=self.settings,
            mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]
            reinit="create_new",
            settings=wandb.Settings(silent=True),
        )

    def _log(self, n_batches: int, figures: dict[str, float]) -> None:
        self._run.log(figures, step=n_batches)

    def _close(self) -> None:
        self._run.finish()


MAKERS: dict[str, Callable[[str | Path, str, Settings], Tracker]] = {
    "csv": CsvTracker,
    "tensorboard": TensorBoardTracker,
    "mlflow": MlflowTracker,
    "wandb": WandbTracker,
}
PACKAGES = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}


def make_tracker(kind: str, folder: str | Path, name: str, settings: Settings) -> Tracker:
    """Return a tracker by name."""
    check_tracker(kind)
    return MAKERS[kind](folder, name, settings)


def check_tracker(kind: str) -> None:
    """Raise if a tracker is unknown or its package is not installed."""
    from importlib.util import find_spec

    if kind not in TRACKERS:
        raise InputError(f"unknown tracker {kind!r}: choose one of {', '.join(TRACKERS)}.")
    if kind in PACKAGES and find_spec(PACKAGES[kind]) is None:
        raise InputError(f"the tracker {kind!r} needs {PACKAGES[kind]}: pip install 'domaincover[trackers]'.")
