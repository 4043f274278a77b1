"""Training histories of finished runs: recall and multiplier of every cell, and set size, at each dual step."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.errors import InputError

METHOD = "set-cover"


class TrainingHistory(NamedTuple):
    """The dual steps of one run of SET-COVER; recalls and multipliers are steps × cells."""

    dataset: str
    target_recall: float
    seed: int
    cells: list[str]
    recall: NDArray[np.float64]
    multipliers: NDArray[np.float64]
    set_size: NDArray[np.float64]


def read_histories(out: Path, results: pd.DataFrame) -> list[TrainingHistory]:
    """Return the history of SET-COVER's first seed for every data set and target recall of the results."""
    own = results[results["method"] == METHOD]
    pairs = own[["dataset", "target_recall"]].drop_duplicates().itertuples(index=False)
    found = [_first(out, str(dataset), float(target)) for dataset, target in pairs]
    return [history for history in found if history is not None]


def _first(out: Path, dataset: str, target: float) -> TrainingHistory | None:
    runs = (out / dataset / METHOD / f"target-{target!r}").glob("seed-*/history.npz")
    files = sorted((int(path.parent.name.removeprefix("seed-")), path) for path in runs)
    return _read(dataset, target, *files[0]) if files else None


def _read(dataset: str, target: float, seed: int, path: Path) -> TrainingHistory:
    try:
        with np.load(path, allow_pickle=False) as file:
            recall, multipliers, size = (file[name].astype(float) for name in ("recall", "multipliers", "set_size"))
            names = [f"{domain}, {label}" for domain in file["domains"] for label in file["labels"]]
        n_steps = len(size)
        recall, multipliers = (values.reshape(n_steps, len(names)) for values in (recall, multipliers))
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is not a training history ({reason}); delete that folder and run again.") from None
    has_rows = ~np.isnan(recall).all(axis=0)  # a label may be absent from a domain
    cells = [name for name, kept in zip(names, has_rows, strict=True) if kept]
    return TrainingHistory(dataset, target, seed, cells, recall[:, has_rows], multipliers[:, has_rows], size)
