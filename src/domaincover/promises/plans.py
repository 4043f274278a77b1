"""Number of domains that a promise needs, by calibration and by a certificate, and which one is within reach.

The promise is that a new domain misses the target with probability at most ε; it holds with probability 1 − δ over the
available domains.

**Calibration** on m held-out domains with the k-th smallest domain threshold: the next domain is at target with
probability (m + 1 − k) / (m + 1) on average over calibration domains, and the probability given the calibration domains
is Beta(m + 1 − k, k) distributed (or larger, with ties), which is below 1 − ε with probability P(Binomial(m, ε) < k).
A domain confidence of c takes k = ⌊(1 − c)(m + 1)⌋: for certainty it has to lie above 1 − ε.

**A certificate** of m other domains with k − 1 misses has a lower bound of 1 − ε or more under the same condition,
P(Binomial(m, ε) < k) ≤ δ, since the Clopper-Pearson bound inverts the same probability.

What theorems promise without keeping a domain out takes thousands of domains: docs/theory.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.rules import confidence_text, domains_needed, highest_confidence, order_ranks
from domaincover.criteria import check_share, check_target_recall
from domaincover.data.dataset import n_held_out
from domaincover.errors import InputError
from domaincover.promises.certificate_text import percent, probability
from domaincover.terminal.text import counted, wrapped

MOST_SPARED = 5
ASKED = "--domain-confidence"
MOST = 10**9
LEAST_SHARE = 1e-9  # below, sizes exceed float precision


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
    1 − δ, which is also the lower bound of a certificate if all of them are at target.
    """

    n_domains: int
    marginal_confidence: float
    domain_confidence: float
    conditional_confidence: float


