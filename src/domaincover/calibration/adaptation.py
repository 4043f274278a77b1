"""Thresholds that a new domain sets by its own rows, with the same promise as fixed ones.

One mechanism: evidence of a domain → base thresholds → residual → order statistic → thresholds.

- Evidence: nothing, or the self-calibrated thresholds t̂ of its unlabelled rows, with probabilities for the missing
  labels: the largest t with Σ_{x: s_y(x) ≥ t} p_y(x) ≥ target · Σ_x p_y(x) over its rows. Were the probabilities right
  there, the recall of y at this threshold would be the target. All scores equal to t count, so ties are exact.
- Base thresholds: `level + slope · (t̂ − centre)`.
- A calibration domain's residual is what its labels allow beyond its base: by how much all of them may be raised
  together until its first label drops below the target; negative where they have to be lowered.
- A new domain's residual is equally likely to take any place among those of the calibration domains, so an order
  statistic of theirs, added to its base, promises that every label of a new domain is at target.

That promise is over domains: a label that few of them have could miss wherever it occurs. So each label is held by the
order statistic of its own cells, too, which promises its recall in a new domain that has it.

What few rows say is noisy, so there is an entry for each of several numbers of rows, made from random batches of that
size from the calibration domains. docs/promises.md has the statement and its proof.

Whether a new domain is drawn like those that calibrated is told by an exact p-value from its unlabelled rows. A few
numbers describe the rows of a domain. Among the m calibration domains and the new one, a domain's distance is the sum
over these numbers of the squared deviation from the mean of all m + 1, in units of their variance; where a number is
missing, the mean stands in. It treats all m + 1 alike. If domains are exchangeable, their numbers of rows included, the
new domain's distance is equally likely to take any place, so that
p = (1 + number of calibration domains at least as far) / (m + 1) is at most α with probability at most α, for each new
domain by itself. It is never below 1 / (m + 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.criteria import (
    Criterion,
    Thresholds,
    as_criterion,
    check_n_cells,
    checked_codes,
    checked_scores,
    hits_needed,
)
from domaincover.errors import InputError

SLACK = 1e-12  # relative, for a cumulative sum of probabilities
MOST_PADDING = 1.25  # domains that are sorted together differ in size by at most this factor
NUMBERS_AT_ONCE = 1 << 20  # sorted together, so that they stay in the processor's cache
ROUNDING = 4 * float(np.finfo(float).eps)  # relative error of a residual, of the base and of their sum
NEAR = 1e-9  # domains whose distances differ by less, relatively, are equally far
DISTANCES_AT_ONCE = 10**7
NO_MASS = 1e-12


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
    check_n_cells(n_domains, n_labels, len(domains))
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
    place = (reached >= target * total * (1 - SLACK)).argmax(axis=-1)[..., None]
    picked = np.take_along_axis(scores, np.take_along_axis(falling, place, axis=-1), axis=-1)
    return np.where(total > 0, picked, np.nan)[..., 0].astype(np.float64)


def _checked(scores: Any, probabilities: Any, domains: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return scores, probabilities and domain codes, or reject them."""
    scores, probabilities = checked_scores(scores), np.asarray(probabilities)
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


