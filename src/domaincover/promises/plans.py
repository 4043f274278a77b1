"""Number of domains that a promise needs: by theorems, by calibration, and by a certificate.

The promise is that a new domain misses the target with probability at most ε; it holds with probability 1 − δ over the
available domains.

**Learning** from all domains, none of them held out: the bounds of `learning_bounds`, `no_failure` and `uniform`. Where
recall is counted on finitely many examples, the domains are given δ/2 and every cell δ/(2·m·labels); the promise is
then about the target less a slack, by the uniform bound for one label within each cell (the paper's appendix on sample
sizes).

**Calibration** on m held-out domains with the k-th smallest domain threshold: the next domain is at target with
probability (m + 1 − k) / (m + 1) on average over calibration domains, and the probability given the calibration domains
is Beta(m + 1 − k, k) distributed (or larger, with ties), which is below 1 − ε with probability P(Binomial(m, ε) < k).
A domain confidence of c takes k = ⌊(1 − c)(m + 1)⌋: for certainty it has to lie above 1 − ε.

**A certificate** of m other domains with k − 1 misses has a lower bound of 1 − ε or more under the same condition,
P(Binomial(m, ε) < k) ≤ δ, since the Clopper-Pearson bound inverts the same probability.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from domaincover.calibration.confidence import domains_needed, order_ranks
from domaincover.errors import InputError
from domaincover.prediction_sets import check_share, check_target_recall
from domaincover.promises.learning_bounds import (
    no_failure_bound,
    no_failure_size,
    smallest,
    uniform_bound,
    uniform_size,
)

MOST_SPARED = 5
MOST = 10**9
LEAST_SHARE = 1e-9  # below, sizes exceed float precision


@dataclass(frozen=True)
class LearningSizes:
    """Sizes by a theorem: domains if recall is known exactly, and domains and examples per cell if it is estimated."""

    n_domains: int
    n_domains_finite: int
    n_examples_per_cell: int


@dataclass(frozen=True)
class SparedSizes:
    """Domains needed if the `n_spared` lowest thresholds are skipped, or that many domains may miss.

    `domain_confidence` is what calibration has to be asked for to skip no more. `mean_confidence` is the probability
    that the next domain is at target, averaged over calibration draws: the closer to 1 − ε, the smaller the sets.
    """

    n_spared: int
    n_domains: int
    domain_confidence: float
    mean_confidence: float


@dataclass(frozen=True)
class WithDomains:
    """What a given number of domains allows.

    The confidence that calibration can promise on average and, if asked for `domain_confidence`, with probability
    1 − δ, the lower bound of a certificate if all of them are at target (the same number), and the ε of the theorems,
    None where it is not below 1.
    """

    n_domains: int
    marginal_confidence: float
    domain_confidence: float
    conditional_confidence: float
    epsilon_uniform: float | None
    epsilon_no_failure: float | None


@dataclass(frozen=True)
class DomainPlan:
    """Numbers of domains and of examples per cell that each route needs; see `plan_domains`.

    `uniform` and `no_failure`, by the theorems, are None where neither features nor a VC dimension were given.
    """

    n_labels: int
    n_features: int | None
    vc_dimension: int | None
    epsilon: float
    delta: float
    target_recall: float
    recall_slack: float
    uniform: LearningSizes | None
    no_failure: LearningSizes | None
    n_domains_marginal: int
    calibration: tuple[SparedSizes, ...]
    n_examples_to_show: int
    with_domains: WithDomains | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for strict JSON."""
        return asdict(self)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def text(self, width: int = 100) -> str:
        """Return the plan in sentences, no line longer than the width."""
        from domaincover.promises.plan_text import plan_text

        return plan_text(self, width)

    def __str__(self) -> str:
        return self.text()


def plan_domains(
    n_labels: int,
    n_features: int | None = None,
    *,
    vc_dimension: int | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    target_recall: float = 0.9,
    recall_slack: float = 0.05,
    n_domains: int | None = None,
) -> DomainPlan:
    """Compute the number of domains needed so that at most a share ε of new domains misses the target.

    The promise holds with probability 1 − δ over the available domains. Only the theorems need to know the scorers:
    `n_features` for linear ones, or the VC dimension of each label's scorers, over domains and over examples, or with
    `n_labels=1` that of the set predictors. With `n_domains`, the plan includes what that many domains allow.

    >>> plan = plan_domains(n_labels=3, n_features=50)
    >>> plan.n_domains_marginal, plan.calibration[0].n_domains, plan.no_failure.n_domains > 10_000
    (9, 29, True)
    """
    _check_whole(n_labels, "the number of labels")
    dimension = _dimension(n_features, vc_dimension)
    _check_small(epsilon, "epsilon, the share of new domains that may miss,")
    _check_small(delta, "delta, the probability that the promise fails,")
    _check_small(recall_slack, "the recall slack")
    check_target_recall(target_recall)
    if n_domains is not None:
        _check_whole(n_domains, "the number of domains")
    wanted = (epsilon, delta, recall_slack)
    return DomainPlan(
        n_labels=int(n_labels),
        n_features=None if n_features is None else int(n_features),
        vc_dimension=dimension,
        epsilon=float(epsilon),
        delta=float(delta),
        target_recall=float(target_recall),
        recall_slack=float(recall_slack),
        uniform=None if dimension is None else _learning_sizes(uniform_size, n_labels, dimension, *wanted),
        no_failure=None if dimension is None else _learning_sizes(no_failure_size, n_labels, dimension, *wanted),
        n_domains_marginal=marginal_size(epsilon),
        calibration=tuple(_spared_sizes(n_spared, epsilon, delta) for n_spared in range(MOST_SPARED + 1)),
        n_examples_to_show=all_caught_size(target_recall, delta),
        with_domains=None if n_domains is None else _with_domains(n_domains, n_labels, dimension, delta),
    )


