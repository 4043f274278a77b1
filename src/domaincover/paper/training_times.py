"""Training times of ERM and SET-COVER: one network of each, alternating in one process."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincover.errors import InputError
from domaincover.files import plain_json, write_whole
from domaincover.paper.collect import read_reports
from domaincover.paper.published import note_on
from domaincover.paper.run_directory import check_made_with
from domaincover.paper.study import Run, Study

FOLDER = "times"
METHODS = ("erm", "set-cover")
TURNS = 3


def measure_times(study: Study, out: Path, say: Callable[[str], object] = lambda _: None) -> None:
    """Time the training of ERM and SET-COVER on the data set of a study; an existing measurement is kept.

    ERM and SET-COVER alternate in short turns, so that a machine that slows down affects both. Networks with all layers
    trained are left out: they always train separately, and their runs record the time.
    """
    from domaincover.paper.job import versions  # loads torch, which reading times does not need

    if study.setting.trains_whole_networks:
        return
    file = out / FOLDER / f"{study.dataset}.json"
    run = next(run for run in study.runs() if run.method == "set-cover")
    config = json.loads(json.dumps(run.to_dict()))
    if file.exists():
        check_made_with(_read(file)["config"], config, file)
        return
    say(f"Measuring training times on {study.dataset}.")
    content = {"config": config, "seconds": _measured(study), "versions": versions()}
    file.parent.mkdir(exist_ok=True)
    write_whole(file, (json.dumps(content, indent=1) + "\n").encode())


def read_times(out: Path) -> pd.DataFrame:
    """Return seconds of both methods by data set: as measured, or the mean over runs where all layers are trained."""
    rows = _of_whole_networks(out)
    for file in sorted((out / FOLDER).glob("*.json")):
        content = _read(file)
        rows.append({"dataset": file.stem, **content["seconds"], "note": note_on(content["config"])})
    columns = {"erm": "erm_seconds", "set-cover": "set_cover_seconds"}
    return pd.DataFrame(rows, columns=["dataset", *columns, "note"]).rename(columns=columns)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = plain_json(file.read_text(encoding="utf-8"))
        seconds = {name: float(content["seconds"][name]) for name in METHODS}
        if not all(0 <= value < math.inf for value in seconds.values()):
            raise ValueError("no times")
        return {"config": dict(content["config"]), "seconds": seconds}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise InputError(f"{file} is no measurement of training times; delete it and run again.") from None


def _of_whole_networks(out: Path) -> list[dict[str, Any]]:
    reports = read_reports(out, lambda config: config.get("learn") == "all", METHODS)
    rows = [{**report["config"], **report["seconds"], "note": note_on(report["config"])} for report in reports]
    if not rows:
        return []
    means = pd.DataFrame(rows).pivot_table(index=["dataset", "note"], columns="method", values="train")
    return list(means.reindex(columns=list(METHODS)).dropna().reset_index().to_dict("records"))  # type: ignore[arg-type]


def _measured(study: Study) -> dict[str, float]:
    from domaincover.paper.job import threads_for

    runs = {run.method: run for run in study.runs() if run.seed == study.seeds[0]}
    seconds = dict.fromkeys(METHODS, 0.0)
    with threads_for(study.setting):
        for method in METHODS:  # warm-up, not counted
            _train(replace(runs[method], epochs=1))
        for part in np.array_split(np.arange(runs["erm"].epochs), TURNS):
            for method in METHODS if len(part) else ():
                seconds[method] += _train(replace(runs[method], epochs=len(part)))
    return seconds


def _train(run: Run) -> float:
    from domaincover.paper.job import estimator_of
    from domaincover.paper.study_datasets import draw_study_data

    X, y, domains = draw_study_data(run.setting, run.seed, run.min_cell_size, choices=run.choices).training
    model = estimator_of(run)
    started = time.perf_counter()
    model.fit(X, y, domains=domains)
    return time.perf_counter() - started
