"""Bounds on the share of new domains that miss the target, whatever the predictor and the distribution of domains.

"Every label is at target in this domain" is a family of events over domains, one event for each set predictor, so the
bounds for classifiers hold with domains in place of examples (Tsibulsky, Nevo and Shalit 2025, theorem 3.4). With D the
VC dimension of one label's events (features + 1 for linear scorers in conditionally Gaussian domains) and L labels:

- Growth. Such an event is the intersection of one event of each label, so the number of subsets of n domains is at most
  the product over labels: Π(n) ≤ min(2ⁿ, (Σ_{k ≤ D} C(n, k))^L), the sum by Sauer (1972). The paper splits ε and δ
  among the labels instead, which is never tighter (docs/theory.md has the derivation).
- `uniform`, for all predictors at once: P(|share of new domains − share of training domains| ≥ ε for some predictor) ≤
  4·Π(2m)·exp(−m·ε²/8) (Vapnik and Chervonenkis 1971; Anthony and Bartlett 1999, theorem 4.3).
- `no_failure`, for predictors at target in every training domain, as in the paper's theorem 3.7:
  P(share of new domains that miss ≥ ε for some such predictor) ≤ 2·Π(2m)·2^(−m·ε/2) (Blumer, Ehrenfeucht,
  Haussler and Warmuth 1989; Devroye, Györfi and Lugosi 1996, theorem 12.7).
"""

from __future__ import annotations

import math

import numpy as np

from domaincover.errors import InputError


def log_growth(n: int, dimension: int, n_labels: int = 1) -> float:
    """Return the logarithm of a bound on the number of subsets of n domains that set predictors can be at target in.

    >>> log_growth(5, dimension=5) == 5 * math.log(2)
    True
    >>> round(math.exp(log_growth(10, dimension=2)))  # 1 + 10 + 45, as many as intervals cut out of ten points
    56
    """
    if dimension < 1 or n_labels < 1:
        raise InputError(f"dimension and n_labels must be at least 1, got {dimension} and {n_labels}.")
    every_subset = n * math.log(2)
    if n <= dimension:
        return every_subset
    k = np.arange(1, dimension + 1)
    log_binomials = np.cumsum(np.log((n - k + 1) / k))
    of_label = float(np.logaddexp.reduce(log_binomials, initial=0.0))  # 0.0: the empty subset, k = 0
    return min(n_labels * of_label, every_subset)


def uniform_bound(n_domains: int, dimension: int, n_labels: int = 1, delta: float = 0.05) -> float:
    """Bound the gap between the shares of training and of new domains that miss the target, for all predictors at once.

    It holds with probability 1 − δ over the training domains. At most 1, which says nothing.

    >>> uniform_bound(100, dimension=11, n_labels=2), round(uniform_bound(10_000, dimension=11, n_labels=2), 3)
    (1.0, 0.387)
    """
    exponent = math.log(4 / delta) + log_growth(2 * _checked(n_domains, delta), dimension, n_labels)
    return min(1.0, math.sqrt(8 * exponent / n_domains))


def no_failure_bound(n_domains: int, dimension: int, n_labels: int = 1, delta: float = 0.05) -> float:
    """Bound the share of new domains that miss the target, for all predictors at target in every training domain.

    It holds with probability 1 − δ over the training domains. At most 1, which says nothing.

    >>> round(no_failure_bound(1000, dimension=11, n_labels=2), 3)
    0.392
    """
    exponent = math.log(2 / delta) + log_growth(2 * _checked(n_domains, delta), dimension, n_labels)
    return min(1.0, 2 * exponent / (n_domains * math.log(2)))


def _checked(n_domains: int, delta: float) -> int:
    if n_domains < 1:
        raise InputError(f"n_domains must be at least 1, got {n_domains}.")
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta:g}.")
    return n_domains
