"""A study and its runs: one for each data set, method, target recall and seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, get_args

import numpy as np

from domaincover.calibration.rules import check_feasible
from domaincover.criteria import check_share, check_target_recall
from domaincover.errors import InputError, check_choice
from domaincover.options import DomainPenalty, Iterate, PenaltyOnFeatures, RecallFrom
from domaincover.paper.authors_code import SilentChoices, silent_choices
from domaincover.paper.catalogue import is_named, study_dataset
from domaincover.paper.methods import GROUPS, PROMISED_FOLDS, study_method
from domaincover.paper.study_datasets import Sizes, StudyDataset

# Guards against typing errors: larger than any study, and would exhaust memory before the first epoch.
MOST_SEEDS, MOST_AT_ALL = 10_000, 10**9
LEAST = {"epochs": 1, "batch_size": 1, "update_every": 1, "min_cell_size": 1, "domains_per_batch": 2}
MULTIPLIERS = (1e-6, 1e6)  # floor and cap in training
MARKS = ("quick", "as_authors", "plugin_source")  # which a run has only where they are given


@dataclass(frozen=True)
class Run:
    """One method on one data set with one seed. Equal runs give equal results.

    A data set that this library or a plug-in names is found by its name, in other processes too; `source` is any other.
    """

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
    iterate: str = "last"
    min_cell_size: int = 101
    domain_confidence: float | None = None  # for methods with a promise
    domains_per_batch: int | None = None  # for methods that compare domains
    penalty_weight: float | None = None  # for penalty methods; None is the paper's
    source: StudyDataset | None = None
    sizes: Sizes | None = None  # of a data set without source; None is its default
    quick: bool = False  # whether it is a smoke run
    as_authors: bool = False  # whether silent choices are those of the authors' released code
    plugin_source: str | None = None  # for methods of plug-ins: a digest of their source

    @property
    def choices(self) -> SilentChoices:
        """What the paper's text leaves open."""
        return silent_choices(self.as_authors)

    @property
    def folder(self) -> str:
        """The run's path in the study's directory."""
        return f"{self.dataset}/{self.method}/target-{self.target_recall!r}/seed-{self.seed}"

    @property
    def setting(self) -> StudyDataset:
        """The source of its examples, or their sizes."""
        return study_dataset(self.dataset).with_sizes(self.sizes) if self.source is None else self.source

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name, including those of the source or the sizes."""
        own = {key: value for key, value in asdict(self).items() if key not in ("source", "sizes", *MARKS)}
        own |= {name: value for name in MARKS if (value := getattr(self, name))}
        if self.source is not None:
            return own | self.source.identity()
        return own | study_dataset(self.dataset).identity() | ({} if self.sizes is None else self.sizes._asdict())


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """How networks train, and what counts; None is the default of the data set or method."""

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 1e-3
    initial_multiplier: float = 5.0
    update_every: int = 500
    recall_from: RecallFrom | None = None
    iterate: Iterate | None = None
    min_cell_size: int | None = None
    domain_confidence: float = 0.9
    domains_per_batch: int = 4
    penalty_weight: float | None = None
    as_authors: bool = False  # silent choices are those of the authors' released code


@dataclass(frozen=True)
class Study(StudySettings):
    """A grid of runs on one data set, validated at construction."""

    setting: StudyDataset
    methods: tuple[str, ...] = GROUPS["paper"]
    target_recalls: tuple[float, ...] = (0.9,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    quick: bool = False  # a smoke run

    def __post_init__(self) -> None:
        for target in self.target_recalls:
            check_target_recall(target)
        for seed in self.seeds:
            if seed < 0:
                raise InputError(f"a seed must be 0 or above, got {seed}.")
        for name, least in LEAST.items():
            if (value := getattr(self, name)) is not None and not least <= value <= MOST_AT_ALL:
                most = "at least" if value < least else "at most"
                raise InputError(f"{name} must be {most} {least if value < least else MOST_AT_ALL}, got {value}.")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate must be above 0 and finite, got {self.learning_rate:g}.")
        low, high = MULTIPLIERS
        if not low <= self.initial_multiplier <= high:
            raise InputError(f"initial_multiplier must be from {low:g} to {high:g}, got {self.initial_multiplier:g}.")
        for name, known in (("recall_from", get_args(RecallFrom)), ("iterate", get_args(Iterate))):
            if (value := getattr(self, name)) is not None:
                check_choice(name, value, known)
        self._check_methods()

    def _check_methods(self) -> None:
        check_share(self.domain_confidence, "domain confidence")
        for name in self.methods:
            if (reason := why_not(name, self.setting, self.domain_confidence)) is not None:
                raise InputError(f"{name} cannot be run on {self.dataset}: {reason} Or omit the method.")
        if self.penalty_weight is None:
            return
        if not 0 <= self.penalty_weight < math.inf:
            raise InputError(f"penalty_weight must be a finite number, 0 or more, got {self.penalty_weight:g}.")
        if not any(name in get_args(DomainPenalty) for name in self.methods):
            raise InputError("penalty_weight applies to irm, vrex, mmd and coral, but the study has none of them.")

    @property
    def dataset(self) -> str:
        """The name of the data set."""
        return self.setting.name

    @property
    def source(self) -> StudyDataset | None:
        """The data set, unless its name is enough to find it."""
        return None if is_named(self.setting) else self.setting

    def runs(self) -> Iterator[Run]:
        """Yield every run of the grid."""
        recall_from = self.recall_from or silent_choices(self.as_authors).recall_from
        settings = {
            name: getattr(self.setting if getattr(self, name) is None else self, name)
            for name in ("epochs", "batch_size", "min_cell_size")
        }
        settings |= {name: getattr(self, name) for name in ("learning_rate", "initial_multiplier", "update_every")}
        settings |= {"source": self.source, "quick": self.quick, "as_authors": self.as_authors}
        if self.source is None and self.setting.sizes != study_dataset(self.dataset).sizes:
            settings["sizes"] = self.setting.sizes
        for method, target, seed in product(self.methods, self.target_recalls, self.seeds):
            own = study_method(method)
            yield Run(
                self.dataset,
                method,
                target,
                seed,
                recall_from=recall_from,
                domain_confidence=self.domain_confidence if own.promises else None,
                domains_per_batch=self.domains_per_batch if method in get_args(DomainPenalty) else None,
                penalty_weight=self.penalty_weight if method in get_args(DomainPenalty) else None,
                iterate=own.iterate if own.names_iterate else self.iterate or own.iterate,
                plugin_source=own.plugin_source,
                **settings,
            )


def why_not(name: str, setting: StudyDataset, domain_confidence: float) -> str | None:
    """Return why a method cannot be run on a data set, and a remedy; None if it can."""
    method = study_method(name)
    if method.promises and setting.trains_large_networks:
        return f'it trains {PROMISED_FOLDS} networks, which is too costly for all layers; set learn = "head".'
    if method.promises:
        try:
            check_feasible(np.ones((setting.n_train_domains, 1)), domain_confidence)
        except InputError as error:
            return f"{str(error).split(';')[0]}."
    if method.from_plugin and setting.trains_whole_networks:
        return 'it takes only numbers, but learn = "all" trains on images or texts; set learn = "head".'
    if name in get_args(PenaltyOnFeatures) and setting.hidden == 0 and not setting.trains_whole_networks:
        # The result would be ERM's under another name.
        return 'it compares learned features, but a linear head learns none; set learn = "all".'
    return None
