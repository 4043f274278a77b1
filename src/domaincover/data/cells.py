"""Cells: (domain, label) pairs as numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE


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
