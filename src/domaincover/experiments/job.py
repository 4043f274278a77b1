"""A job: the runs of a study that share a data set and a kind of network, trained together as one stack."""

from __future__ import annotations

import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from torch import nn

from domaincover.data.dataset import DomainDataset, texts
from domaincover.data.splits import Split, cap_per_domain, halve_domains, paper_split
from domaincover.evaluation import domain_report
from domaincover.experiments.datasets import StudyDataset, study_dataset
from domaincover.experiments.methods import Scorer, Scores, Training, study_method
from domaincover.experiments.run_directory import write_json, write_run
from domaincover.experiments.study import Run
from domaincover.networks.perceptrons import one_thread, perceptron
from domaincover.prediction_sets import Sets
from domaincover.training.batches import MemoryPool, ShuffledBatches
from domaincover.training.history import History
from domaincover.training.listeners import OnEpoch
from domaincover.training.loop import TrainingSettings, train
from domaincover.training.objectives import CrossEntropy, SetCoverLoss
from domaincover.training.scoring import score


@dataclass(frozen=True)
class Job:
    """Runs whose networks train together."""

    dataset: str
    scorer: Scorer
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """What runs now, for the progress bar."""
        seeds = [run.seed for run in self.runs]
        return f"{self.dataset} {self.scorer}, seeds {min(seeds)} to {max(seeds)}"

    @property
    def epochs(self) -> int:
        """How many epochs its stacks train."""
        return self.runs[0].epochs * (2 if study_method(self.runs[0].method).promises else 1)


