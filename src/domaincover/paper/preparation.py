"""Preparation of a study's data, once before its jobs: check images, and compute shared features."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from domaincover.data.dataset import count_cells
from domaincover.errors import InputError
from domaincover.paper.authors_code import SilentChoices
from domaincover.paper.job import Job
from domaincover.paper.source_datasets import SourceDataset
from domaincover.paper.study import Run
from domaincover.paper.study_data import Drawn, draw_split
from domaincover.paper.study_datasets import StudyDataset

Say = Callable[[str], object]


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
