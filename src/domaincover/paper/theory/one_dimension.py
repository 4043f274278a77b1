"""One feature and a threshold for each label: no more than 2 · labels domains are shattered, and that many are.

A linear classifier of one feature is a half-line, x ≤ a or x ≥ a. It is at target in a domain where a is at least the
upper bound of the label there (the target-quantile), or at most its lower bound. So the half-lines of one direction
give up domains in one order only, and whoever keeps the first of it keeps all (Tsibulsky, Nevo and Shalit 2025,
appendix A.2; it inverts the distribution function, which takes these order statistics where that jumps or is flat).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.errors import InputError
from domaincover.paper.theory.shattering import members, subset_numbers
from domaincover.prediction_sets import check_target_recall, hits_needed


class HalfLineBounds(NamedTuple):
    """Domains × labels: x ≤ a is at target where a ≥ upper, x ≥ a where a ≤ lower."""

    upper: NDArray[np.float64]
    lower: NDArray[np.float64]


class Impossible(NamedTuple):
    """An assignment that no half-lines reach (True: at target), the proof's extreme domains, and one beside them."""

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
    """Return an assignment that no predictor reaches: at target in the extreme domains, not in one beside them."""
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
    """Return every assignment that predictors reach, a row each: all thresholds, both directions, every label."""
    n_domains, n_labels = bounds.upper.shape
    by_label = [_reached_by_label(bounds.upper[:, y], bounds.lower[:, y]) for y in range(n_labels)]
    numbers = reduce(lambda some, more: np.unique(some[:, None] & more), by_label)
    return members(numbers, n_domains)


def shattered_domains(n_labels: int, target_recall: float) -> HalfLineBounds:
    """Return 2 · labels domains that are shattered, by their bounds.

    Domains 2y and 2y + 1 belong to label y. Half-lines of one direction give up the one first, then the other; those
    of the other direction the other way round; so label y alone loses none, either, or both of its own. A label's
    lower bound can lie above its upper one only where the target is at most 1/2, and below it only where it is above.
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
