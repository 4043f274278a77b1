"""The data of one seed of a study: its training rows, and held-out rows of seen and of unseen domains."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset
from domaincover.data.encoding import TableEncoder
from domaincover.data.splits import Split, paper_split
from domaincover.paper.authors_code import PAPER_TEXT, SilentChoices
from domaincover.paper.methods import Method
from domaincover.paper.study_datasets import StudyDataset

Training = tuple[Any, NDArray[np.int64], NDArray[np.int64]]  # X, y and domains, as `fit` takes them


@dataclass(frozen=True, eq=False)
class StudyData:
    """All examples of a seed, the training rows first, with label and domain codes and the split into three parts."""

    X: Any  # an array, a table, or the sources of images or texts
    labels: NDArray[np.int64]
    domains: NDArray[np.int64]
    label_names: tuple[Any, ...]
    domain_names: tuple[Any, ...]
    split: Split
    is_standardized: bool  # whether networks standardise the examples

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def batches(self) -> NDArray[np.int64]:
        """A code for the rows of each domain within each part of the split, which are adapted to together."""
        part = np.repeat(np.arange(len(self.split)), [len(rows) for rows in self.split])
        return part * len(self.domain_names) + self.domains

    @cached_property
    def training(self) -> Training:
        """Arguments of `fit`: the training rows, their label codes and domain codes."""
        return self._training_rows(self.X)

    @cached_property
    def numbers(self) -> NDArray[Any]:
        """All examples as numbers, standardised by the training rows."""
        if not self.is_standardized:
            return np.asarray(self.X)
        return TableEncoder().fit(self.training[0]).transform(self.X)

    @cached_property
    def training_numbers(self) -> Training:
        """Arguments of `fit` for an estimator that takes only numbers."""
        return self._training_rows(self.numbers)

    def training_for(self, method: Method) -> Training:
        """Arguments of `fit` for the estimator of a method."""
        return self.training_numbers if method.from_plugin else self.training

    def _training_rows(self, X: Any) -> Training:
        n_rows = len(self.split.train)
        rows = X.iloc if hasattr(X, "iloc") else X
        return rows[:n_rows], self.labels[:n_rows], self.domains[:n_rows]


class Drawn(NamedTuple):
    """A seed's data set and its split."""

    data: DomainDataset
    split: Split

    @property
    def examples(self) -> NDArray[Any]:
        """All examples used by the seed."""
        taken: NDArray[Any] = self.data.examples[np.concatenate(self.split)]
        return taken


def draw_split(setting: StudyDataset, seed: int, min_cell_size: int, choices: SilentChoices = PAPER_TEXT) -> Drawn:
    """Draw the split of a seed: the same for every method, independent between data sets."""
    for_data, for_split = np.random.SeedSequence(seed, spawn_key=(crc32(setting.name.encode()),)).spawn(2)
    data = setting.load(np.random.default_rng(for_data))
    split = paper_split(
        data,
        n_train_domains=setting.n_train_domains,
        n_unseen_domains=setting.n_unseen_domains,
        max_train_rows=setting.max_train_rows,
        max_test_rows=setting.max_test_rows,
        min_cell_size=min_cell_size,
        rng=np.random.default_rng(for_split),
        train_first=choices.small_domains == "train first",
    )
    return Drawn(data, split)


def draw_study_data(
    setting: StudyDataset,
    seed: int,
    min_cell_size: int,
    unreadable: Collection[Any] = (),
    choices: SilentChoices = PAPER_TEXT,
) -> StudyData:
    """Return the data of a seed, without unreadable examples."""
    data, split = draw_split(setting, seed, min_cell_size, choices)
    if unreadable:
        split = Split(*(rows[[one not in unreadable for one in data.examples[rows]]] for rows in split))
    used = data.subset(np.concatenate(split))
    present, domains = np.unique(used.domains, return_inverse=True)  # most domains of a release are in no split
    starts = np.cumsum([0, *map(len, split)])
    return StudyData(
        X=setting.inputs(used.examples),
        labels=used.labels,
        domains=domains,
        label_names=used.label_names,
        domain_names=tuple(used.domain_names[code] for code in present),
        split=Split(*(np.arange(first, last) for first, last in pairwise(starts))),
        is_standardized=setting.is_standardized,
    )
