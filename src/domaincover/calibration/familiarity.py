"""Is a new domain drawn like those that calibrated? An exact p-value from its unlabelled rows.

A few numbers describe the rows of a domain. Among the m calibration domains and the new one, a domain's distance is the
sum over these numbers of the squared deviation from the mean of all m + 1, in units of their variance; where a number
is missing, the mean stands in. It treats all m + 1 alike. If domains are exchangeable, their numbers of rows included,
the new domain's distance is equally likely to take any place, so that
p = (1 + number of calibration domains at least as far) / (m + 1) is at most α with probability at most α, for each new
domain by itself. It is never below 1 / (m + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import self_calibrated_thresholds
from domaincover.calibration.adaptation_fit import BATCH_SIZES, entry_sizes, median_rows, random_ranks
from domaincover.calibration.order_statistics import Thresholds
from domaincover.criteria import Criterion, as_criterion

ROUNDING = 1e-9  # domains whose distances differ by less, relatively, are equally far
DISTANCES_AT_ONCE = 10**7
NO_MASS = 1e-12
MOST_KEPT = 1000  # domains to compare with, so that a model stays small


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


def fit_familiarity(
    scores: NDArray[Any],
    probabilities: NDArray[Any],
    domains: NDArray[np.int64],
    target_recall: float | Criterion,
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    rng: np.random.Generator | None = None,
) -> FamiliarityTable:
    """Describe the calibration domains by random batches of their rows."""
    rng = np.random.default_rng(0) if rng is None else rng
    present = np.unique(domains)
    kept = np.sort(rng.permutation(present)[:MOST_KEPT])
    n_domains = int(domains.max(initial=0)) + 1
    sizes = entry_sizes(median_rows(domains), batch_sizes)
    targets = as_criterion(target_recall, scores.shape[1]).group_targets
    summaries = np.empty((len(sizes), len(kept), len(targets) + scores.shape[1]))
    place = random_ranks(domains, rng)
    for entry, size in enumerate(sizes):
        given = place < (len(place) if size == sizes[-1] else size)
        batch = scores[given], probabilities[given], domains[given]
        evidence = self_calibrated_thresholds(*batch, target_recall, n_domains)
        summaries[entry] = domain_summaries(*batch, evidence)[kept]
    return FamiliarityTable(float(targets.max()), np.array(sizes, dtype=np.int64), summaries)


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
    weight = np.where(variance > ROUNDING * (squares + others**2 + NO_MASS), 1 / np.where(variance > 0, variance, 1), 0)
    distance = (weight * is_known_new * (others - mean) ** 2).sum(axis=1)
    p_values = np.empty(len(others))
    at_once = max(1, DISTANCES_AT_ONCE // max(m, 1))
    for start in range(0, len(others), at_once):
        part = slice(start, start + at_once)
        scale = weight[part].T
        centred = (weight[part] * mean[part]).T
        of_seen = seen**2 @ scale - 2 * seen @ centred + is_known @ (scale * mean[part].T ** 2)
        as_far = of_seen >= distance[part] * (1 - ROUNDING) - NO_MASS
        p_values[part] = (1 + np.count_nonzero(as_far, axis=0)) / (m + 1)
    return p_values
