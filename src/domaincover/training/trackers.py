"""Log training metrics to a CSV file, TensorBoard, MLflow or Weights & Biases; none needs an account."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from domaincover.errors import InputError
from domaincover.files import writing
from domaincover.options import TRACKERS
from domaincover.training.history import Listener, Step

COLUMNS = ("batch", "epoch", "loss", "worst_recall", "set_size", "seconds")  # of a CSV file
PACKAGES = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}


class Log(NamedTuple):
    """An open log: a function that takes the number of batches and the metrics, and one that closes it."""

    write: Callable[[int, dict[str, float]], object]
    close: Callable[[], object]


class Tracker(Listener):
    """Writes the metrics of every step to a log of the given kind; an earlier log of the same name is kept."""

    def __init__(self, kind: str, folder: str | Path, name: str, settings: Mapping[str, Any]) -> None:
        check_tracker(kind)
        self._open, self._folder, self._name = OPENERS[kind], Path(folder), name
        self._settings = {
            key: value if isinstance(value, int | float | str) else repr(value) for key, value in settings.items()
        }
        self._log: Log | None = None

    def start(self, epochs: int, n_batches: int) -> None:
        """Open the log."""
        settings = self._settings | {"epochs": epochs, "batches_per_epoch": n_batches}
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._log = self._open(self._folder, self._name, settings)

    def step(self, step: Step) -> None:
        """Log the metrics of a step."""
        figures = {"loss": step.loss, "worst_recall": step.worst_recall, "set_size": step.set_size}
        known = {key: value for key, value in figures.items() if value is not None and math.isfinite(value)}
        if self._log is not None:
            with writing(self._folder):
                self._log.write(step.n_batches, {"epoch": step.epoch + 1, **known})

    def finish(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()
            self._log = None


def check_tracker(kind: str) -> None:
    """Raise if a tracker is unknown or its package is not installed."""
    from importlib.util import find_spec

    if kind not in TRACKERS:
        raise InputError(f"unknown tracker {kind!r}: choose one of {', '.join(TRACKERS)}.")
    if kind in PACKAGES and find_spec(PACKAGES[kind]) is None:
        raise InputError(f"the tracker {kind!r} needs {PACKAGES[kind]}: pip install 'domaincover[trackers]'.")


def _csv(folder: Path, name: str, settings: Mapping[str, Any]) -> Log:  # noqa: ARG001
    """Log to `NAME-1.csv`, one line per step."""
    # Line-buffered, so that interrupted runs keep lines.
    file, started = _unused(folder, name, ".csv").open("x", buffering=1, encoding="utf-8"), time.monotonic()
    file.write(",".join(COLUMNS) + "\n")

    def write(n_batches: int, figures: dict[str, float]) -> None:
        row = figures | {"batch": n_batches, "seconds": round(time.monotonic() - started, 3)}
        file.write(",".join(f"{row[name]:.9g}" if name in row else "" for name in COLUMNS) + "\n")

    return Log(write, file.close)


def _tensorboard(folder: Path, name: str, settings: Mapping[str, Any]) -> Log:
    """Log event files for `tensorboard --logdir FOLDER`, in a folder `NAME-1`."""
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(_unused(folder, name)))
    writer.add_text("settings", "\n".join(f"    {key} = {value}" for key, value in settings.items()))

    def write(n_batches: int, figures: dict[str, float]) -> None:
        for key, value in figures.items():
            writer.add_scalar(key, value, n_batches)

    return Log(write, writer.close)


def _mlflow(folder: Path, name: str, settings: Mapping[str, Any]) -> Log:
    """Log to MLflow's local store, or to MLFLOW_TRACKING_URI."""
    from mlflow import MlflowClient

    client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}")
    found = client.get_experiment_by_name("domaincover")
    experiment = found.experiment_id if found else client.create_experiment("domaincover")
    run = client.create_run(experiment, run_name=name).info.run_id
    for key, value in settings.items():
        client.log_param(run, key, value)

    def write(n_batches: int, figures: dict[str, float]) -> None:
        for key, value in figures.items():
            client.log_metric(run, key, value, step=n_batches)

    return Log(write, lambda: client.set_terminated(run))


def _wandb(folder: Path, name: str, settings: Mapping[str, Any]) -> Log:
    """Log to Weights & Biases, offline unless WANDB_MODE says otherwise; upload later with `wandb sync`."""
    import wandb

    run: Any = wandb.init(
        project="domaincover",
        name=name,
        dir=str(folder),
        config=dict(settings),
        mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]
        reinit="create_new",
        settings=wandb.Settings(silent=True),
    )
    return Log(lambda n_batches, figures: run.log(figures, step=n_batches), run.finish)


def _unused(folder: Path, name: str, ending: str = "") -> Path:
    """Return the first of `NAME-1`, `NAME-2`, … that does not exist."""
    stem, number = name.replace(" ", "").replace("×", "x"), 1
    while (path := folder / f"{stem}-{number}{ending}").exists():
        number += 1
    return path


OPENERS: dict[str, Callable[[Path, str, Mapping[str, Any]], Log]] = {
    "csv": _csv,
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
}
