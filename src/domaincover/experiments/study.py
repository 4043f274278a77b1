"""What a study is made of: runs, one for each data set, method, target recall and seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from domaincover.calibration.confidence import check_feasible
from domaincover.errors import InputError
from domaincover.experiments.datasets import study_dataset
from domaincover.experiments.methods import METHODS, study_method
from domaincover.prediction_sets import check_share, check_target_recall


@dataclass(frozen=True)
class Run:
    """One method on one data set with one seed. Two runs that are equal give the same result."""

    dataset: str
    method: str
    target_recall: float
    seed: int
    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 1e-3
    initial_multiplier: float = 5.0
    update_every: int = 500
    recall_from: str = "full-pass"
    keep: str = "best"
    min_cell_size: int = 100
    domain_confidence: float | None = None  # of the methods that promise something

    @property
    def folder(self) -> str:
        """The run's place in the study's directory."""
        return f"{self.dataset}/{self.method}/target-{self.target_recall!r}/seed-{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


@dataclass(frozen=True)
class Study:
    """A grid of runs, checked on entry."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...] = tuple(METHODS)
    target_recalls: tuple[float, ...] = (0.9,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 30
    domain_confidence: float = 0.9

    def __post_init__(self) -> None:
        for name in self.datasets:
            study_dataset(name)
        for name in self.methods:
            study_method(name)
        for target in self.target_recalls:
            check_target_recall(target)
        for seed in self.seeds:
            if seed < 0:
                raise InputError(f"a seed must be 0 or above, got {seed}.")
        check_share(self.domain_confidence, "domain confidence")
        if any(study_method(name).promises for name in self.methods):
            for name in self.datasets:
                check_feasible(np.ones((study_dataset(name).n_train_domains, 1)), self.domain_confidence)
        if self.epochs < 1:
            raise InputError(f"epochs must be at least 1, got {self.epochs}.")

    def runs(self) -> Iterator[Run]:
        """Yield every run of the grid."""
        for dataset, method, target, seed in product(self.datasets, self.methods, self.target_recalls, self.seeds):
            confidence = self.domain_confidence if study_method(method).promises else None
            yield Run(dataset, method, target, seed, self.epochs, domain_confidence=confidence)