class AdaptiveThresholds(NamedTuple):
    """What turns the rows of a domain into its thresholds.

    An entry for each of several numbers of rows; entry 0 is for none and gives the fixed thresholds. A domain with n
    rows takes the last entry with at most n: evidence that is no noisier than in calibration.
    """

    n_rows: NDArray[np.int64]  # entries, from 0
    level: NDArray[np.float64]  # entries × labels
    centre: NDArray[np.float64]  # entries × labels
    highest: NDArray[np.float64]  # entries × labels: no evidence counts as higher than in calibration
    slope: NDArray[np.float64]  # entries
    offset: NDArray[np.float64]  # entries × labels: what is added to the base

    @property
    def fixed(self) -> Thresholds:
        """The thresholds of a domain of which nothing is known, one per label."""
        return rounded_down(self.level[0], self.offset[0])

    def of_evidence(self, evidence: Thresholds, n_rows: NDArray[np.int64]) -> Thresholds:
        """Return thresholds, domains × labels, from self-calibrated ones and the number of rows that gave them."""
        entry = self.entry_of(n_rows)
        return rounded_down(self.base(evidence, entry), self.offset[entry])

    def entry_of(self, n_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which entry a number of rows takes."""
        return np.searchsorted(self.n_rows, n_rows, side="right") - 1

    def base(self, evidence: Thresholds, entry: Any) -> Thresholds:
        """Return the base thresholds that unlabelled rows give."""
        moved = deviation(evidence, self.centre[entry], self.highest[entry])
        return self.level[entry] + self.slope[entry][..., None] * moved


def rounded_down(base: Thresholds, offset: NDArray[np.float64]) -> Thresholds:
    """Return base + offset, not rounded above the score that it stands for: many rows may have just that score."""
    error = ROUNDING * (np.abs(base) + np.abs(offset))
    return base + offset - np.where(np.isfinite(error), error, 0.0)


def offset_of(
    allowed: NDArray[np.float64],
    promised: NDArray[np.bool_],
    rare_residuals: NDArray[np.float64],
    domain_confidence: float,
    weights: NDArray[np.float64] | None = None,
    counts: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return what is added to base thresholds, (…, labels), from residuals, (…, draws, domains, labels).

    `counts` says which cells count; without, they are those whose residual is not +∞.
    Promised labels share one number, but for those that few domains have (see `label_offsets`). A rare label, in too
    few domains to be promised with the others, gets the lowest of this number, of what its own cells allow and of what
    its pooled rows allow: with r cells that count it is promised by itself with confidence r / (r + 1).
    """
    lowest = np.minimum(allowed.min(axis=(-3, -2), initial=np.inf), rare_residuals)
    if not promised.any():
        return lowest
    counts = allowed < np.inf if counts is None else counts
    n_domains = np.count_nonzero((counts & promised).any(axis=-1), axis=(-2, -1)) / allowed.shape[-3]
    together = order_statistic(domain_residuals(allowed, 0.0, promised), n_domains, domain_confidence, weights)
    alone = label_offsets(allowed, counts, domain_confidence, weights)
    return np.minimum(together[..., None], np.where(promised, alone, lowest))


def deviation(evidence: Thresholds, centre: NDArray[np.float64], highest: NDArray[np.float64]) -> Thresholds:
    """Return by how much evidence lies off its centre: 0 where there is none.

    A strange domain may look easy. Its evidence counts as no higher than the highest met before, so that thresholds
    are raised no further than in any domain that was calibrated.
    """
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(evidence), np.minimum(evidence, highest) - centre, 0.0)


