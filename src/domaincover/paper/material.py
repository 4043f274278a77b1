"""What one seed of a study trains and is judged on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from torch import nn

from domaincover.data.dataset import DomainDataset
from domaincover.data.splits import Split, cap_per_domain, halve_domains, paper_split
from domaincover.paper.datasets import StudyDataset
from domaincover.paper.methods import Scorer
from domaincover.paper.wilds.source import WildsSource

Setting = StudyDataset | WildsSource


class Material(NamedTuple):
    """Examples and their split, how networks are made, and the generators for weights and batches."""

    data: DomainDataset
    split: Split
    train_rows: NDArray[np.int64]
    calibration_rows: NDArray[np.int64]
    make_network: Callable[[np.random.Generator], nn.Module]
    network_seed: np.random.SeedSequence
    batch_seed: np.random.SeedSequence


class Drawn(NamedTuple):
    """The data of a seed, its split, and its other generators: for halves, weights and batches."""

    data: DomainDataset
    split: Split
    seeds: list[np.random.SeedSequence]

    @property
    def sources(self) -> NDArray[np.object_]:
        """All examples that the seed uses."""
        taken: NDArray[np.object_] = self.data.examples[np.concatenate(self.split)]
        return taken


def draw_split(setting: Setting, seed: int, min_cell_size: int) -> Drawn:
    """Draw the data of a seed; every method meets the same data and split, and each data set its own."""
    for_data, for_split, *others = np.random.SeedSequence(seed, spawn_key=(crc32(setting.name.encode()),)).spawn(5)
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
    return Drawn(data, split, others)


def draw_material(
    setting: Setting, scorer: Scorer, seed: int, min_cell_size: int, unreadable: Collection[str] = ()
) -> Material:
    """Draw what a seed trains and is judged on, but for what cannot be read, and make it ready for its networks."""
    data, split, (for_halves, for_network, for_batches) = draw_split(setting, seed, min_cell_size)
    if unreadable:
        split = Split(*(rows[[source not in unreadable for source in data.examples[rows]]] for rows in split))
    train, calibration = _halves(setting, scorer, data.domains[split.train], for_halves)
    used = _only_its_domains(data.subset(np.concatenate(split)))
    starts = np.cumsum([0, *map(len, split)])
    renumbered = Split(*(np.arange(first, last) for first, last in pairwise(starts)))
    examples, make_network = setting.encode(used.examples, renumbered.train, used.n_labels)
    ready = DomainDataset(examples, used.labels, used.domains, used.label_names, used.domain_names)
    return Material(ready, renumbered, train, calibration, make_network, for_network, for_batches)


def _halves(
    setting: Setting, scorer: Scorer, domains: NDArray[np.int64], seed: np.random.SeedSequence
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which training rows train and which calibrate."""
    rng, rows = np.random.default_rng(seed), np.arange(len(domains))
    if scorer == "erm-half":
        train, calibrate = (np.flatnonzero(np.isin(domains, half)) for half in halve_domains(domains, rng))
        return train, calibrate
    if scorer.endswith("-each"):
        # A promise is about domains alike, in how many examples their recall is counted on too.
        return rows, cap_per_domain(domains, rows, setting.max_test_rows, rng)
    return rows, rows


def _only_its_domains(data: DomainDataset) -> DomainDataset:
    """Number the domains that occur anew: a release has thousands that a seed does not draw."""
    present, domains = np.unique(data.domains, return_inverse=True)
    names = tuple(data.domain_names[code] for code in present)
    return DomainDataset(data.examples, data.labels, domains, data.label_names, names)