@dataclass(frozen=True)
class DomainPlan:
    """Numbers of domains that calibration and a certificate need, and of examples per cell; see `plan_domains`."""

    epsilon: float
    delta: float
    target_recall: float
    n_domains_marginal: int
    calibration: tuple[SparedSizes, ...]
    n_examples_to_show: int
    with_domains: WithDomains | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for strict JSON."""
        return asdict(self)

    def text(self, width: int = 100) -> str:
        """Return the plan in sentences, no line longer than the width."""
        certain, asked = percent(1 - self.delta), f"{ASKED} {1 - self.epsilon:g}"
        first, *others = self.calibration
        by_size = [
            f"{100 * certainty(m, self.epsilon):.0f} % with {m:,} domains"
            for m in (self.n_domains_marginal, first.n_domains)
        ]
        parts = [
            [
                f"The aim: at most {percent(self.epsilon)} of new domains miss the target. At target means that every "
                f"label is caught at least {percent(self.target_recall)} of the time. The promise may fail, by an "
                f"unlucky draw of the domains at hand, with a probability of at most {percent(self.delta)}. Domains "
                "are counted as new ones will come: years of one hospital are one domain where hospitals are new."
            ],
            [
                "1. Calibrate on domains kept out of training. Any model, any number of features.",
                f"- {self.n_domains_marginal:,} domains if it is enough that the promise holds on average over draws "
                f"({asked}): as many lowest thresholds are passed over as the average allows, so the certainty is "
                f"{' and '.join(by_size)};",
                f"- {first.n_domains:,} domains and {ASKED} {first.domain_confidence:g} for {certain} certainty; or "
                "more, with lowest thresholds passed over, so that sets get smaller: "
                + ", ".join(f"{size.n_spared} of {size.n_domains:,} ({size.domain_confidence:g})" for size in others)
                + ";",
                "- what 100 labels of a new domain teach is calibrated where most domains have 200 rows or more.",
            ],
            [
                "2. Show it afterwards, by a certificate from other domains that the model has not seen.",
                f"- {first.n_domains:,} domains if none of them misses the target; or "
                + ", ".join(f"{size.n_spared} of {size.n_domains:,}" for size in others)
                + " may miss;",
                f"- {self.n_examples_to_show:,} examples of each label in each of them, at least: fewer cannot show a "
                f"true recall of {percent(self.target_recall)}, even if all are caught.",
            ],
        ]
        if (allowed := self.with_domains) is not None:
            most = "of new domains at target is the most that"
            parts.append(
                [
                    f"With {counted(allowed.n_domains, 'domain')}:",
                    f"- {probability(allowed.marginal_confidence)} {most} calibration on them can promise on average;",
                    f"- {probability(allowed.conditional_confidence)} {most} it can promise with {certain} certainty "
                    f"({ASKED} {allowed.domain_confidence:g}), and what a certificate shows if none of them misses.",
                ]
            )
        lines = [[line for words in part for line in wrapped(words, width, then="  ")] for part in parts]
        return "\n\n".join("\n".join(part) for part in lines)

    def __str__(self) -> str:
        return self.text()


class Reach(NamedTuple):
    """The domains that calibrate a promise: all but those held out to evaluate and those kept to train on."""

    n_domains: int
    hold_out_domains: float = 0.0
    n_to_train: int = 0

    @property
    def n_evaluate(self) -> int:
        """How many domains are held out to evaluate."""
        return n_held_out(self.n_domains, self.hold_out_domains) if self.hold_out_domains > 0 else 0

    @property
    def n_left(self) -> int:
        """How many domains calibrate."""
        return self.n_domains - self.n_evaluate - self.n_to_train

    @property
    def highest(self) -> str:
        """The highest confidence that they allow."""
        return confidence_text(self.n_left)

    def allows(self, confidence: float) -> bool:
        """Return whether a promise with this confidence is within reach."""
        return self.n_left >= domains_needed(confidence)


def domains_with_enough(counts: NDArray[Any], min_cell_size: int) -> NDArray[np.int64]:
    """Return in how many domains each label counts; `counts` are rows, domains × labels."""
    return (np.asarray(counts) >= min_cell_size).sum(axis=0)


def plan_domains(
    *, epsilon: float = 0.1, delta: float = 0.05, target_recall: float = 0.9, n_domains: int | None = None
) -> DomainPlan:
    """Compute the number of domains needed so that at most a share ε of new domains misses the target.

    The promise holds with probability 1 − δ over the available domains, for any model. With `n_domains`, the plan
    includes what that many domains allow.

    >>> plan = plan_domains(epsilon=0.1, delta=0.05)
    >>> plan.n_domains_marginal, plan.calibration[0].n_domains
    (9, 29)
    """
    _check_small(epsilon, "epsilon, the share of new domains that may miss,")
    _check_small(delta, "delta, the probability that the promise fails,")
    check_target_recall(target_recall)
    return DomainPlan(
        epsilon=float(epsilon),
        delta=float(delta),
        target_recall=float(target_recall),
        n_domains_marginal=domains_needed(1 - epsilon),  # with fewer, only a threshold of −∞ keeps the promise
        calibration=tuple(_spared_sizes(n_spared, epsilon, delta) for n_spared in range(MOST_SPARED + 1)),
        n_examples_to_show=conditional_size(1 - target_recall, delta),
        with_domains=None if n_domains is None else _with_domains(n_domains, delta),
    )


def conditional_size(epsilon: float, delta: float, n_spared: int = 0) -> int:
    """Return the smallest m with P(Binomial(m, ε) ≤ n_spared) ≤ δ.

    With none spared it is also how many examples, all caught, show a recall of 1 − ε at a row error of δ.
    """
    from scipy.special import bdtr  # a third of the time of `plan`

    low, high = n_spared, n_spared + 1
    while bdtr(n_spared, high, epsilon) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bdtr(n_spared, middle, epsilon) > delta else (low, middle)
    return high


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


def _spared_sizes(n_spared: int, epsilon: float, delta: float) -> SparedSizes:
    m = conditional_size(epsilon, delta, n_spared)
    return SparedSizes(n_spared, m, confidence_to_ask(m, n_spared), (m - n_spared) / (m + 1))


def _with_domains(m: Any, delta: float) -> WithDomains:
    if type(m) is bool or not isinstance(m, int | np.integer) or not 1 <= m <= MOST:
        raise InputError(f"the number of domains must be a whole number from 1 to {MOST:,}, got {m}.")
    m = int(m)
    return WithDomains(
        n_domains=m,
        marginal_confidence=highest_confidence(m),
        domain_confidence=confidence_to_ask(m, 0),
        conditional_confidence=delta ** (1 / m),
    )


def _check_small(value: float, what: str) -> None:
    check_share(value, what)
    if value < LEAST_SHARE:
        raise InputError(f"{what} must be at least {LEAST_SHARE:g}, got {value:g}.")
