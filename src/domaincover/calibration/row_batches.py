"""Random batches of the rows of domains, and the numbers of rows for which a model keeps an entry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.self_calibration import RowsOfDomains

BATCH_SIZES = (30, 100, 300, 1000, 3000)


def random_ranks(groups: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the place of every row in a random order of its group's rows."""
    shuffled = rng.permutation(len(groups))
    order, starts, counts = RowsOfDomains.of(groups[shuffled], 0)
    ranks = np.empty(len(groups), np.int64)
    ranks[shuffled[order]] = np.arange(len(groups)) - np.repeat(starts, counts)
    return ranks


def median_rows(domains: NDArray[np.int64]) -> int:
    """Return the number of rows of the domain in the middle."""
    counts = np.bincount(domains)
    return int(np.median(counts[counts > 0])) if len(counts) else 0


def entry_sizes(most: int, batch_sizes: Sequence[int]) -> list[int]:
    """Return the numbers of rows that get an entry: the given ones that are smaller than `most`, and `most` itself."""
    sizes = [size for size in sorted(batch_sizes) if size < most]
    return [*sizes, most] if most >= min(batch_sizes, default=1) else sizes
