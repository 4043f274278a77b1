"""Domains that sliding windows shatter, however many: without assumptions on domains nothing can be learned of them.

The construction of Tsibulsky, Nevo and Shalit (2025, appendix A.3), with points of rational mass instead of densities
and in whole numbers throughout. With N = 2^n subsets of n domains, there are N points on the left, one in the middle,
N − 1 on the right and one out of reach. The points of subset k, one left and one right, weigh something in the
domains of that subset only. Window k begins before left point k and ends behind right point k. One step onwards it
loses the left point of a subset and gains the right point of the next, so that every domain is in it with the
same weight, but for those of subset k, which have one point more.

Departures from the paper:

- There, a domain of the subset has exactly the target recall in its window, and so performs badly by the paper's own
  definition (loss ≥ γ is bad). Here it is as far above the target as others are below.
- There, the remaining mass lies on [−2, −1]. On the circle, where a window is half a turn (2 of 4), that is [2, 3], the
  place of the right points. Here it lies where no window comes.
- There, 0.01 of the target lies on either side, "small enough" left open. See `largest_target_recall`.
- There, subsets are numbered up to 2^n; with the empty one as number 0 they end at 2^n − 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.paper.theory.shattering import members
from domaincover.prediction_sets import check_target_recall

MOST_DOMAINS = 11  # windows × points in whole numbers are then 64 MB, and four times that with each one more
PAPERS_SIDE_SHARE = Fraction(1, 100)
LARGEST_EXACT = 2**62  # sums of whole numbers up to here fit into int64


class PointMasses(NamedTuple):
    """What a point weighs: a side point in the domains of its subset, and in all domains the middle and the rest."""

    side: Fraction
    middle: Fraction
    rest: Fraction


@dataclass(frozen=True, eq=False)
class SlidingWindows:
    """Finite domains (domains × points, masses), and windows (windows × points: is the point inside?).

    `places` are the points: on the line, multiples of `unit`; on the circle, directions in whole numbers. `windows`
    are where each begins, or the normal of its half-plane.
    """

    masses: NDArray[Any]
    covered: NDArray[np.bool_]
    places: NDArray[np.int64]
    windows: NDArray[np.int64]
    unit: Fraction
    target_recall: Fraction

    @property
    def recall(self) -> NDArray[Any]:
        """The recall of every window in every domain, as fractions."""
        denominator = math.lcm(*(mass.denominator for mass in set(self.masses.flat)))
        dtype = np.int64 if denominator <= LARGEST_EXACT else object
        whole = np.array([[int(mass * denominator) for mass in row] for row in self.masses], dtype=dtype)
        inside = self.covered.astype(dtype) @ whole.T
        return np.array([[Fraction(int(mass), denominator) for mass in row] for row in inside], dtype=object)

    @property
    def performs_well(self) -> NDArray[np.bool_]:
        """Whether a window is at target in a domain, windows × domains: recall ≥ target, exactly."""
        return (self.recall >= self.target_recall).astype(bool)


def sliding_windows(
    n_domains: int,
    target_recall: Fraction | float,
    shape: Literal["line", "circle"] = "line",
    side_share: Fraction | None = None,
) -> SlidingWindows:
    """Return n domains and 2^n windows of equal length; window k performs well on the domains in subset k only.

    On the line windows are closed intervals of length 2; on the circle, half-planes through its centre: linear
    classifiers of two features. The masses follow from the target; with `side_share` they are the paper's, which puts
    that share of the target (0.01) on the side points of a window.
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

    Half of all subsets hold a domain, K = 2^(n−1), and a point weighs side_share · target / (K + 1) there. For many
    domains the limit falls to 1 / 1.01: the paper's constants fail for γ below about 0.0099.

    >>> round(float(1 - largest_target_recall(10)), 6)
    0.009863
    """
    half = 2 ** (n_domains - 1)
    return 1 / (1 + side_share * Fraction(half - 1, half + 1))


def _own_masses(n_domains: int, target: Fraction) -> PointMasses:
    """Put the target halfway between the recalls with and without a point, and the point's mass as high as can be."""
    half = 2 ** (n_domains - 1)
    side = min(target, 1 - target) / (half + Fraction(1, 2))
    middle = target - side * (half + Fraction(1, 2))
    return PointMasses(side, middle, 1 - middle - 2 * half * side)


def _paper_masses(n_domains: int, target: Fraction, side_share: Fraction) -> PointMasses:
    if not 0 < side_share < 1:
        raise InputError(f"side_share must lie between 0 and 1, got {float(side_share):g}.")
    half = 2 ** (n_domains - 1)
    side = side_share * target / (half + 1)
    middle = (1 - side_share) * target
    rest = 1 - middle - 2 * half * side
    if rest < 0:
        limit = float(largest_target_recall(n_domains, side_share))
        raise InputError(
            f"with {float(side_share):g} of the target at the sides, {n_domains} domains have masses above 1 for a "
            f"target recall of {float(target):g}; it can be {limit:.6g} at most: leave side_share out."
        )
    return PointMasses(side, middle, rest)


class _Geometry(NamedTuple):
    places: NDArray[np.int64]
    windows: NDArray[np.int64]
    covered: NDArray[np.bool_]


def _on_line(n_subsets: int) -> _Geometry:
    """Place the points in the midst of the paper's sub-intervals, in units of 1 / (2N)."""
    left = 2 * np.arange(n_subsets) + 1
    length = 4 * n_subsets
    right = length + 2 * np.arange(1, n_subsets) - 1
    places = np.concatenate([left, [3 * n_subsets], right, [-3 * n_subsets]])
    starts = 2 * np.arange(n_subsets)
    return _Geometry(places, starts, (starts[:, None] <= places) & (places <= starts[:, None] + length))


def _on_circle(n_subsets: int) -> _Geometry:
    """Place the points at rational points of the unit circle, whose directions are whole numbers (q² − p², 2pq).

    In the first quarter: where window k begins, left point k just behind, and opposite right point k + 1 just before
    the end of window k + 1. Every window holds the second quarter and none the fourth.
    """
    p, q = np.arange(3 * n_subsets), 3 * n_subsets
    rising = np.stack([q**2 - p**2, 2 * p * q], axis=1)
    left, right = rising[1::3], -rising[2:-1:3]
    places = np.concatenate([left, [[-3, 4]], right, [[3, -4]]])
    normals = rising[::3, ::-1] * np.array(
        [-1, 1]
    )  # a quarter turn onwards: the window goes on from its begin for half a turn
    return _Geometry(places, normals, normals @ places.T >= 0)