def domain_residuals(by_cell: NDArray[np.float64], base: ArrayLike, promised: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return min over the promised labels of (cell threshold − base threshold), (…, domains).

    +∞ for a domain in which no cell counts: it allows anything.
    """
    return np.where(promised, by_cell - np.asarray(base), np.inf).min(axis=-1, initial=np.inf)


def n_counting(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many domains of (…, draws, domains) count, on average over draws."""
    return np.asarray(np.count_nonzero(residuals < np.inf, axis=(-2, -1)) / residuals.shape[-2])


def recency_weights(n_domains: int, domain_confidence: float) -> NDArray[np.float64]:
    """Return the weight of each domain in an order: 1 for the last, and less for each one before.

    The weights of any number of domains add up to 2 / (1 − confidence) at most: about twice as many domains as an
    order statistic needs. At 0.9, a step back has the factor 0.95.
    """
    return np.asarray(((1 + domain_confidence) / 2) ** np.arange(n_domains)[::-1])


def order_statistic(
    residuals: NDArray[np.float64],
    n_domains: Any,
    domain_confidence: ArrayLike,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the largest offset that a new domain's residual is not below with at least this confidence.

    `residuals` is (…, draws, domains), +∞ for those that do not count, and `n_domains` is how many domains do, on
    average over draws. A draw that does not count says nothing about one that does, so it has no weight. With one draw
    this is the ⌊(1 − confidence)(m + 1)⌋-th lowest. With several draws of rows from each domain, each domain shares its
    weight among its draws and the new domain counts as one more at −∞ (hierarchical conformal prediction: Lee, Barber
    and Willett), so that the promise stays exact while the offset depends less on chance. −∞ where the confidence takes
    more domains.

    With `weights` of the domains, the offset is the largest v with 1 + Σ weight of residuals below v ≤ (1 − confidence)
    (1 + Σ weight), or else the lowest residual (Barber, Candès, Ramdas and Tibshirani).
    """
    n_draws = residuals.shape[-2]
    weight = np.rint(n_draws * (np.asarray(n_domains) + 1)).astype(np.int64)
    n_below = weight - hits_needed(weight, domain_confidence) - n_draws
    ordered = np.sort(residuals.reshape(*residuals.shape[:-2], -1), axis=-1)
    picks = np.broadcast_to(np.maximum(n_below, 0), ordered.shape[:-1])
    if weights is not None:
        picks = _weighted_picks(residuals, np.asarray(domain_confidence), weights)
    picked = np.take_along_axis(ordered, picks[..., None], axis=-1)[..., 0]
    return np.where(n_below < 0, -np.inf, picked)


def _weighted_picks(
    residuals: NDArray[np.float64], domain_confidence: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the place of the weighted order statistic among the sorted residuals of all draws."""
    of_draws = np.where(residuals < np.inf, weights, 0.0) / residuals.shape[-2]
    flat = residuals.reshape(*residuals.shape[:-2], -1)
    ordered = np.take_along_axis(of_draws.reshape(flat.shape), np.argsort(flat, axis=-1), axis=-1)
    below = np.cumsum(ordered, axis=-1) - ordered
    most = (1 - domain_confidence) * (1 + of_draws.sum(axis=(-2, -1))) - 1
    return np.asarray(np.maximum(np.count_nonzero((ordered > 0) & (below <= most[..., None]), axis=-1) - 1, 0))


def label_offsets(
    by_cell: NDArray[np.float64],
    counts: NDArray[np.bool_],
    domain_confidence: ArrayLike,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the largest offset of each label that its own cells allow with this confidence, (…, labels).

    `by_cell` is (…, draws, domains, labels), and `counts` says which cells count. A label in too few domains for the
    confidence is held by all of its cells: r of them promise it with confidence r / (r + 1). +∞ for a label with none.
    """
    cells = np.where(counts, by_cell, np.inf)
    n_domains = np.count_nonzero(counts, axis=(-3, -2)) / counts.shape[-3]
    confidence = np.asarray(domain_confidence)[..., None]
    found = order_statistic(np.moveaxis(cells, -1, -3), n_domains, confidence, weights)
    return np.where(np.isneginf(found), cells.min(axis=(-3, -2), initial=np.inf), found)


class FamiliarityTable(NamedTuple):
    """What describes the calibration domains, for each of several numbers of rows.

    A domain with n rows is compared by the last entry with at most n; one with fewer than any entry gets p = 1.
    """

    target_recall: float
    n_rows: NDArray[np.int64]  # entries
    summaries: NDArray[np.float64]  # entries × domains × numbers

    def of_evidence(
        self,
        evidence: Thresholds,
        scores: NDArray[Any],
        probabilities: NDArray[Any],
        domains: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return the p-values of domains whose self-calibrated thresholds are known."""
        described = domain_summaries(scores, probabilities, domains, evidence)
        entry = np.searchsorted(self.n_rows, np.bincount(domains, minlength=len(evidence)), side="right") - 1
        p_values = np.ones(len(evidence))
        for each in np.unique(entry[entry >= 0]):
            p_values[entry == each] = familiarity(self.summaries[each], described[entry == each])
        return p_values


def domain_summaries(
    scores: NDArray[Any], probabilities: NDArray[Any], domains: NDArray[np.int64], evidence: Thresholds
) -> NDArray[np.float64]:
    """Return what describes the unlabelled rows of each domain, domains × (2 · labels).

    For each label its self-calibrated threshold (`evidence`) and the mean of its scores. NaN, of a domain without rows
    for instance, tells nothing against a domain.
    """
    n_domains, n_labels = len(evidence), scores.shape[1]
    mean = np.full((n_domains, n_labels), np.nan)
    for label in range(n_labels):
        usable = np.isfinite(scores[:, label]) & np.isfinite(probabilities[:, label])
        own, of = np.asarray(scores[usable, label], dtype=float), domains[usable]
        count = np.bincount(of, minlength=n_domains)
        known = count > 0
        mean[known, label] = np.bincount(of, own, minlength=n_domains)[known] / count[known]
    return np.hstack([evidence, mean])


def familiarity(calibration: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a p-value for every new domain, each compared by itself with all calibration domains.

    Both are domains × numbers. Small values say that the domain is unlike those that calibrated.

    >>> familiarity(np.arange(19.0)[:, None], np.array([[9.0], [40.0]]))
    array([1.  , 0.05])
    """
    m = len(calibration)
    is_known, is_known_new = np.isfinite(calibration), np.isfinite(new)
    centre = np.where(is_known, calibration, 0.0).sum(axis=0) / np.maximum(is_known.sum(axis=0), 1)
    seen, others = np.where(is_known, calibration - centre, 0.0), np.where(is_known_new, new - centre, 0.0)
    total, squares = seen.sum(axis=0), (seen**2).sum(axis=0)
    n_known = np.maximum(is_known.sum(axis=0) + is_known_new, 1)
    mean = (total + others) / n_known
    variance = (squares + others**2) / n_known - mean**2
    weight = np.where(variance > NEAR * (squares + others**2 + NO_MASS), 1 / np.where(variance > 0, variance, 1), 0)
    distance = (weight * is_known_new * (others - mean) ** 2).sum(axis=1)
    p_values = np.empty(len(others))
    at_once = max(1, DISTANCES_AT_ONCE // max(m, 1))
    for start in range(0, len(others), at_once):
        part = slice(start, start + at_once)
        scale = weight[part].T
        centred = (weight[part] * mean[part]).T
        of_seen = seen**2 @ scale - 2 * seen @ centred + is_known @ (scale * mean[part].T ** 2)
        as_far = of_seen >= distance[part] * (1 - NEAR) - NO_MASS
        p_values[part] = (1 + np.count_nonzero(as_far, axis=0)) / (m + 1)
    return p_values
