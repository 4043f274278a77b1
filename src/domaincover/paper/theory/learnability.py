"""How many new domains miss the target: what linear set predictors do in closed form, and what the theory promises.

The criterion "every label at target" sorts domains into two classes, so the classical bounds for classifiers hold with
domains in place of examples (Tsibulsky, Nevo and Shalit 2025, theorem 3.4). A set predictor is an intersection: on n
domains the subsets that it can be at target on are at most (those of one label)^labels. That replaces the paper's
sum over labels, and saves a factor of about the number of labels in the number of domains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from domaincover.errors import InputError
from domaincover.paper.theory.gaussian import GaussianCells
from domaincover.prediction_sets import check_target_recall

ROUNDING = 1e-12  # a recall is a function of sums, and one at target exactly comes out this far off


def min_recall(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the min recall of linear set predictors in every domain, in closed form.

    `cells` has the Gaussians of each label; weights are (…, labels, features), intercepts (…, labels).
    """
    by_label = [cell.recall(weights[..., y, :], intercepts[..., y]) for y, cell in enumerate(cells)]
    return np.min(by_label, axis=0)


def mean_size(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean set size in every domain where labels are equally frequent, in closed form."""
    held = [[cell.recall(weights[..., y, :], intercepts[..., y]) for y in range(len(cells))] for cell in cells]
    return np.sum(held, axis=(0, 1)) / len(cells)


def share_missing(min_recalls: NDArray[np.float64], target_recall: float) -> NDArray[np.float64]:
    """Return the share of domains (the last axis) whose min recall is below the target."""
    return np.mean(min_recalls < check_target_recall(target_recall) - ROUNDING, axis=-1)


def intercepts_at_target(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], target_recall: float
) -> NDArray[np.float64]:
    """Return the lowest intercepts (the smallest sets) with which every label is at target in all these domains."""
    z = ndtri(check_target_recall(target_recall))
    needed = [
        np.max(z * cell.norm(weights[..., y, :])[..., None] * cell.deviations - weights[..., y, :] @ cell.means.T, -1)
        for y, cell in enumerate(cells)
    ]
    return np.stack(needed, axis=-1)


def uniform_bound(n_domains: int, dimension: int, n_labels: int = 1, delta: float = 0.05) -> float:
    """Bound the gap between the shares of training and of new domains that miss the target, for all predictors at once.

    It holds with probability 1 − δ over the training domains: P(gap ≥ ε) ≤ 4 · growth(2m) · exp(−m ε² / 8) (Anthony and
    Bartlett 1999, theorem 4.3). At most 1, which says nothing.

    >>> uniform_bound(100, dimension=11, n_labels=2), round(uniform_bound(100_000, dimension=11, n_labels=2), 3)
    (1.0, 0.138)
    """
    exponent = math.log(4 / delta) + log_growth(2 * _checked(n_domains, delta), dimension, n_labels)
    return min(1.0, math.sqrt(8 * exponent / n_domains))


def consistent_bound(n_domains: int, dimension: int, n_labels: int = 1, delta: float = 0.05) -> float:
    """Bound the share of new domains that miss the target, for all predictors at target in every training domain.

    That is what the paper's theorem 3.7 is about, and the gap then shrinks with 1/m instead of 1/√m:
    P(share ≥ ε) ≤ 2 · growth(2m) · 2^(−m ε / 2) (Blumer, Ehrenfeucht, Haussler and Warmuth 1989; Devroye, Györfi and
    Lugosi 1996, theorem 12.7).

    >>> round(consistent_bound(1000, dimension=11, n_labels=2), 3)
    0.392
    """
    exponent = math.log(2 / delta) + log_growth(2 * _checked(n_domains, delta), dimension, n_labels)
    return min(1.0, 2 * exponent / (n_domains * math.log(2)))


def log_growth(n_domains: int, dimension: int, n_labels: int = 1) -> float:
    """Return the logarithm of the most subsets of n domains that predictors can be at target on.

    Sauer's lemma (Sauer 1972) for each label, which has the given dimension; the product for all of them, and never
    more than all 2^n subsets.
    """
    if dimension < 1 or n_labels < 1:
        raise InputError(f"dimension and n_labels must be at least 1, got {dimension} and {n_labels}.")
    of_label = math.log(sum(math.comb(n_domains, k) for k in range(dimension + 1)))
    return min(n_labels * of_label, n_domains * math.log(2))


def _checked(n_domains: int, delta: float) -> int:
    if n_domains < 1:
        raise InputError(f"n_domains must be at least 1, got {n_domains}.")
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta:g}.")
    return n_domains
