"""Sliding windows shatter any number of domains, so nothing can be learned without assumptions on the domains.

The construction of Tsibulsky, Nevo and Shalit (2025, appendix A.3), with points of rational mass instead of densities
and in exact integers. With N = 2^n subsets of n domains, there are N points on the left, one in the middle, N − 1 on
the right and one outside of all windows. The points of subset k, one left and one right, have mass only in the domains
of that subset. Window k starts before left point k and ends after right point k. The next window loses the left point
of a subset and gains the right point of the next, so that every domain has the same mass in every window, except those
of subset k, which have one point more in window k.

Departures from the paper:

- The paper gives a domain of the subset exactly the target recall in its window, which performs badly by the paper's
  own definition (loss ≥ γ is bad). Here it is as far above the target as the others are below.
- The paper puts the remaining mass on [−2, −1]. On the circle, where a window is half a turn (2 of 4), that is [2, 3],
  the place of the right points. Here it is outside of all windows.
- The paper puts 0.01 of the target on either side, leaving "small enough" open. See `largest_target_recall`.
- The paper numbers subsets up to 2^n; with the empty one as number 0 they end at 2^n − 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.criteria import check_target_recall
from domaincover.errors import InputError
from tests.paper.theory.shattering import members

MOST_DOMAINS = 11  # windows × points then take 64 MB, and four times as much for each further domain
PAPERS_SIDE_SHARE = Fraction(1, 100)
LARGEST_EXACT = 2**62  # sums up to here fit into int64


class PointMasses(NamedTuple):
    """Masses of points: a side point in the domains of its subset, the middle and the rest in all domains."""

    side: Fraction
    middle: Fraction
    rest: Fraction


@dataclass(frozen=True, eq=False)
class SlidingWindows:
    """Finite domains (masses by domain and point) and windows (which points each covers).

    `places` are the points: multiples of `unit` on the line, integer directions on the circle. `windows` are their
    starts, or the normals of their half-planes.
    """

    masses: NDArray[Any]
    covered: NDArray[np.bool_]
    places: NDArray[np.int64]
    windows: NDArray[np.int64]
    unit: Fraction
    target_recall: Fraction

    @property
    def recall(self) -> NDArray[Any]:
        """The exact recall of every window in every domain."""
        denominator = math.lcm(*(mass.denominator for mass in set(self.masses.flat)))
        dtype = np.int64 if denominator <= LARGEST_EXACT else object
        whole = np.array([[int(mass * denominator) for mass in row] for row in self.masses], dtype=dtype)
        inside = self.covered.astype(dtype) @ whole.T
        return np.array([[Fraction(int(mass), denominator) for mass in row] for row in inside], dtype=object)

    @property
    def performs_well(self) -> NDArray[np.bool_]:
        """Whether each window is at target in each domain, computed exactly."""
        return (self.recall >= self.target_recall).astype(bool)


def sliding_windows(
    n_domains: int,
    target_recall: Fraction | float,
    shape: Literal["line", "circle"] = "line",
    side_share: Fraction | None = None,
) -> SlidingWindows:
    """Return n domains and 2^n windows of equal length; window k performs well on exactly the domains in subset k.

    Windows are closed intervals of length 2 on the line, and half-planes through the centre of the circle, that is,
    linear classifiers of two features. The masses follow from the target; with `side_share` they are the paper's,
    which puts that share of the target (0.01) on the side points of a window.
    """
    check_target_recall(float(target_recall))
    if not 1 <= n_domains <= MOST_DOMAINS:
        raise InputError(f"n_domains must be from 1 to {MOST_DOMAINS}, got {n_domains}.")
    if shape not in ("line", "circle"):
        raise InputError(f"shape must be 'line' or 'circle', got {shape!r}.")
    target = Fraction(target_recall)
    point = _own_masses(n_domains, target) if side_share is None else _paper_masses(n_domains, target, side_share)
    in_subset = members(np.arange(2**n_domains), n_domains).T
    side = in_subset * np.array(point.side, dtype=object)
    middle, rest = (np.full((n_domains, 1), mass, dtype=object) for mass in (point.middle, point.rest))
    masses = np.hstack([side, middle, side[:, 1:], rest])
    places, windows, covered = (_on_line if shape == "line" else _on_circle)(2**n_domains)
    return SlidingWindows(masses, covered, places, windows, Fraction(1, 2 ** (n_domains + 1)), target)


def largest_target_recall(n_domains: int, side_share: Fraction = PAPERS_SIDE_SHARE) -> Fraction:
    """Return the largest target for which the paper's masses add up to at most 1.

    A domain is in half of all subsets, K = 2^(n−1), and a side point has the mass side_share · target / (K + 1). For
    many domains the limit approaches 1 / 1.01: the paper's constants fail for γ below about 0.0099.

    >>> round(float(1 - largest_target_recall(10)), 6)
    0.009863
    """
    half = 2 ** (n_domains - 1)
    return 1 / (1 + side_share * Fraction(half - 1, half + 1))


def _own_masses(n_domains: int, target: Fraction) -> PointMasses:
    """Put the target halfway between the recalls with and without a point, with the largest mass of the point."""
    half = 2 ** (n_domains - 1)
    side = min(target, 1 - target) / (half + Fraction(1, 2))
    middle = target - side * (half + Fraction(1, 2))
    return PointMasses(side, middle, 1 - middle - 2 * half * side)


def _paper_masses(n_domains: int, target: Fraction, side_share: Fraction) -> PointMasses:
    if not 0 < side_share < 1:
        raise InputError(f"side_share must be between 0 and 1, got {float(side_share):g}.")
    half = 2 ** (n_domains - 1)
    side = side_share * target / (half + 1)
    middle = (1 - side_share) * target
    rest = 1 - middle - 2 * half * side
    if rest < 0:
        limit = float(largest_target_recall(n_domains, side_share))
        raise InputError(
            f"with side_share {float(side_share):g}, {n_domains} domains have masses above 1 for a target recall of "
            f"{float(target):g}; the limit is {limit:.6g}: omit side_share."
        )
    return PointMasses(side, middle, rest)


class _Geometry(NamedTuple):
    places: NDArray[np.int64]
    windows: NDArray[np.int64]
    covered: NDArray[np.bool_]


def _on_line(n_subsets: int) -> _Geometry:
    """Place the points at the centres of the paper's sub-intervals, in units of 1 / (2N)."""
    left = 2 * np.arange(n_subsets) + 1
    length = 4 * n_subsets
    right = length + 2 * np.arange(1, n_subsets) - 1
    places = np.concatenate([left, [3 * n_subsets], right, [-3 * n_subsets]])
    starts = 2 * np.arange(n_subsets)
    return _Geometry(places, starts, (starts[:, None] <= places) & (places <= starts[:, None] + length))


def _on_circle(n_subsets: int) -> _Geometry:
    """Place the points at rational points of the unit circle, with integer directions (q² − p², 2pq).

    In the first quadrant: the start of window k, left point k just after it, and opposite, right point k + 1 just
    before the end of window k + 1. Every window contains the second quadrant and none the fourth.
    """
    p, q = np.arange(3 * n_subsets), 3 * n_subsets
    rising = np.stack([q**2 - p**2, 2 * p * q], axis=1)
    left, right = rising[1::3], -rising[2:-1:3]
    places = np.concatenate([left, [[-3, 4]], right, [[3, -4]]])
    normals = rising[::3, ::-1] * np.array(
        [-1, 1]
    )  # rotated by a quarter turn: a window extends half a turn from its start
    return _Geometry(places, normals, normals @ places.T >= 0)
