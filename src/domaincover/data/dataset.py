"""Datasets of examples with labels and domains, validated on construction, their (domain, label) cells, and splits.

All randomness of splits comes from the generator passed in. Rows are sorted indices of examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE

Codes = NDArray[np.int64]

PLAIN = (np.integer, np.bool_, np.float16, np.float32, np.float64, np.str_)
Rows = NDArray[np.int64]


class Coded(NamedTuple):
    """Integer codes and the sorted names they stand for: code k means names[k]."""

    codes: Codes
    names: tuple[Hashable, ...]


@dataclass(frozen=True, eq=False)
class DomainDataset:
    """Examples with the code of each example's label and domain, and the names of the codes.

    Construct with `DomainDataset.from_arrays`; the constructor itself validates nothing.
    """

    examples: Any  # an array, or LazyExamples
    labels: Codes
    domains: Codes
    label_names: tuple[Hashable, ...]
    domain_names: tuple[Hashable, ...]

    @classmethod
    def from_arrays(cls, examples: ArrayLike, labels: Any, domains: Any) -> DomainDataset:
        """Validate examples (one per row), labels and domains (any hashable type), and encode the names."""
        examples = _check_examples(examples)
        coded_labels = code_names(labels, "labels", len(examples))
        coded_domains = code_names(domains, "domains", len(examples))
        if len(coded_labels.names) < 2:
            raise InputError(
                f"every label is {coded_labels.names[0]!r}; at least two labels are needed to predict a set."
            )
        return cls(examples, coded_labels.codes, coded_domains.codes, coded_labels.names, coded_domains.names)

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.label_names)

    @property
    def n_domains(self) -> int:
        """Number of domains, including those without examples."""
        return len(self.domain_names)

    def subset(self, rows: NDArray[Any]) -> DomainDataset:
        """Return the given rows (indices or a mask); codes and names do not change."""
        return DomainDataset(
            self.examples[rows], self.labels[rows], self.domains[rows], self.label_names, self.domain_names
        )

    def cell_counts(self) -> NDArray[np.int64]:
        """Return the number of examples in every (domain, label) cell."""
        return count_cells(self.domains, self.labels, self.n_domains, self.n_labels)


def code_names(values: Any, what: str, n_expected: int) -> Coded:
    """Encode values of any hashable type as positions in their sorted distinct values."""
    values = one_dimensional(values, what)
    if len(values) != n_expected:
        raise InputError(f"{len(values)} {what} for {n_expected} examples; there must be one for every example.")
    import pandas as pd  # fast factorizing of any hashable type; imported only when data arrives

    _reject_missing(np.asarray(pd.isna(values)), what)
    if values.dtype.kind in "mM":  # tolist would turn them into integers
        values = np.asarray(pd.Series(values).astype(object))
    if values.dtype != object:
        codes, distinct = pd.factorize(values.astype(values.dtype.newbyteorder("="), copy=False), sort=True)
        return Coded(codes.astype(np.int64, copy=False), tuple(np.asarray(distinct).tolist()))
    try:
        codes, distinct = pd.factorize(values)
    except TypeError:
        raise InputError(f"{what} must be hashable: text, numbers or tuples, not lists or arrays.") from None
    names = _sort_names(list(distinct))
    if broken := [name for name in names if isinstance(name, str) and has_lone_surrogate(name)]:
        raise InputError(
            f"{what} contain {broken[0]!r}, which is not valid Unicode; read the file in its own encoding."
        )
    rank = {name: k for k, name in enumerate(names)}
    return Coded(np.array([rank[name] for name in distinct])[codes], tuple(names))


def texts(names: Sequence[Hashable]) -> list[str]:
    """Return names as text, or as repr if two would look the same, such as 1 and "1"."""
    plain = [str(name) for name in names]
    return plain if len(set(plain)) == len(plain) else [repr(name) for name in names]


def _sort_names(names: Sequence[Any]) -> list[Any]:
    try:
        by_value = sorted(names)
        if all(a < b for a, b in pairwise(by_value)):  # sets, for example, are only partially ordered
            return by_value
    except TypeError:  # types that cannot be compared, such as 3 and "3"
        pass
    return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


def has_lone_surrogate(text: str) -> bool:
    """Return whether a text is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _reject_missing(missing: NDArray[np.bool_], what: str) -> None:
    if missing.any():
        raise InputError(
            f"{int(missing.sum())} of {len(missing)} {what} are missing, first at row {int(missing.argmax())}; "
            "drop those rows or give the missing value a name."
        )


