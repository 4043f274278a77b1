"""How large sets are: the share of sets of each size, as a histogram that needs no script and prints."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.evaluation import DomainReport
from domaincover.report.readable import percent

MOST_SINGLE_SIZES = 9
WIDE_BINS = ((6, 9), (10, 19), (20, 49), (50, 99))  # beyond five labels, where sizes are many


class SizeBar(NamedTuple):
    """One bar: the sizes that it counts, the percentage of sets, and its height in percent of the tallest."""

    sizes: str
    percentage: str
    height: str
    is_one: bool


class SizeHistogram(NamedTuple):
    """The bars, and in words how many sets have one label."""

    bars: list[SizeBar]
    n_sets: str
    one_label: str


def size_histogram(report: DomainReport) -> SizeHistogram:
    """Return the histogram over all sets of a report."""
    counts = report.sets_by_size
    n_sets = int(counts.sum())
    bins = size_bins(counts)
    shares = [int(counts[low : high + 1].sum()) / n_sets for low, high in bins]
    bars = [
        SizeBar(_sizes(low, high), _whole_percent(share), f"{100 * share / max(shares):.1f}%", low == high == 1)
        for (low, high), share in zip(bins, shares, strict=True)
    ]
    return SizeHistogram(bars, f"{n_sets:,}", percent(int(counts[1]) / n_sets))


def size_bins(counts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the first and last size of each bar, from 0 (or 1, if no set is empty) to the largest set.

    >>> size_bins(np.array([0, 5, 2, 0]))
    [(1, 1), (2, 2)]
    >>> size_bins(np.r_[1, 5, np.ones(30, int)])[4:]
    [(4, 4), (5, 5), (6, 9), (10, 19), (20, 31)]
    """
    first, last = (0 if counts[0] else 1), max(int(np.flatnonzero(counts).max()), 1)
    if last <= MOST_SINGLE_SIZES:
        return [(size, size) for size in range(first, last + 1)]
    wide = [(low, min(high, last)) for low, high in WIDE_BINS if low <= last]
    ends = [*((size, size) for size in range(first, WIDE_BINS[0][0])), *wide]
    return ends if ends[-1][1] == last else [*ends, (ends[-1][1] + 1, last)]


def _whole_percent(share: float) -> str:
    return "<1" if 0 < share < 0.005 else f"{100 * share:.0f}"


def _sizes(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"