def plan_jobs(runs: Iterable[Run]) -> list[Job]:
    """Group runs into jobs, the costly ones first so that processes end together."""
    groups: dict[tuple[str, Scorer, int], list[Run]] = defaultdict(list)
    for run in runs:
        method, per_stack = study_method(run.method), study_dataset(run.dataset).seeds_per_stack
        if method.promises:
            per_stack = max(1, per_stack // 4)
        groups[run.dataset, method.scorer, run.seed // per_stack].append(run)
    jobs = [Job(dataset, scorer, tuple(members)) for (dataset, scorer, _), members in groups.items()]
    return sorted(jobs, key=_rough_cost, reverse=True)


def _rough_cost(job: Job) -> float:
    setting, networks = study_dataset(job.dataset), len({_network_key(run) for run in job.runs})
    networks *= setting.n_train_domains if study_method(job.runs[0].method).promises else 1
    return (setting.hidden + 20 * networks) * (0.5 if job.scorer == "erm-half" else 1)


def _network_key(run: Run) -> tuple[int, float | None]:
    """Runs with the same key share a network: only SET-COVER's depends on the target recall."""
    return run.seed, run.target_recall if study_method(run.method).is_set_cover else None


class _Material(NamedTuple):
    """What one seed trains and is judged on, and its generators for weights and batches."""

    data: DomainDataset
    split: Split
    train_rows: NDArray[np.int64]
    calibration_rows: NDArray[np.int64]
    network_seed: np.random.SeedSequence
    batch_seed: np.random.SeedSequence


def run_job(job: Job, out: Path, on_epoch: Callable[[], object] = lambda: None) -> None:
    """Train the job's networks and write its run directories."""
    setting = study_dataset(job.dataset)
    by_network: dict[tuple[int, float | None], list[Run]] = defaultdict(list)
    for run in job.runs:
        by_network[_network_key(run)].append(run)
    with one_thread():
        materials = {
            seed: _draw(setting, job.scorer, seed, job.runs[0].min_cell_size)
            for seed in dict.fromkeys(seed for seed, _ in by_network)
        }
        started = time.perf_counter()
        keys = list(by_network)
        trained = _train(setting, job, _replicas(keys, materials), materials, on_epoch)
        each = {}
        if study_method(job.runs[0].method).promises:
            each = _scores_of_each(setting, job, keys, materials, on_epoch)
        seconds = (time.perf_counter() - started) / len(keys)
        for (key, members), (network, history) in zip(by_network.items(), trained, strict=True):
            material = materials[key[0]]
            scores = Scores(score(network, material.data.examples), *each.get(key, ()))
            for run in members:
                _write(out, run, material, scores, history, seconds)


def _draw(setting: StudyDataset, scorer: Scorer, seed: int, min_cell_size: int) -> _Material:
    """Draw the data of a seed; every method meets the same data and split, and each data set its own."""
    for_data, for_split, for_halves, for_network, for_batches = np.random.SeedSequence(
        seed, spawn_key=(crc32(setting.name.encode()),)
    ).spawn(5)
    data = setting.load(np.random.default_rng(for_data))
    split = paper_split(
        data,
        n_train_domains=setting.n_train_domains,
        n_unseen_domains=setting.n_unseen_domains,
        max_train_rows=setting.max_train_rows,
        max_test_rows=setting.max_test_rows,
        min_cell_size=min_cell_size,
        rng=np.random.default_rng(for_split),
    )
    train = calibration = np.arange(len(split.train))
    if scorer == "erm-half":
        domains = data.domains[split.train]
        halves = halve_domains(domains, np.random.default_rng(for_halves))
        train, calibration = (np.flatnonzero(np.isin(domains, half)) for half in halves)
    elif scorer.endswith("-each"):
        # A promise is about domains alike, in how many examples their recall is counted on too.
        calibration = cap_per_domain(
            data.domains[split.train], calibration, setting.max_test_rows, np.random.default_rng(for_halves)
        )
    used = data.subset(np.concatenate(split))
    starts = np.cumsum([0, *map(len, split)])
    renumbered = Split(*(np.arange(first, last) for first, last in pairwise(starts)))
    return _Material(used, renumbered, train, calibration, for_network, for_batches)


class _Replica(NamedTuple):
    """A network to train: the key of its runs, and the rows of its seed's data that it trains on."""

    key: tuple[int, float | None]
    rows: NDArray[np.int64]


def _replicas(keys: Iterable[tuple[int, float | None]], materials: dict[int, _Material]) -> list[_Replica]:
    """Return one network for each key, on all its training rows."""
    return [_Replica(key, materials[key[0]].train_rows) for key in keys]


def _scores_of_each(
    setting: StudyDataset,
    job: Job,
    keys: list[tuple[int, float | None]],
    materials: dict[int, _Material],
    on_epoch: Callable[[], object],
) -> dict[tuple[int, float | None], tuple[NDArray[Any], NDArray[np.int64]]]:
    """Train a network without each of the training domains; return its scores of all training rows, by key."""
    replicas, left_out = [], {}
    for key, rows in _replicas(keys, materials):
        domains = materials[key[0]].data.domains[rows]
        left_out[key] = np.unique(domains)
        replicas += [_Replica(key, rows[domains != domain]) for domain in left_out[key]]
    networks = iter(_train(setting, job, replicas, materials, on_epoch))
    scores = {}
    for key, rows in _replicas(keys, materials):
        examples = materials[key[0]].data.examples[rows]
        scores[key] = np.stack([score(next(networks)[0], examples) for _ in left_out[key]]), left_out[key]
    return scores


def _train(
    setting: StudyDataset,
    job: Job,
    replicas: list[_Replica],
    materials: dict[int, _Material],
    on_epoch: Callable[[], object],
) -> list[tuple[nn.Module, History]]:
    some = next(iter(materials.values())).data
    run = job.runs[0]
    offsets = dict(zip(materials, np.cumsum([0, *(len(m.data) for m in materials.values())]), strict=False))
    own = [materials[key[0]] for key, _ in replicas]
    networks = [
        perceptron(some.examples.shape[1], setting.hidden, some.n_labels, np.random.default_rng(m.network_seed))
        for m in own
    ]
    batches = ShuffledBatches(
        MemoryPool([m.data for m in materials.values()]),
        [rows + offsets[key[0]] for key, rows in replicas],
        run.batch_size,
        [np.random.default_rng(m.batch_seed) for m in own],
    )
    settings = TrainingSettings(run.epochs, run.learning_rate, run.update_every, run.recall_from, run.keep)  # type: ignore[arg-type]
    objective: nn.Module = CrossEntropy()
    targets = [target for (_, target), _ in replicas if target is not None]
    if targets:
        objective = SetCoverLoss(
            some.n_domains,
            some.n_labels,
            targets,
            initial_multiplier=run.initial_multiplier,
        )
    histories = train(networks, batches, objective, settings, [OnEpoch(on_epoch)])
    return list(zip(networks, histories, strict=True))


def _write(out: Path, run: Run, material: _Material, scores: Scores, history: History, train_seconds: float) -> None:
    data, rows = material.data, material.split.train
    training = Training(data.labels[rows], data.domains[rows], material.calibration_rows)
    method, asked = study_method(run.method), (run.target_recall, run.domain_confidence, run.min_cell_size)
    sets, thresholds = method.predict(scores, training, *asked)
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
        "versions": versions(),
        "splits": splits,
    }
    write_run(out, run, partial(_write_files, content, _predictions(material, scores.predicting, sets), history))


def _write_files(content: dict[str, Any], predictions: pa.Table, history: History, folder: Path) -> None:
    write_json(folder / "report.json", content)
    pq.write_table(predictions, folder / "predictions.parquet")
    kept = {name: values for name, values in vars(history).items() if values is not None}
    np.savez_compressed(folder / "history.npz", **kept)


def _predictions(material: _Material, scores: NDArray[Any], sets: Sets) -> pa.Table:
    data = material.data
    split = np.repeat(np.arange(len(material.split)), [len(rows) for rows in material.split])
    columns = {
        "split": pa.DictionaryArray.from_arrays(split.astype(np.int8), list(Split._fields)),
        "domain": pa.DictionaryArray.from_arrays(data.domains, texts(data.domain_names)),
        "label": pa.DictionaryArray.from_arrays(data.labels, texts(data.label_names)),
    }
    columns |= {f"score[{name}]": scores[:, k] for k, name in enumerate(texts(data.label_names))}
    columns |= {f"in_set[{name}]": sets[:, k] for k, name in enumerate(texts(data.label_names))}
    return pa.table(columns)


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    packages = ("domaincover", "numpy", "scipy", "torch")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
