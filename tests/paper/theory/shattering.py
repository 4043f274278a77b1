"""Shattering of domains: the subsets on which exactly some hypothesis of a finite set performs well.

A set predictor performs well on a domain if every label's recall is at target (miss rate at most γ = 1 − target).
Subsets of n domains are numbered: subset k contains domain i if bit i of k is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.criteria import check_target_recall
from domaincover.errors import InputError

MOST_DOMAINS = 24  # 2^24 subsets are 128 MB of numbers


@dataclass(frozen=True, eq=False)
class Shattering:
    """For every subset, the first hypothesis that performs well on exactly these domains, or −1."""

    hypothesis: NDArray[np.int64]

    @property
    def n_domains(self) -> int:
        """Number of domains."""
        return len(self.hypothesis).bit_length() - 1

    @property
    def n_reached(self) -> int:
        """Number of subsets reached by some hypothesis."""
        return int(np.count_nonzero(self.hypothesis >= 0))

    @property
    def is_shattered(self) -> bool:
        """Whether every subset is reached."""
        return self.n_reached == len(self.hypothesis)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """The subsets that no hypothesis reaches, one per row, as booleans over domains."""
        return members(np.flatnonzero(self.hypothesis < 0), self.n_domains)


def check_shattering(performs_well: ArrayLike) -> Shattering:
    """Return which subsets are reached, given whether each hypothesis (row) performs well on each domain (column).

    >>> thresholds = np.array([[0, 0], [0, 1], [1, 1]])  # thresholds on a line, for two points
    >>> check_shattering(thresholds == 1).missing
    array([[ True, False]])
    """
    table = np.asarray(performs_well)
    if table.ndim != 2 or table.dtype != bool:
        raise InputError(f"expected booleans (hypotheses, domains), got {table.dtype} of shape {table.shape}.")
    if not 1 <= table.shape[1] <= MOST_DOMAINS:
        raise InputError(f"the number of domains must be from 1 to {MOST_DOMAINS}, got {table.shape[1]}.")
    hypothesis = np.full(2 ** table.shape[1], -1)
    hypothesis[subset_numbers(table)[::-1]] = np.arange(len(table))[::-1]  # the first of several
    return Shattering(hypothesis)


def performs_well(recall: ArrayLike, target_recall: float) -> NDArray[np.bool_]:
    """Return where the recall of every label (the last axis) is at target; absent labels (NaN) are ignored."""
    check_target_recall(target_recall)
    values = np.asarray(recall, dtype=float)
    return np.all((values >= target_recall) | np.isnan(values), axis=-1)


def subset_numbers(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of each subset, given as booleans over domains along the last axis."""
    numbers: NDArray[np.int64] = chosen @ (1 << np.arange(chosen.shape[-1]))
    return numbers


def members(numbers: Any, n_domains: int) -> NDArray[np.bool_]:
    """Return the numbered subsets as booleans, domains along a new last axis."""
    return (np.asarray(numbers)[..., None] >> np.arange(n_domains) & 1).astype(bool)
