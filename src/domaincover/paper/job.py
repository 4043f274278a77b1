"""A job: runs of a study on one data set whose estimators are fitted together, their predictions, and their files."""

from __future__ import annotations

import platform
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from domaincover.criteria import Sets
from domaincover.data.dataset import Split, count_cells, texts
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier
from domaincover.estimators.network import NetworkClassifier
from domaincover.evaluation import domain_report
from domaincover.paper.authors_code import SilentChoices
from domaincover.paper.methods import Method, study_method
from domaincover.paper.run_directory import write_json, write_run
from domaincover.paper.shared_fits import fit_all
from domaincover.paper.source_datasets import SourceDataset
from domaincover.paper.study import Run
from domaincover.paper.study_datasets import Drawn, StudyData, StudyDataset, draw_split, draw_study_data
from domaincover.terminal.processes import one_thread
from domaincover.training.listeners import Listener
from domaincover.training.settings import TrainingRun

CHECKPOINTS = ".checkpoints"
Say = Callable[[str], object]


@dataclass(frozen=True)
class Job:
    """Runs whose estimators are fitted together, and the examples that cannot be read."""

    dataset: str
    scorer: str
    runs: tuple[Run, ...]
    unreadable: frozenset[Any] = frozenset()

    @property
    def name(self) -> str:
        """Description for the progress display."""
        seeds = sorted({run.seed for run in self.runs})
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        return f"{self.dataset} {self.scorer}, {which}"

    @property
    def file(self) -> str:
        """Name for the job's files."""
        return f"{re.sub('[^a-z0-9.]+', '-', self.name.lower())}-{crc32(self.name.encode()):08x}"

    @property
    def setting(self) -> StudyDataset:
        """The source of its examples, or their sizes."""
        return self.runs[0].setting


