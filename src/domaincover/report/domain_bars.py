"""Bars and tracks of a page that need no script and print: set sizes, recalls of all domains, thresholds."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.evaluation import DomainReport
from domaincover.report.domain_adaptation import DomainAdaptation
from domaincover.report.domain_chart import ROOM, DomainChartData
from domaincover.report.readable import GLYPHS

MOST_SINGLE_SIZES = 9
WIDE_BINS = ((6, 9), (10, 19), (20, 49), (50, 99))  # beyond five labels, where sizes are many
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)  # widths of the bins of recalls
MOST_STEPS = 10


class Bar(NamedTuple):
    """What a bar counts, its share of all, its length as a share of the longest, and whether it has another colour."""

    name: str
    n: int
    share: float
    length: float
    is_marked: bool


class Mark(NamedTuple):
    """A label's threshold: its place as a share of the track, its look, and its numbers in words."""

    place: float
    color: str
    glyph: str
    words: str


def size_histogram(report: DomainReport) -> list[Bar]:
    """Return a bar for each size of sets, or a few together, that of one label marked."""
    counts = report.sets_by_size
    bins = size_bins(counts)
    names = [str(low) if low == high else f"{low}–{high}" for low, high in bins]
    return _bars(names, [int(counts[low : high + 1].sum()) for low, high in bins], [name == "1" for name in names])


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


def recall_bins(shown: Mapping[str, DomainReport], targets: list[float]) -> dict[str, list[Bar]]:
    """Return each method's domains by min recall, the lowest first; bins end at targets, and misses are marked."""
    edges = bin_edges(min(float(report.min_recall.min()) for report in shown.values()), targets)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    below = [high <= targets[0] for high in edges[1:]]
    places = {name: np.searchsorted(edges[1:-1], report.min_recall, side="right") for name, report in shown.items()}
    return {name: _bars(names, np.bincount(own, minlength=len(names)).tolist(), below) for name, own in places.items()}


def bin_edges(lowest: float, targets: list[float]) -> list[float]:
    """Return the ends of about ten bins from the lowest recall to 1.

    >>> bin_edges(0.953, [0.975])
    [0.95, 0.96, 0.97, 0.975, 0.98, 0.99, 1.0]
    """
    lowest = min(lowest, *targets)
    step = next((step for step in STEPS if (1 - lowest) / step <= MOST_STEPS), STEPS[-1])
    n_steps = int(np.ceil(round((1 - lowest) / step, 9)))
    return sorted({*(round(1 - k * step, 2) for k in range(max(n_steps, 1) + 1)), *targets})


def threshold_tracks(data: DomainChartData, adaptation: DomainAdaptation) -> dict[str, Any]:
    """Return the ends of all tracks, the fixed thresholds, and those of each domain, in the chart's looks.

    Labels that are in every set are left out.
    """
    shown = np.isfinite(adaptation.shift)
    adapted, fixed, shift = adaptation.thresholds, adaptation.fixed, adaptation.shift
    fixed_ones = np.flatnonzero(shown.any(axis=0))
    values = np.r_[adapted[shown], fixed[fixed_ones], [] if shown.any() else 0.0]
    room = ROOM * float(np.ptp(values)) or 0.5
    low, high = float(values.min()) - room, float(values.max()) + room

    def mark(label: Any, value: float, words: str) -> Mark:
        color, shape = data.looks[data.groups[label]]
        return Mark((value - low) / (high - low), color, GLYPHS[shape], f"{data.label_names[label]}: {words}")

    by_domain = {
        str(name): [mark(k, own[k], f"{own[k]:.2f}, moved by {moved[k]:+.2f}") for k in np.flatnonzero(is_shown)]
        for name, own, moved, is_shown in zip(data.domains["row"], adapted, shift, shown, strict=True)
    }
    fixed_marks = [mark(k, fixed[k], f"{fixed[k]:.2f}, fixed") for k in fixed_ones]
    return {"low": low, "high": high, "fixed": fixed_marks, "by_domain": by_domain}


class GainBar(NamedTuple):
    """What a number of labels of a domain gives: the mean set size, as a share of the largest, too, and the share."""

    n_labels: int
    size: float
    length: float
    share: float


def label_bars(gain: pd.DataFrame) -> list[GainBar]:
    """Return a bar for each number of labels, from set sizes and shares at target by that number."""
    largest = gain["set_size"].max()
    rows = zip(gain.index, gain["set_size"], gain["share_at_target"], strict=True)
    return [GainBar(int(n), float(size), float(size / largest), float(share)) for n, size, share in rows]


def _bars(names: list[str], counts: list[int], marked: list[bool]) -> list[Bar]:
    n_all, most = sum(counts), max(counts)
    each = zip(names, counts, marked, strict=True)
    return [Bar(name, n, n / n_all, n / most, is_marked) for name, n, is_marked in each]
