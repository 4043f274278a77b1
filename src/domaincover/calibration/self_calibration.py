"""Where a domain's own unlabelled rows say that its thresholds lie: probabilities stand in for the missing labels.

For a domain e and a label y, the self-calibrated threshold is the largest t with
Σ_{x in e, s_y(x) ≥ t} p_y(x) ≥ target · Σ_{x in e} p_y(x). Were the probabilities right in e, the recall of y at this
threshold would be the target. All scores equal to t count, so ties are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.cell_thresholds import MOST_CELLS, Thresholds
from domaincover.criteria import Criterion, as_criterion
from domaincover.errors import InputError
from domaincover.prediction_sets import checked_codes

ROUNDING = 1e-12  # relative slack for a cumulative sum of probabilities
MOST_PADDING = 1.25  # domains that are sorted together differ in size by at most this factor
NUMBERS_AT_ONCE = 1 << 20  # sorted together, so that they stay in the processor's cache


class RowsOfDomains(NamedTuple):
    """The rows of a table in the order of their domains, and where each domain starts in that order."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, domains: NDArray[np.int64], n_domains: int) -> RowsOfDomains:
        """Order rows by domain, stably."""
        is_sorted = bool((domains[1:] >= domains[:-1]).all())
        codes = domains.astype(np.uint16) if domains.max(initial=0) < 2**16 else domains  # numpy counts short codes
        order = np.arange(len(domains)) if is_sorted else np.argsort(codes, kind="stable")
        counts = np.bincount(domains, minlength=n_domains)
        return cls(order, np.cumsum(counts) - counts, counts)

    def blocks(self, n_labels: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
        """Yield domains of about the same size: their codes, their rows (domains × width), and which rows are real."""
        by_size = np.argsort(self.counts, kind="stable")
        by_size = by_size[np.searchsorted(self.counts[by_size], 1) :]  # a domain without rows says nothing
        sizes = self.counts[by_size]
        first = 0
        while first < len(by_size):
            alike = int(np.searchsorted(sizes, int(sizes[first] * MOST_PADDING), side="right"))
            at_once = max(1, NUMBERS_AT_ONCE // (int(sizes[alike - 1]) * n_labels))
            codes = by_size[first : min(alike, first + at_once)]
            place = np.arange(int(self.counts[codes[-1]]))
            is_real = place < self.counts[codes][:, None]
            yield codes, self.order[self.starts[codes][:, None] + np.where(is_real, place, 0)], is_real
            first += len(codes)


def self_calibrated_thresholds(
    scores: NDArray[Any],
    probabilities: NDArray[Any],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    n_domains: int | None = None,
) -> Thresholds:
    """Return the threshold of every label in every domain that the domain's own unlabelled rows give.

    `scores` and `probabilities` are rows × labels. A row with NaN for a label does not count for that label. The result
    is domains × labels, NaN where nothing is known: a domain without rows, a label with probability 0 in all of them.
    With a criterion it is domains × groups; with coverage all labels of a domain are one group, with the mass of each.
    """
    scores, weights, domains = _checked(scores, probabilities, domains)
    criterion = as_criterion(target_recall, scores.shape[1])
    n_domains = max(int(domains.max(initial=-1)) + 1, n_domains or 0)
    scores, weights, domains = _of_groups(scores, weights, domains, criterion)
    n_labels = scores.shape[1]
    if n_domains * n_labels > MOST_CELLS:
        raise InputError(f"domain codes run up to {n_domains - 1:,} for {len(domains):,} rows; codes count from 0.")
    found = np.full((n_domains, n_labels), np.nan)
    for codes, rows, is_real in RowsOfDomains.of(domains, n_domains).blocks(n_labels):
        # domains × labels × rows in memory, so that what is sorted lies together
        own = np.ascontiguousarray(np.moveaxis(scores[rows], 2, 1))
        mass = np.ascontiguousarray(np.moveaxis(weights[rows], 2, 1))
        mass *= is_real[:, None, :]
        found[codes] = _weighted_quantiles(own, mass, criterion.group_targets[:, None])
    return found


def _of_groups(
    scores: NDArray[Any], weights: NDArray[Any], domains: NDArray[np.int64], criterion: Criterion
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return the columns of constrained labels, or with coverage every (row, label) as a row of one column."""
    if criterion.is_coverage:
        return scores.reshape(-1, 1), weights.reshape(-1, 1), np.repeat(domains, scores.shape[1])
    if criterion.constrained.all():
        return scores, weights, domains
    return scores[:, criterion.constrained], weights[:, criterion.constrained], domains


def _weighted_quantiles(scores: NDArray[Any], mass: NDArray[Any], target: Any) -> Thresholds:
    """Return along the last axis the largest score at and above which the target share of the mass lies."""
    unusable = np.isnan(scores) | np.isnan(mass)
    if unusable.any():
        mass = np.where(unusable, 0, mass)
    falling = np.argsort(-scores, axis=-1)
    reached = np.cumsum(np.take_along_axis(mass, falling, axis=-1), axis=-1, dtype=np.float64)
    total = reached[..., -1:]
    place = (reached >= target * total * (1 - ROUNDING)).argmax(axis=-1)[..., None]
    picked = np.take_along_axis(scores, np.take_along_axis(falling, place, axis=-1), axis=-1)
    return np.where(total > 0, picked, np.nan)[..., 0].astype(np.float64)


def _checked(scores: Any, probabilities: Any, domains: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return scores, probabilities and domain codes, or reject them."""
    scores, probabilities = np.asarray(scores), np.asarray(probabilities)
    if scores.ndim != 2 or scores.dtype.kind not in "fiub":
        raise InputError(f"scores must be numbers, rows × labels, got {scores.dtype} of shape {scores.shape}.")
    if probabilities.shape != scores.shape or probabilities.dtype.kind not in "fiub":
        raise InputError(
            f"probabilities must be numbers of the shape of the scores, {scores.shape}, "
            f"got {probabilities.dtype} of shape {probabilities.shape}."
        )
    if probabilities.size and np.nanmin(probabilities, initial=0) < 0:
        raise InputError("probabilities must not be negative.")
    scores = scores if scores.dtype.kind == "f" else scores.astype(np.float64)  # unsigned numbers have no negative
    probabilities = probabilities if probabilities.dtype.kind == "f" else probabilities.astype(np.float64)
    return scores, probabilities, checked_codes(domains, "domain", len(scores))
