"""What a study is made of: runs, one for each data set, method, target recall and seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from domaincover.calibration.confidence import check_feasible
from domaincover.errors import InputError
from domaincover.experiments.datasets import StudyDataset, study_dataset
from domaincover.experiments.methods import GROUPS, study_method
from domaincover.experiments.wilds import WildsSource
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
    domains_per_batch: int | None = None  # of the methods that compare domains
    penalty_weight: float | None = None  # of those that have one; None is the paper's
    source: WildsSource | None = None  # of data that are read and not drawn

    @property
    def folder(self) -> str:
        """The run's place in the study's directory."""
        return f"{self.dataset}/{self.method}/target-{self.target_recall!r}/seed-{self.seed}"

    @property
    def setting(self) -> StudyDataset | WildsSource:
        """Where its examples come from, and how many are used."""
        return study_dataset(self.dataset) if self.source is None else self.source

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name, those of the source among them."""
        own = {key: value for key, value in asdict(self).items() if key != "source"}
        return own | ({} if self.source is None else self.source.to_dict())


@dataclass(frozen=True)
class Study:
    """A grid of runs, checked on entry. With a source, its data set is the one of the study."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...] = GROUPS["paper"]
    target_recalls: tuple[float, ...] = (0.9,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 30
    domain_confidence: float = 0.9
    domains_per_batch: int = 4
    penalty_weight: float | None = None
    batch_size: int = 128
    learning_rate: float = 1e-3
    update_every: int = 500
    recall_from: str = "full-pass"
    min_cell_size: int = 100
    source: WildsSource | None = None

    def __post_init__(self) -> None:
        if self.source is None:
            for name in self.datasets:
                study_dataset(name)
        elif self.datasets != (self.source.name,):
            raise InputError(f"the source is of {self.source.name}, and the study of {', '.join(self.datasets)}.")
        for name in self.methods:
            study_method(name)
        for target in self.target_recalls:
            check_target_recall(target)
        for seed in self.seeds:
            if seed < 0:
                raise InputError(f"a seed must be 0 or above, got {seed}.")
        self._check_promises()
        self._check_features()
        for name, least in (
            ("epochs", 1),
            ("batch_size", 1),
            ("update_every", 1),
            ("min_cell_size", 0),
            ("domains_per_batch", 2),
        ):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate:g}.")
        self._check_weight()
        if self.recall_from not in ("full-pass", "batches"):
            raise InputError(f"recall_from must be 'batches' or 'full-pass', got {self.recall_from!r}.")

    def _check_promises(self) -> None:
        check_share(self.domain_confidence, "domain confidence")
        promising = [name for name in self.methods if study_method(name).promises]
        if not promising:
            return
        if self.source is not None and self.source.trains_whole_networks:
            raise InputError(
                f"{promising[0]} trains a network more for each training domain, which whole networks are too costly "
                "for; give --learn head, or leave the method out."
            )
        for setting in [self.source] if self.source is not None else map(study_dataset, self.datasets):
            check_feasible(np.ones((setting.n_train_domains, 1)), self.domain_confidence)

    def _check_weight(self) -> None:
        if self.penalty_weight is None:
            return
        if not 0 <= self.penalty_weight < math.inf:
            raise InputError(f"penalty_weight must be a finite number, 0 or more, got {self.penalty_weight:g}.")
        if not any(study_method(name).has_weight for name in self.methods):
            raise InputError("penalty_weight is of irm, vrex, mmd and coral, and the study has none of them.")

    def _check_features(self) -> None:
        """Refuse to align features where none are learned: the result would be ERM's under another name."""
        comparing = [name for name in self.methods if study_method(name).compares_features]
        if comparing and self.source is not None and self.source.hidden == 0 and not self.source.trains_whole_networks:
            raise InputError(
                f"features that a network learns are what {' and '.join(comparing)} would compare, and a linear head "
                "on fixed features learns none; give --learn all, or leave the method out of --methods."
            )

    def runs(self) -> Iterator[Run]:
        """Yield every run of the grid."""
        shared = ("epochs", "batch_size", "learning_rate", "update_every", "recall_from", "min_cell_size", "source")
        settings = {name: getattr(self, name) for name in shared}
        for dataset, method, target, seed in product(self.datasets, self.methods, self.target_recalls, self.seeds):
            own = study_method(method)
            yield Run(
                dataset,
                method,
                target,
                seed,
                domain_confidence=self.domain_confidence if own.promises else None,
                domains_per_batch=self.domains_per_batch if own.compares_domains else None,
                penalty_weight=self.penalty_weight if own.has_weight else None,
                **settings,
            )