def plan_jobs(runs: Iterable[Run]) -> list[Job]:
    """Group runs into jobs, the expensive ones first so that processes end together."""
    groups: dict[tuple[Run, int], list[Run]] = defaultdict(list)
    for run in runs:
        method = study_method(run.method)
        per_stack = 1 if method.promises or method.from_plugin else run.setting.seeds_per_stack
        alike = replace(run, method=method.scorer, target_recall=0.0, seed=0, domain_confidence=None, iterate="best")
        groups[alike, run.seed // per_stack].append(run)
    jobs = [
        Job(members[0].dataset, study_method(members[0].method).scorer, tuple(members)) for members in groups.values()
    ]
    return sorted(jobs, key=_rough_cost, reverse=True)


def _rough_cost(job: Job) -> float:
    return (job.setting.hidden + 20 * len(job.runs)) * (0.5 if job.scorer == "erm-half" else 1)


def prepare(jobs: Sequence[Job], say: Say) -> list[Job]:
    """Check the jobs' data, and compute the features of frozen networks.

    Each image is decoded once, whichever seeds use it. Too many unreadable images raise an error here.
    """
    runs: dict[str, list[Run]] = defaultdict(list)
    for job in jobs:
        runs[job.dataset] += job.runs
    unreadable = {name: _prepare(own[0].setting, own, say) for name, own in runs.items()}
    return [replace(job, unreadable=unreadable[job.dataset]) for job in jobs]


def _prepare(source: StudyDataset, runs: Sequence[Run], say: Say) -> frozenset[Any]:
    """Prepare the images or texts of a data set, and return the examples that cannot be read."""
    if not isinstance(source, SourceDataset):
        return frozenset()
    min_cell_size, choices = runs[0].min_cell_size, runs[0].choices
    draws = [draw_split(source, seed, min_cell_size, choices) for seed in sorted({run.seed for run in runs})]
    for drawn in draws:
        _check_cells(drawn, min_cell_size, choices)
    unreadable = _unreadable(source, draws, say)
    if not source.trains_whole_networks and source.source_network.cache is not None:  # or each process computes them
        for number, drawn in enumerate(draws):
            used = drawn.examples[[one not in unreadable for one in drawn.examples]]
            if number == 0:
                kind = source.source_network.kind
                say(f"Computing features of {len(used):,} {kind}s, or taking them from the cache.")
            source.inputs(used)
    return unreadable


def _check_cells(drawn: Drawn, min_cell_size: int, choices: SilentChoices) -> None:
    """Reject a split in which no cell would be reported; the seen rows may be too few where training comes first."""
    data, parts = drawn.data, drawn.split._asdict()
    if choices.small_domains == "train first":
        parts.pop("seen")
    for name, rows in parts.items():
        counts = count_cells(data.domains[rows], data.labels[rows], data.n_domains, data.n_labels)
        if counts.max() < min_cell_size:
            raise InputError(
                f"no label of a domain has {min_cell_size} or more {name} examples; raise "
                "max_train_rows and max_test_rows, or lower min_cell_size."
            )


def _unreadable(source: SourceDataset, draws: Iterable[Drawn], say: Say) -> frozenset[Any]:
    """Return the examples whose images cannot be read."""
    network = source.source_network
    if network.kind == "text":
        return frozenset()
    examples = np.unique(np.concatenate([drawn.examples for drawn in draws]))
    images = source.sources(examples)
    if images.dtype != object:  # pixels
        return frozenset()
    say(f"Checking {len(images):,} images.")
    readable = network.readable(images)
    return frozenset() if readable is None else frozenset(examples[~readable])


def run_job(job: Job, out: Path, under_way: Path, n_threads: int | None = None) -> None:
    """Fit the estimators of the job's runs and write the run directories, as long as the folder `under_way` is there.

    Large networks train on `n_threads` threads; None is torch's default.
    """
    checkpoints = out / CHECKPOINTS / job.file if job.setting.trains_large_networks else None
    training = TrainingRun(checkpoints=checkpoints, resume=True, listeners=(EndsWith(under_way / job.file),))
    with threads_for(job.setting, n_threads):
        seeds = sorted({run.seed for run in job.runs})
        cell_size, choices = job.runs[0].min_cell_size, job.runs[0].choices
        data = {seed: draw_study_data(job.setting, seed, cell_size, job.unreadable, choices) for seed in seeds}
        started = time.perf_counter()
        models = fit_all(
            [estimator_of(run, training) for run in job.runs],
            [data[run.seed].training_for(study_method(run.method)) for run in job.runs],
        )
        seconds = (time.perf_counter() - started) / len({id(training_of(model)) for model in models})
        for run, model in zip(job.runs, models, strict=True):
            _write(out, run, data[run.seed], predicted(model, data[run.seed], study_method(run.method)), seconds)
    if checkpoints is not None:
        shutil.rmtree(checkpoints, ignore_errors=True)
        with suppress(OSError):  # another process may use the directory
            checkpoints.parent.rmdir()


def estimator_of(run: Run, training: TrainingRun | None = None) -> Any:
    """Return the unfitted estimator of a run; all its networks get `training`."""
    model = study_method(run.method).make(run)
    names = model.get_params() if hasattr(model, "get_params") else ()
    own = {name: training for name in names if name == "run" or name.endswith("__run")}
    return model.set_params(**own) if own else model


class EndsWith(Listener):
    """Ends a training when the folder of a file is gone: the study that started it has ended."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def epoch(self, n_done: int) -> None:  # noqa: ARG002
        """Touch the file."""
        try:
            self._file.touch()
        except FileNotFoundError:
            raise InputError("the study was stopped.") from None
        except OSError:  # the folder is there
            pass


def threads_for(setting: StudyDataset, n_threads: int | None = None) -> AbstractContextManager[None]:
    """Limit torch's threads: one for heads, perceptrons and small networks, `n_threads` for large ones."""
    if not setting.trains_large_networks:
        return one_thread()
    return nullcontext() if n_threads is None else at_most(n_threads)


@contextmanager
def at_most(n_threads: int) -> Iterator[None]:
    """Limit torch to a number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Predicted(NamedTuple):
    """The sets of all examples; scores, thresholds by label and the history, if the estimator has them."""

    sets: Sets
    scores: NDArray[Any] | None = None
    thresholds: list[float | None] | None = None  # the same in all domains; None for a label that is in every set
    history: dict[str, NDArray[Any]] | None = None


def predicted(model: Any, data: StudyData, method: Method) -> Predicted:
    """Return a fitted estimator's predictions for all examples.

    A label without training examples is unknown to the estimator; the method defines whether it is in every set.
    """
    X = data.numbers if method.from_plugin else data.X
    classes = np.asarray(getattr(model, "classes_", np.arange(len(data.label_names)))).astype(np.int64)
    found = _sets(model, X, classes, data.batches if method.adapts else None)
    sets = np.full((len(data), len(data.label_names)), method.covers_unknown_labels)
    sets[:, classes] = found
    if not isinstance(model, SetClassifier):
        return Predicted(sets)
    scores = np.full(sets.shape, np.nan, dtype=np.float32)
    scores[:, classes] = model.label_scores(X)
    thresholds = np.full(sets.shape[1], -np.inf)
    thresholds[classes] = getattr(model, "thresholds_", np.nan)
    by_label = [float(value) if np.isfinite(value) else None for value in thresholds]
    is_fixed = hasattr(model, "thresholds_") and not method.adapts
    return Predicted(sets, scores, by_label if is_fixed else None, _history(model, data))


def training_of(model: Any) -> Any:
    """Return an object that stands for a model's training: two iterates of one training have the same."""
    scorer = getattr(model, "estimator_", model)
    return scorer._history if isinstance(scorer, NetworkClassifier) else scorer


def _sets(model: Any, X: Any, classes: NDArray[np.int64], batches: NDArray[np.int64] | None = None) -> Sets:
    """Return the sets, with thresholds adapted to each batch if batches are given."""
    name = type(model).__name__
    if batches is not None:
        found = model.predict_set(X, domains=batches)
    elif hasattr(model, "predict_set"):
        found = np.asarray(model.predict_set(X))
    elif hasattr(model, "predict"):
        found = np.asarray(model.predict(X))[:, None] == classes
    else:
        raise InputError(f"{name} has neither predict_set nor predict.")
    if found.dtype != bool or found.shape != (len(X), len(classes)):
        raise InputError(
            f"{name} must return booleans, {len(X)} examples × {len(classes)} labels, got {found.dtype} of shape "
            f"{found.shape}."
        )
    return found


def _history(model: Any, data: StudyData) -> dict[str, NDArray[Any]] | None:
    """Return the training history: a row per dual step, cells as training domains × labels."""
    network = getattr(model, "estimator_", model)
    if not isinstance(network, NetworkClassifier):
        return None
    kept = {name: values for name, values in vars(network._history).items() if values is not None}
    if "recall" in kept:
        for name in ("recall", "multipliers"):
            kept[name] = kept[name][:, : len(network.domains_)]  # the last row is for merged cells; none are merged
        names = texts(data.domain_names)
        kept["domains"] = np.array([names[code] for code in network.domains_])
        kept["labels"] = np.array([texts(data.label_names)[code] for code in network.classes_])
    return kept


def _write(out: Path, run: Run, data: StudyData, found: Predicted, train_seconds: float) -> None:
    sets, splits = found.sets, {}
    names = data.label_names, data.domain_names
    for name, rows in data.split._asdict().items():
        labels, domains = data.labels[rows], data.domains[rows]
        if name == "seen" and run.choices.small_domains == "train first":
            counts = count_cells(domains, labels, len(data.domain_names), len(data.label_names))
            if counts.max() < run.min_cell_size:  # hardly a row is left to be held out
                continue
        sized_rows = run.choices.sized_rows
        report = domain_report(sets[rows], labels, domains, *names, run.min_cell_size, sized_rows=sized_rows)
        splits[name] = {"summary": report.summary(run.target_recall).to_dict(), "domains": report.records()}
    content = {
        "config": run.to_dict(),
        "labels": texts(data.label_names),
        "thresholds": found.thresholds,
        "seconds": {"train": train_seconds},
        "versions": versions(*(("transformers",) if isinstance(run.setting, SourceDataset) else ())),
        "splits": splits,
    }
    write_run(out, run, partial(_write_files, content, _table(data, found), found.history))


def _write_files(
    content: dict[str, Any], predictions: pa.Table, history: dict[str, NDArray[Any]] | None, folder: Path
) -> None:
    write_json(folder / "report.json", content)
    with (folder / "predictions.parquet").open("wb") as file:  # pyarrow takes no names that are not UTF-8
        pq.write_table(predictions, file)
    if history is not None:
        np.savez_compressed(folder / "history.npz", **history)  # type: ignore[arg-type]


def _table(data: StudyData, found: Predicted) -> pa.Table:
    split = np.repeat(np.arange(len(data.split)), [len(rows) for rows in data.split])
    columns = {
        "split": pa.DictionaryArray.from_arrays(split.astype(np.int8), list(Split._fields)),
        "domain": pa.DictionaryArray.from_arrays(data.domains, texts(data.domain_names)),
        "label": pa.DictionaryArray.from_arrays(data.labels, texts(data.label_names)),
    }
    names = texts(data.label_names)
    if found.scores is not None:
        columns |= {f"score[{name}]": found.scores[:, k] for k, name in enumerate(names)}
    columns |= {f"in_set[{name}]": found.sets[:, k] for k, name in enumerate(names)}
    return pa.table(columns)


def versions(*others: str) -> dict[str, str]:
    """Return the versions of packages that affect results; `others` may be absent."""
    packages = ["domaincover", "numpy", "scipy", "torch", *filter(find_spec, others)]
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
