"""Preparation of a study's data, once before its jobs: check images, and compute shared features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from domaincover.data.cells import count_cells
from domaincover.errors import InputError
from domaincover.paper.authors_code import SilentChoices
from domaincover.paper.job import Job
from domaincover.paper.study import Run
from domaincover.paper.study_data import Drawn, draw_split
from domaincover.paper.wilds.source import WildsSource

Say = Callable[[str], object]


def prepare(jobs: Sequence[Job], say: Say) -> list[Job]:
    """Check the jobs' data, and compute the features of frozen networks.

    Each image is decoded once, whichever seeds use it. Too many unreadable images raise an error here.
    """
    sources = dict.fromkeys(job.runs[0].source for job in jobs)
    unreadable = {
        source: _prepare(source, [run for job in jobs for run in job.runs if run.source == source], say)
        for source in sources
        if source is not None
    }
    return [replace(job, unreadable=unreadable[source]) if (source := job.runs[0].source) else job for job in jobs]


def _prepare(source: WildsSource, runs: Sequence[Run], say: Say) -> frozenset[str]:
    """Prepare the data of one source, and return its unreadable files."""
    min_cell_size, choices = runs[0].min_cell_size, runs[0].choices
    draws = [draw_split(source, seed, min_cell_size, choices) for seed in sorted({run.seed for run in runs})]
    for drawn in draws:
        _check_cells(drawn, min_cell_size, choices)
    unreadable = _unreadable(source, draws, say)
    if not source.trains_whole_networks and source.execution.cache is not None:
        _compute_features(source, draws, unreadable, say)
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
                "--max-train-rows and --max-test-rows, or lower --min-cell-size."
            )


def _unreadable(source: WildsSource, draws: Iterable[Drawn], say: Say) -> frozenset[str]:
    """Return the unreadable images."""
    network = source.network
    if network.kind == "text":
        return frozenset()
    images = np.unique(np.concatenate([drawn.sources for drawn in draws]))
    say(f"Checking {len(images):,} images.")
    readable = network.readable(None, images)
    return frozenset() if readable is None else frozenset(images[~readable])


def _compute_features(source: WildsSource, draws: Iterable[Drawn], unreadable: frozenset[str], say: Say) -> None:
    """Cache the features of all seeds, so that processes do not each compute them."""
    for number, drawn in enumerate(draws):
        used = np.array([one for one in drawn.sources if one not in unreadable], dtype=object)
        if number == 0:
            say(f"Computing features of {len(used):,} {source.network.kind}s, or taking them from the cache.")
        source.network.frozen_features(used, source.device)
