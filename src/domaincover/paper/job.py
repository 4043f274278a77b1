"""A job: the runs of a study that share a data set and a kind of network, trained together as one stack."""

from __future__ import annotations

import platform
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from domaincover.data.dataset import texts
from domaincover.data.splits import Split
from domaincover.evaluation import domain_report
from domaincover.paper.material import Material, Setting, draw_material
from domaincover.paper.methods import Scorer, Scores, Training, study_method
from domaincover.paper.own_methods import sets_of_own
from domaincover.paper.run_directory import write_json, write_run
from domaincover.paper.study import Run
from domaincover.paper.study_networks import (
    Epochs,
    Key,
    Replica,
    forget_checkpoints,
    groups_of,
    threads_for,
    train_group,
)
from domaincover.prediction_sets import Sets
from domaincover.training.history import History
from domaincover.training.scoring import score


@dataclass(frozen=True)
class Job:
    """Runs whose networks train together, and the sources that cannot be read."""

    dataset: str
    scorer: Scorer
    runs: tuple[Run, ...]
    unreadable: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What runs now, for the live view."""
        seeds = sorted({run.seed for run in self.runs})
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        return f"{self.dataset} {self.kind}, {which}"

    @property
    def file(self) -> str:
        """A name for files about it."""
        return f"{re.sub('[^a-z0-9.]+', '-', self.name.lower())}-{crc32(self.name.encode()):08x}"

    @property
    def kind(self) -> str:
        """What trains: the scorer, or a method of one's own."""
        return self.runs[0].method if self.scorer == "own" else self.scorer

    @property
    def epochs(self) -> int:
        """How many epochs its stacks train."""
        if self.scorer == "own":
            return 1
        return self.runs[0].epochs * (2 if study_method(self.runs[0].method).promises else 1)

    @property
    def n_networks(self) -> int:
        """How many networks train, or estimators are fitted."""
        networks = len(self.runs if self.scorer == "own" else {_network_key(run) for run in self.runs})
        return networks * (1 + self.setting.n_train_domains if study_method(self.runs[0].method).promises else 1)

    @property
    def setting(self) -> Setting:
        """Where its examples come from, and how many are used."""
        return self.runs[0].setting


