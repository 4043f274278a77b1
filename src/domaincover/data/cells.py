"""Cells: one number for every (domain, label) pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def cell_of(domains: NDArray[Any], labels: NDArray[Any], n_labels: int) -> NDArray[np.int64]:
    """Return each example's cell number: domain · n_labels + label."""
    return np.asarray(domains, dtype=np.int64) * n_labels + labels


def count_cells(domains: NDArray[Any], labels: NDArray[Any], n_domains: int, n_labels: int) -> NDArray[np.int64]:
    """Return the number of examples of every cell, domains by labels."""
    counts = np.bincount(cell_of(domains, labels, n_labels), minlength=n_domains * n_labels)
    return counts.reshape(n_domains, n_labels)