def one_dimensional(values: Any, what: str) -> NDArray[Any]:
    """Return values as a one-dimensional array without merging distinct values; masked values are missing."""
    if isinstance(values, np.ma.MaskedArray):
        _reject_missing(np.ma.getmaskarray(values).ravel(), what)
    if isinstance(values, list | tuple):
        values = [value.item() if isinstance(value, PLAIN) else value for value in values]
        kinds = set(map(type, values))
        limit = 2**53 if float in kinds else 2**63  # whole numbers that numpy keeps, beside others of Python's
        is_kept = kinds <= {int, float, bool} and all(-limit <= v < limit for v in values if type(v) is int)
        if not is_kept and (len(kinds) > 1 or kinds & {int, tuple, frozenset, str, bytes}):
            # numpy would change values: [1, "a"] to text, tuples to a matrix, 2⁶³ to a float, "a\0" to "a"
            return np.fromiter(values, dtype=object, count=len(values))
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{what} must have one dimension, got rows of different lengths.") from None
    if array.ndim != 1:
        raise InputError(f"{what} must have one dimension, got shape {array.shape}.")
    if array.dtype.kind != "f":
        return array
    doubles = array.astype(np.float64, copy=False)
    if array.dtype.itemsize > doubles.dtype.itemsize and (doubles != array)[~np.isnan(array)].any():
        raise InputError(f"{what} are {array.dtype} that double precision cannot tell apart; give them as text.")
    return doubles


