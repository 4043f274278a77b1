"""Data sets of studies: where their rows come from, how networks are trained on them, and the data of one seed."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import Coded, DomainDataset, Split, code_names, drop_small_cells, paper_split
from domaincover.data.synthetic import GaussianDomains
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.authors_code import PAPER_TEXT, SilentChoices

if TYPE_CHECKING:
    from domaincover.paper.methods import Method

SYNTHETIC_NAME = re.compile(r"synthetic-(\d{1,4})(-random)?")
PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
NUMBERS_IN_A_STACK = 50_000_000  # 200 MB
MOST_ROWS = 10**9  # more is a typing error, and would exhaust memory before the first epoch
Training = tuple[Any, NDArray[np.int64], NDArray[np.int64]]  # X, y and domains, as `fit` takes them
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

    def __post_init__(self) -> None:
        for name, number in self.sizes._asdict().items():
            if number < 1:
                raise InputError(f"{name} must be at least 1, got {number}.")
        if sum(self.sizes[:2]) * sum(self.sizes[2:]) > MOST_ROWS:
            raise InputError(f"domains times rows must be at most {MOST_ROWS:,}.")

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

    @property
    def in_words(self) -> str:
        """How much of the data is used, and what is trained on it."""
        return f"{self.name}: {self.n_train_domains} domains train, {self.n_unseen_domains} are unseen."

    def identity(self) -> dict[str, Any]:
        """Return everything but the name that results depend on; nothing for synthetic data."""
        return {}

    def with_sizes(self, sizes: Sizes | None) -> Self:
        """Return the dataset with other sizes; None changes nothing."""
        return self if sizes is None else replace(self, **sizes._asdict())

    def check(self, min_cell_size: int) -> None:
        """Raise if the data cannot be used, before anything is written."""
        try:
            data = self.load(np.random.default_rng(0))
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None
        n_domains = len(np.unique(data.domains[drop_small_cells(data, np.arange(len(data)), min_cell_size)]))
        if n_domains < self.n_train_domains + self.n_unseen_domains:
            raise InputError(
                f"{self.name} has {n_domains} domains with {min_cell_size} or more examples of a label, but "
                f"{self.n_train_domains} training and {self.n_unseen_domains} unseen domains are requested; lower "
                "n_train_domains, n_unseen_domains or min_cell_size."
            )

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
        return as_dataset(read_once(self.read))

    def inputs(self, examples: NDArray[Any]) -> Any:
        """Return the table's rows with the given numbers."""
        from domaincover.data.encoding import as_table

        X = read_once(self.read).X
        table = as_table(X)
        return np.asarray(X)[examples] if table is None else table.iloc[examples]


def as_dataset(table: DatasetTable) -> DomainDataset:
    """Return row numbers with the codes of labels and domains; ordered categories of labels keep their order."""
    y, n_rows = table.y, len(table.X)
    is_ordered = getattr(y, "ordered", False) is True
    labels = Coded(y.codes.astype(np.int64), tuple(y.categories)) if is_ordered else code_names(y, "labels", n_rows)
    domains = code_names(table.domains, "domains", n_rows)
    return DomainDataset(np.arange(n_rows), labels.codes, domains.codes, labels.names, domains.names)


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


def check_plain(name: str, what: str, reserved: tuple[str, ...] = RESERVED) -> None:
    """Raise if a name cannot be used for a folder, or is reserved."""
    if not PLAIN_NAME.fullmatch(name):
        raise InputError(
            f"the name of a {what} becomes a folder: use lower-case letters, digits, '-', '_' and '.'; got {name!r}."
        )
    if name in reserved:
        raise InputError(f"the name {name!r} of a {what} is reserved; choose another name.")


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
        from domaincover.data.encoding import TableEncoder

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
