"""Datasets of examples with labels and domains, validated on construction, and their (domain, label) cells."""

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
    return _as_double(array, what) if array.dtype.kind == "f" else array


def _as_double(array: NDArray[Any], what: str) -> NDArray[np.float64]:
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
