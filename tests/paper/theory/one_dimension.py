"""Thresholds on one feature: at most 2 · labels domains are shattered, and that many can be.

A linear classifier of one feature is a half-line, x ≤ a or x ≥ a. It is at target in a domain if a is at least the
label's upper bound there (the target quantile), or at most its lower bound. Half-lines of one direction therefore lose
domains in a fixed order, and a half-line that keeps the first keeps all (Tsibulsky, Nevo and Shalit 2025, appendix A.2;
its inverse of the distribution function is replaced by these order statistics where that jumps or is flat).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.criteria import check_target_recall, hits_needed
from domaincover.errors import InputError
from tests.paper.theory.shattering import members, subset_numbers


class HalfLineBounds(NamedTuple):
    """Bounds by domain and label: x ≤ a is at target if a ≥ upper, x ≥ a if a ≤ lower."""

    upper: NDArray[np.float64]
    lower: NDArray[np.float64]


class Impossible(NamedTuple):
    """An assignment (True: at target) that no half-lines reach, the proof's extreme domains, and one other domain."""

    assignment: NDArray[np.bool_]
    extremes: NDArray[np.int64]
    beside: int


def half_line_bounds(samples: Sequence[Sequence[ArrayLike]], target_recall: float) -> HalfLineBounds:
    """Return the bounds of finite domains: `samples[domain][label]` are its equally likely values."""
    check_target_recall(target_recall)
    if len({len(domain) for domain in samples}) != 1 or not len(samples[0]):
        raise InputError("every domain needs the same number of labels, at least one.")
    pairs = np.array([[_bounds(values, target_recall) for values in domain] for domain in samples])
    return HalfLineBounds(pairs[..., 0], pairs[..., 1])


def impossible_assignment(bounds: HalfLineBounds) -> Impossible:
    """Return an assignment that no predictor reaches: at target in the extreme domains, but not in another one."""
    first_given_up = np.concatenate([bounds.upper.argmax(axis=0), bounds.lower.argmin(axis=0)])
    extremes = np.unique(first_given_up)
    n_domains, n_labels = bounds.upper.shape
    others = np.setdiff1d(np.arange(n_domains), extremes)
    if not len(others):
        raise InputError(
            f"all {n_domains} domains are extreme for some label, so they may be shattered; "
            f"more than {2 * n_labels} never are."
        )
    assignment = np.arange(n_domains) != others[0]
    return Impossible(assignment, extremes, int(others[0]))


def reached_by_half_lines(bounds: HalfLineBounds) -> NDArray[np.bool_]:
    """Return all assignments that predictors reach, one per row, over thresholds, directions and labels."""
    n_domains, n_labels = bounds.upper.shape
    by_label = [_reached_by_label(bounds.upper[:, y], bounds.lower[:, y]) for y in range(n_labels)]
    numbers = reduce(lambda some, more: np.unique(some[:, None] & more), by_label)
    return members(numbers, n_domains)


def shattered_domains(n_labels: int, target_recall: float) -> HalfLineBounds:
    """Return the bounds of 2 · labels domains that are shattered.

    Domains 2y and 2y + 1 belong to label y. Half-lines of one direction lose the first before the second, those of
    the other direction the second before the first; so label y can lose none, either or both of its two domains. A
    label's lower bound can be above its upper one only if the target is at most 1/2, and below it only otherwise.
    """
    check_target_recall(target_recall)
    if n_labels < 1:
        raise InputError(f"n_labels must be at least 1, got {n_labels}.")
    narrow = target_recall <= 0.5
    upper, lower = (np.full((2 * n_labels, n_labels), value) for value in ((-3.0, 3.0) if narrow else (1.0, -1.0)))
    for label in range(n_labels):
        own = slice(2 * label, 2 * label + 2)
        upper[own, label], lower[own, label] = ((-1, -2), (2, 1)) if narrow else ((3, 2), (-2, -3))
    return HalfLineBounds(upper, lower)


def _bounds(values: ArrayLike, target_recall: float) -> tuple[float, float]:
    ordered = np.sort(np.asarray(values, dtype=float))
    if ordered.size == 0:
        raise InputError("every label needs at least one value in every domain.")
    n_hits = int(hits_needed(ordered.size, target_recall))
    return ordered[n_hits - 1], ordered[-n_hits]


def _reached_by_label(upper: NDArray[np.float64], lower: NDArray[np.float64]) -> NDArray[np.int64]:
    everything, nothing = np.ones_like(upper, dtype=bool), np.zeros_like(upper, dtype=bool)
    rows = np.vstack([upper <= upper[:, None], lower >= lower[:, None], everything, nothing])
    return np.unique(subset_numbers(rows))