def marginal_size(epsilon: float) -> int:
    """Return the smallest m with 1 − ε ≤ m / (m + 1): with fewer domains, only a threshold of −∞ keeps the promise.

    >>> marginal_size(0.1), marginal_size(0.05), marginal_size(0.3)
    (9, 19, 3)
    """
    return domains_needed(1 - epsilon)


def conditional_size(epsilon: float, delta: float, n_spared: int = 0) -> int:
    """Return the smallest m with P(Binomial(m, ε) ≤ n_spared) ≤ δ."""
    if n_spared == 0:
        return all_caught_size(1 - epsilon, delta)
    from scipy.special import bdtr  # a third of the time of `plan` and `check`

    return smallest(lambda m: m > n_spared and bool(bdtr(n_spared, m, epsilon) <= delta))


def certainty(n_domains: int, epsilon: float) -> float:
    """Return how surely at most a share ε of new domains misses where a domain confidence of 1 − ε is asked for.

    >>> [round(certainty(m, 0.1), 2) for m in (8, 9, 29)]
    [1.0, 0.61, 0.57]
    """
    from scipy.special import bdtr

    rank = int(order_ranks(n_domains, 1 - epsilon))
    return 1 - float(bdtr(rank - 1, n_domains, epsilon)) if rank else 1.0  # every label is in every set


def confidence_to_ask(n_domains: int, n_spared: int) -> float:
    """Return the domain confidence, in few digits, at which calibration skips just so many domains.

    >>> confidence_to_ask(9, 0), confidence_to_ask(29, 0), confidence_to_ask(46, 1)
    (0.9, 0.96, 0.95)
    """
    asked, digits = 0.0, 0
    while order_ranks(n_domains, asked) != n_spared + 1:
        digits += 1
        asked = (n_domains - n_spared) * 10**digits // (n_domains + 1) / 10**digits
    return asked


def all_caught_size(target_recall: float, row_error: float) -> int:
    """Return the smallest n for which n examples, all caught, show that a recall is at target: target^n ≤ row error."""
    return smallest(lambda n: target_recall**n <= row_error)


def _learning_sizes(
    size: Callable[[int, float, float, int], int],
    n_labels: int,
    dimension: int,
    epsilon: float,
    delta: float,
    slack: float,
) -> LearningSizes:
    n_finite = size(dimension, epsilon, delta / 2, n_labels)
    return LearningSizes(
        n_domains=size(dimension, epsilon, delta, n_labels),
        n_domains_finite=n_finite,
        n_examples_per_cell=uniform_size(dimension, slack, delta / (2 * n_finite * n_labels)),
    )


def _spared_sizes(n_spared: int, epsilon: float, delta: float) -> SparedSizes:
    m = conditional_size(epsilon, delta, n_spared)
    return SparedSizes(n_spared, m, confidence_to_ask(m, n_spared), (m - n_spared) / (m + 1))


def _with_domains(m: int, n_labels: int, dimension: int | None, delta: float) -> WithDomains:
    bounds = (uniform_bound, no_failure_bound)
    uniform, no_failure = (1.0 if dimension is None else bound(m, dimension, n_labels, delta) for bound in bounds)
    return WithDomains(
        n_domains=m,
        marginal_confidence=m / (m + 1),
        domain_confidence=confidence_to_ask(m, 0),
        conditional_confidence=delta ** (1 / m),
        epsilon_uniform=uniform if uniform < 1 else None,
        epsilon_no_failure=no_failure if no_failure < 1 else None,
    )


def _dimension(n_features: int | None, vc_dimension: int | None) -> int | None:
    """Return the VC dimension of scorers; None where nothing is known of them."""
    if n_features is not None and vc_dimension is not None:
        raise InputError("give either the number of features, for linear scorers, or the VC dimension of the scorers.")
    if n_features is not None:
        return _check_whole(n_features, "the number of features") + 1
    return None if vc_dimension is None else _check_whole(vc_dimension, "the VC dimension")


def _check_whole(value: Any, what: str) -> int:
    if type(value) is bool or not isinstance(value, int | np.integer) or not 1 <= value <= MOST:
        raise InputError(f"{what} must be a whole number from 1 to {MOST:,}, got {value}.")
    return int(value)


def _check_small(value: float, what: str) -> None:
    check_share(value, what)
    if value < LEAST_SHARE:
        raise InputError(f"{what} must be at least {LEAST_SHARE:g}, got {value:g}.")