def _check_examples(examples: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(examples)
    except ValueError:
        raise InputError("examples have rows of different lengths; every row needs the same features.") from None
    if array.ndim < 2:
        raise InputError(f"examples must have a row per example, got shape {array.shape}.")
    if len(array) == 0:
        raise InputError("there are no examples.")
    if array.dtype.kind not in "fiub":
        raise InputError(f"examples must be numbers, got {array.dtype}; encode text and categories first.")
    bad = ~np.isfinite(array)
    if bad.any():
        row, *column = (int(k) for k in np.argwhere(bad)[0])
        raise InputError(
            f"examples hold {int(bad.sum())} values that are NaN or infinite, first at row {row}, column "
            f"{column[0] if len(column) == 1 else tuple(column)}; fill them in or drop those rows."
        )
    return array


def cell_of(domains: NDArray[Any], labels: NDArray[Any], n_labels: int) -> NDArray[np.int64]:
    """Return each example's cell number: domain · n_labels + label."""
    return np.asarray(domains, dtype=np.int64) * n_labels + labels


def count_cells(domains: NDArray[Any], labels: NDArray[Any], n_domains: int, n_labels: int) -> NDArray[np.int64]:
    """Return the number of examples in every cell, shape (n_domains, n_labels)."""
    counts = np.bincount(cell_of(domains, labels, n_labels), minlength=n_domains * n_labels)
    return counts.reshape(n_domains, n_labels)


def check_min_cell_size(min_cell_size: int) -> int:
    """Reject a minimum cell size below 1: an empty cell has no recall that could count."""
    if min_cell_size < 1:
        raise InputError(f"min_cell_size must be at least 1, got {min_cell_size}.")
    return min_cell_size


def chosen_cell_size(asked: int | None, n_by_cell: NDArray[Any], usual: int = MIN_CELL_SIZE) -> int:
    """Return how many examples a cell needs to count: as asked, else the usual number, or 1 where no cell has that.

    What was asked for is not replaced: a number that no cell has is an error.
    """
    largest = int(n_by_cell.max(initial=0))
    size = usual if asked is None else check_min_cell_size(asked)
    if size <= largest or largest == 0:
        return size
    if asked is not None:
        raise InputError(f"no label has {asked:,} examples in a domain (at most {largest:,}); lower min_cell_size.")
    warnings.warn(
        f"no label has {usual} examples in a domain (at most {largest}), so cells of any size count; recall over so "
        "few examples is mostly noise (min_cell_size).",
        stacklevel=3,
    )
    return 1


def merge_small_cells(
    domains: NDArray[np.int64], labels: NDArray[np.int64], n_domains: int, n_labels: int, min_cell_size: int
) -> NDArray[np.int64]:
    """Return domain codes in which all cells of a label with fewer than `min_cell_size` examples are merged into one.

    Merged cells get the code `n_domains`: recall of a few examples is noise, but a rare label still needs a cell.
    """
    small = count_cells(domains, labels, n_domains, n_labels) < min_cell_size
    return np.where(small[domains, labels], n_domains, domains)


class DomainDraw(NamedTuple):
    """Codes of training and unseen domains."""

    train: NDArray[np.int64]
    unseen: NDArray[np.int64]


class Split(NamedTuple):
    """Training rows, held-out rows of the same domains, and rows of unseen domains."""

    train: Rows
    seen: Rows
    unseen: Rows


def draw_domains(domains: NDArray[Any], n_train: int, n_unseen: int, rng: np.random.Generator) -> DomainDraw:
    """Draw training and unseen domains at random from those in `domains`."""
    present = np.unique(domains)
    if min(n_train, n_unseen) < 1:
        raise InputError(f"at least one training and one unseen domain are needed, got {n_train} and {n_unseen}.")
    if n_train + n_unseen > len(present):
        raise InputError(
            f"{n_train} training and {n_unseen} unseen domains were asked for, "
            f"but the data has {len(present)}; ask for fewer."
        )
    drawn = rng.permutation(present)
    return DomainDraw(np.sort(drawn[:n_train]), np.sort(drawn[n_train : n_train + n_unseen]))


def n_held_out(n_domains: int, share_of_domains: float) -> int:
    """Return the number of domains to hold out: the rounded share, at least one, leaving at least one."""
    return min(max(1, round(share_of_domains * n_domains)), n_domains - 1)


def drop_small_cells(dataset: DomainDataset, rows: Rows, min_cell_size: int) -> Rows:
    """Keep the rows whose (domain, label) cell has at least `min_cell_size` of them."""
    cell = cell_of(dataset.domains[rows], dataset.labels[rows], dataset.n_labels)
    return rows[np.bincount(cell)[cell] >= min_cell_size]


def cap_per_domain(domains: NDArray[Any], rows: Rows, max_rows: int, rng: np.random.Generator) -> Rows:
    """Keep at most `max_rows` random rows of every domain."""
    position = _random_position_in_domain(domains[rows], rng)
    return rows[position < max_rows]


def hold_out_examples(
    domains: NDArray[Any],
    rows: Rows,
    max_train: int,
    max_held_out: int,
    rng: np.random.Generator,
    *,
    train_first: bool = False,
) -> tuple[Rows, Rows]:
    """Split the rows of every domain at random into training and held-out rows, at most `max_train` and `max_held_out`.

    A domain with too few rows for both is divided in their proportion; with `train_first`, only rows beyond `max_train`
    are held out.
    """
    domain = domains[rows]
    size = np.bincount(domain)[domain]
    left = size - max_train if train_first else np.rint(size * (max_held_out / (max_train + max_held_out)))
    n_held_out = np.clip(left, 0, max_held_out)
    position = _random_position_in_domain(domain, rng)
    held_out = position < n_held_out
    return rows[~held_out & (position < n_held_out + max_train)], rows[held_out]


def hold_out_share(groups: NDArray[Any], rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Split the rows of every group at random, holding out the given share of each (rounded)."""
    group = groups[rows]
    held_out = _random_position_in_domain(group, rng) < np.rint(np.bincount(group) * share)[group]
    return rows[~held_out], rows[held_out]


def hold_out_domains(
    domains: NDArray[Any], labels: NDArray[Any], n_held_out: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw at most `n_held_out` domains to hold out such that the remaining ones still have every label."""
    n_domains, n_labels = int(domains.max()) + 1, int(labels.max()) + 1
    order = rng.permutation(np.unique(domains))
    has_label = count_cells(domains, labels, n_domains, n_labels)[order] > 0
    stays = np.unique(has_label.argmax(axis=0))  # for each label, the first domain in this order that has it
    return np.sort(np.delete(order, stays)[:n_held_out])


def hold_out_rows(
    domains: NDArray[Any], labels: NDArray[Any], n_domains: int, share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return a mask of held-out rows: at most `n_domains` domains, such that the others still have every label.

    For labels that occur in none of these domains, a share of the rows of each cell is held out instead.
    """
    held_out = np.isin(domains, hold_out_domains(domains, labels, n_domains, rng)) if n_domains > 0 else domains < 0
    n_labels = int(labels.max()) + 1
    without = np.flatnonzero(np.bincount(labels[held_out], minlength=n_labels)[labels] == 0)
    held_out[hold_out_share(cell_of(domains, labels, n_labels), without, share, rng)[1]] = True
    return held_out


def paper_split(
    dataset: DomainDataset,
    *,
    n_train_domains: int,
    n_unseen_domains: int,
    max_train_rows: int,
    max_test_rows: int,
    min_cell_size: int,
    rng: np.random.Generator,
    train_first: bool = False,
) -> Split:
    """Draw the paper's split: drop small cells, draw domains, cap them, hold out examples of the training domains.

    With `train_first`, training domains with few rows hold out none.
    """
    usable = drop_small_cells(dataset, np.arange(len(dataset)), min_cell_size)
    drawn = draw_domains(dataset.domains[usable], n_train_domains, n_unseen_domains, rng)
    of_train, of_unseen = (usable[np.isin(dataset.domains[usable], codes)] for codes in drawn)
    train, seen = hold_out_examples(
        dataset.domains, of_train, max_train_rows, max_test_rows, rng, train_first=train_first
    )
    return Split(train, seen, cap_per_domain(dataset.domains, of_unseen, max_test_rows, rng))


def _random_position_in_domain(domain: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random permutation of 0, 1, … within each domain."""
    order = np.lexsort((rng.random(len(domain)), domain))
    starts = np.cumsum(np.bincount(domain)) - np.bincount(domain)
    position = np.empty(len(domain), dtype=np.int64)
    position[order] = np.arange(len(domain)) - starts[domain[order]]
    return position