def plan_jobs(runs: Iterable[Run]) -> list[Job]:
    """Group runs into jobs, the costly ones first so that processes end together."""
    groups: dict[tuple[Run, str, int], list[Run]] = defaultdict(list)
    for run in runs:
        method, per_stack = study_method(run.method), run.setting.seeds_per_stack
        if method.promises:
            per_stack = max(1, per_stack // 4)
        own = "" if method.make is None else method.name
        alike = replace(run, method=method.scorer, target_recall=0.0, seed=0, domain_confidence=None)
        groups[alike, own, run.seed if own else run.seed // per_stack].append(run)
    jobs = [
        Job(members[0].dataset, study_method(members[0].method).scorer, tuple(members)) for members in groups.values()
    ]
    return sorted(jobs, key=_rough_cost, reverse=True)


def _rough_cost(job: Job) -> float:
    return (job.setting.hidden + 20 * job.n_networks) * (0.5 if job.scorer == "erm-half" else 1)


def _network_key(run: Run) -> Key:
    """Runs with the same key share a network: only SET-COVER's depends on the target recall."""
    return run.seed, run.target_recall if study_method(run.method).is_set_cover else None


def run_job(job: Job, out: Path, on_epoch: Callable[[], object] = lambda: None) -> None:
    """Train the job's networks and write its run directories."""
    if job.scorer == "own":
        _run_own(job, out, on_epoch)
        return
    by_network: dict[Key, list[Run]] = defaultdict(list)
    for run in job.runs:
        by_network[_network_key(run)].append(run)
    seeds = dict.fromkeys(seed for seed, _ in by_network)
    some = job.runs[0]
    with threads_for(job.setting):
        materials = {
            seed: draw_material(job.setting, job.scorer, seed, some.min_cell_size, job.unreadable) for seed in seeds
        }
        replicas = [Replica(key, materials[key[0]].train_rows) for key in by_network]
        each: dict[Key, tuple[NDArray[Any], NDArray[np.int64]]] = {}
        seconds_of_each = 0.0
        if study_method(some.method).promises:
            each, seconds_of_each = _scores_of_each(job, replicas, materials, out, on_epoch)
        groups = groups_of(replicas, materials)
        epochs = Epochs(on_epoch, some.epochs, len(groups))
        for group in groups:
            started = time.perf_counter()
            trained = train_group(some, job.scorer, group, materials, out, epochs.one_more)
            seconds = (time.perf_counter() - started) / len(group) + seconds_of_each
            for replica, (network, history) in zip(group, trained, strict=True):
                material = materials[replica.key[0]]
                scores = Scores(score(network, material.data.examples), *each.get(replica.key, ()))
                for run in by_network[replica.key]:
                    sets, thresholds = study_method(run.method).predict(
                        scores, _training(material), run.target_recall, run.domain_confidence, run.min_cell_size
                    )
                    _write(out, run, material, Predicted(sets, thresholds, scores.predicting, history), seconds)
                forget_checkpoints(out, some, job.scorer, replica, material)
        epochs.all_done()


def _scores_of_each(
    job: Job,
    replicas: Iterable[Replica],
    materials: dict[int, Material],
    out: Path,
    on_epoch: Callable[[], object],
) -> tuple[dict[Key, tuple[NDArray[Any], NDArray[np.int64]]], float]:
    """Train a network without each of the training domains.

    Returns their scores of all training rows and the domains left out, by key; and how long a key took.
    """
    started, left_out, without = time.perf_counter(), {}, []
    for key, rows, _ in replicas:
        domains = materials[key[0]].data.domains[rows]
        left_out[key] = np.unique(domains)
        without += [Replica(key, rows[domains != domain], domain) for domain in left_out[key]]
    groups = groups_of(without, materials)
    epochs = Epochs(on_epoch, job.runs[0].epochs, len(groups))
    scores: dict[Key, dict[int | None, NDArray[Any]]] = defaultdict(dict)
    for group in groups:
        trained = train_group(job.runs[0], job.scorer, group, materials, out, epochs.one_more)
        for (key, _, domain), (network, _) in zip(group, trained, strict=True):
            material = materials[key[0]]
            scores[key][domain] = score(network, material.data.examples[material.train_rows])
    epochs.all_done()
    by_key = {
        key: (np.stack([found[domain] for domain in left_out[key]]), left_out[key]) for key, found in scores.items()
    }
    return by_key, (time.perf_counter() - started) / len(left_out)


def _run_own(job: Job, out: Path, on_epoch: Callable[[], object]) -> None:
    """Fit the estimators of a method that a function makes, one for each run."""
    for run in job.runs:
        material = draw_material(job.setting, "erm", run.seed, run.min_cell_size, job.unreadable)
        make = study_method(run.method).make
        assert make is not None  # noqa: S101 - for the type checker: such a job has no other methods
        started = time.perf_counter()
        sets = sets_of_own(make(run.target_recall, run.seed), material)
        _write(out, run, material, Predicted(sets), time.perf_counter() - started)
    on_epoch()


class Predicted(NamedTuple):
    """The sets of all examples, and what they were made from, where that is known."""

    sets: Sets
    thresholds: NDArray[np.float64] | None = None
    scores: NDArray[Any] | None = None
    history: History | None = None


def _training(material: Material) -> Training:
    data, rows = material.data, material.split.train
    return Training(data.labels[rows], data.domains[rows], material.calibration_rows)


def _write(out: Path, run: Run, material: Material, predicted: Predicted, train_seconds: float) -> None:
    data, sets, thresholds = material.data, predicted.sets, predicted.thresholds
    splits = {}
    for name, rows in material.split._asdict().items():
        report = domain_report(
            sets[rows], data.labels[rows], data.domains[rows], data.label_names, data.domain_names, run.min_cell_size
        )
        splits[name] = {"summary": report.summary(run.target_recall).to_dict(), "domains": report.records()}
    content = {
        "config": run.to_dict(),
        "labels": texts(data.label_names),
        "thresholds": None if thresholds is None else thresholds.tolist(),
        "seconds": {"train": train_seconds},
        "versions": versions(*(() if run.source is None else ("transformers",))),
        "splits": splits,
    }
    predictions = _predictions(material, predicted.scores, sets)
    write_run(out, run, partial(_write_files, content, predictions, predicted.history))


def _write_files(content: dict[str, Any], predictions: pa.Table, history: History | None, folder: Path) -> None:
    write_json(folder / "report.json", content)
    with (folder / "predictions.parquet").open("wb") as file:  # pyarrow takes no names that are not UTF-8
        pq.write_table(predictions, file)
    if history is None:
        return
    kept = {name: values for name, values in vars(history).items() if values is not None}
    np.savez_compressed(folder / "history.npz", **kept)


def _predictions(material: Material, scores: NDArray[Any] | None, sets: Sets) -> pa.Table:
    data = material.data
    split = np.repeat(np.arange(len(material.split)), [len(rows) for rows in material.split])
    columns = {
        "split": pa.DictionaryArray.from_arrays(split.astype(np.int8), list(Split._fields)),
        "domain": pa.DictionaryArray.from_arrays(data.domains, texts(data.domain_names)),
        "label": pa.DictionaryArray.from_arrays(data.labels, texts(data.label_names)),
    }
    if scores is not None:
        columns |= {f"score[{name}]": scores[:, k] for k, name in enumerate(texts(data.label_names))}
    columns |= {f"in_set[{name}]": sets[:, k] for k, name in enumerate(texts(data.label_names))}
    return pa.table(columns)


def versions(*others: str) -> dict[str, str]:
    """Return the versions that a result depends on."""
    packages = ("domaincover", "numpy", "scipy", "torch", *others)
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
