"""Cells: (domain, label) pairs as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError


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


def merge_small_cells(
    domains: NDArray[np.int64], labels: NDArray[np.int64], n_domains: int, n_labels: int, min_cell_size: int
) -> NDArray[np.int64]:
    """Return domain codes in which all cells of a label with fewer than `min_cell_size` examples are merged into one.

    Merged cells get the code `n_domains`: recall of a few examples is noise, but a rare label still needs a cell.
    """
    small = count_cells(domains, labels, n_domains, n_labels) < min_cell_size
    return np.where(small[domains, labels], n_domains, domains)
