"""Objectives that compare domains: IRM, VREx, MMD and CORAL.

Each is computed from a complete batch of several domains of any sizes, separately for every replica of a stack. A
domain's risk is the mean cross-entropy of its examples. Gradients are autograd's.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.options import DomainPenalty
from domaincover.training.objectives import Objective, log_softmax

KERNEL_RATES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
SMALLEST_EXPONENT = -115.0  # of 2; smaller kernels are negligible, and subnormal numbers slow
LOG_2 = math.log(2)


class ByDomain(NamedTuple):
    """The examples of a batch by domain; replicas may have different domains, and domains different sizes."""

    member: Tensor  # whether an example is of a domain, (replica, domain, example), as numbers
    n_examples: Tensor  # (replica, domain)
    n_domains: Tensor  # by replica
    shares: Tensor  # weights of the mean over domains, (replica, domain)

    @classmethod
    def of(cls, domains: Tensor) -> ByDomain:
        """Group examples by their domain codes, (replica, example)."""
        ordered, order = domains.sort(dim=1)
        is_next = ordered.diff(dim=1, prepend=ordered[:, :1]) != 0
        place = torch.empty_like(domains).scatter_(1, order, is_next.cumsum(1))
        member = nn.functional.one_hot(place).transpose(1, 2).double()
        n_examples = member.sum(2)
        n_domains = (n_examples > 0).sum(1).double()
        return cls(member, n_examples, n_domains, (n_examples > 0) / n_domains[:, None])

    def means(self, values: Tensor, counted: Tensor | float = 1.0) -> Tensor:
        """Return the mean over each domain's examples of values (replica, example), of those that are counted."""
        weights = self.member * counted
        return (weights @ values.to(weights).unsqueeze(2)).squeeze(2) / weights.sum(2).clamp(min=1)


class Compared(NamedTuple):
    """A batch whose domains are compared, with their risks."""

    by_domain: ByDomain
    risks: Tensor  # (replica, domain)
    scores: Tensor
    labels: Tensor  # (replica, example, 1)
    features: Tensor | None


class DomainObjective(Objective):
    """The mean risk over domains, plus a weighted penalty on differences between domains.

    Before `warmup_steps` the weight is at most 1; at `warmup_steps` it becomes its full value and the optimiser is
    reset. In your own training loop, call `begin_step` before each step.
    """

    usual_weight: ClassVar[float] = 1.0
    usual_warmup: ClassVar[int] = 0

    def __init__(self, weight: float | None = None, warmup_steps: int | None = None) -> None:
        """Initialise the objective, with its usual weight and warm-up if not given."""
        super().__init__()
        weight = self.usual_weight if weight is None else weight
        warmup_steps = self.usual_warmup if warmup_steps is None else warmup_steps
        if not 0 <= weight < math.inf:
            raise InputError(f"weight must be a finite number, 0 or more, got {weight:g}.")
        if warmup_steps < 0 or warmup_steps != int(warmup_steps):
            raise InputError(f"warmup_steps must be a whole number, 0 or more, got {warmup_steps}.")
        self.full_weight, self.warmup_steps = weight, warmup_steps
        self.is_warm = warmup_steps == 0

    def begin_step(self, step: int) -> bool:
        """Set the weight for a step, counted from 0, and return whether the optimiser must be reset before it."""
        self.is_warm = step >= self.warmup_steps
        return step == self.warmup_steps > 0

    @property
    def weight(self) -> float:
        """The penalty's weight at the current step."""
        return self.full_weight if self.is_warm else min(1.0, self.full_weight)

    def forward(self, scores: Tensor, labels: Tensor, domains: Tensor, features: Tensor | None = None) -> Tensor:
        """Return the batch's loss, one for each replica of a stack."""
        if self.needs_features and features is None:
            raise InputError(f"{type(self).__name__} compares features: objective(scores, labels, domains, features).")
        if labels.ndim == 1:
            one = None if features is None else features[None]
            return self(scores[None], labels[None], domains[None], one)[0]
        by_domain, scores, own = ByDomain.of(domains), _precise(scores), labels.unsqueeze(-1)
        risks = by_domain.means(-log_softmax(scores).gather(-1, own).squeeze(-1))
        loss = (by_domain.shares * risks).sum(1)
        if self.full_weight > 0:
            features = None if features is None else _precise(features)
            loss = loss + self.weight * self._penalty(Compared(by_domain, risks, scores, own, features))
        return loss.to(scores)

    def _penalty(self, batch: Compared) -> Tensor:
        """Return the penalty by replica, before its weight."""
        raise NotImplementedError


class IRM(DomainObjective):
    """Invariant risk minimization (Arjovsky et al. 2019): one scale of the scores is optimal in every domain.

    The penalty is the mean over domains of g₁ · g₂, the derivatives at s = 1 of the risk of s · scores on the even and
    the odd examples of a domain. The product of two independent estimates is unbiased, and can be negative.
    """

    usual_weight, usual_warmup = 100.0, 500

    def _penalty(self, batch: Compared) -> Tensor:
        by_domain, scores = batch.by_domain, batch.scores
        # d/ds of −log softmax(s · scores)[label] at s = 1: the expected score minus the label's own
        expected = (scores.softmax(-1) * scores).sum(-1)
        slopes = expected - scores.gather(-1, batch.labels).squeeze(-1)
        rank = (by_domain.member.cumsum(2) * by_domain.member).sum(1, keepdim=True) - 1  # in its domain
        is_odd = rank % 2
        return (by_domain.shares * by_domain.means(slopes, 1 - is_odd) * by_domain.means(slopes, is_odd)).sum(1)


class VREx(DomainObjective):
    """Risk extrapolation (Krueger et al. 2021): the penalty is the population variance of the domains' risks."""

    usual_weight, usual_warmup = 10.0, 500

    def _penalty(self, batch: Compared) -> Tensor:
        shares, risks = batch.by_domain.shares, batch.risks
        return (shares * (risks - (shares * risks).sum(1, keepdim=True)) ** 2).sum(1)


class MMD(DomainObjective):
    """Maximum mean discrepancy of features (Li et al. 2018), averaged over pairs of domains.

    For a pair: mean K(a, a) + mean K(b, b) − 2 mean K(a, b), where K is the sum of seven Gaussian kernels
    exp(−rate · squared distance).
    """

    needs_features = True

    def _penalty(self, batch: Compared) -> Tensor:
        by_domain, features = batch.by_domain, cast(Tensor, batch.features)
        # Centred, since squared distances are computed as differences of squares, which lose precision far from 0.
        rows = features - features.mean(1, keepdim=True).detach()
        squares, itself = rows.square().sum(2), torch.eye(rows.shape[1], dtype=torch.bool, device=rows.device)
        distances = torch.baddbmm(squares[:, :, None] + squares[:, None], rows, rows.transpose(1, 2), alpha=-2)
        distances = distances.clamp(min=0).masked_fill(itself, 0)
        # Powers of e take several times as long as powers of 2.
        kernels = [(-rate / LOG_2 * distances).clamp(min=SMALLEST_EXPONENT).exp2() for rate in KERNEL_RATES]
        averages = (by_domain.member / by_domain.n_examples.clamp(min=1)[:, :, None]).to(rows)
        means = averages @ sum(kernels, rows.new_zeros(())) @ averages.transpose(1, 2)  # (replica, domain, domain)
        n, own = by_domain.n_domains[:, None, None], torch.eye(means.shape[1]).to(rows)
        # A domain is in n − 1 of the n (n − 1) / 2 pairs.
        weights = (own * (2 / n) - (1 - own) * 2 / (n * (n - 1)).clamp(min=1)) * (n > 1)
        return (weights * means).sum((1, 2))


class CORAL(DomainObjective):
    """Correlation alignment (Sun and Saenko 2016) of feature means and covariances, averaged over pairs of domains.

    Squared differences are averaged over coordinates, and over the entries of covariances.
    """

    needs_features = True

    def _penalty(self, batch: Compared) -> Tensor:
        by_domain, features = batch.by_domain, cast(Tensor, batch.features)
        member, n_examples = by_domain.member.to(features), by_domain.n_examples.to(features)[:, :, None]
        means = member @ features / n_examples.clamp(min=1)
        centred = features - member.transpose(1, 2) @ means
        # A domain with one example has a mean but no covariance.
        products = torch.einsum("rdn,rnf,rng->rdfg", member, centred, centred)
        covariances = products / (n_examples[..., None] - 1).clamp(min=1)
        return _mean_of_pairs(by_domain, means) + _mean_of_pairs(by_domain, covariances.flatten(2))


def _mean_of_pairs(by_domain: ByDomain, moments: Tensor) -> Tensor:
    """Return the mean squared difference of two domains, over pairs and entries: twice the sample variance."""
    shares, n = by_domain.shares.to(moments)[:, :, None], by_domain.n_domains
    squares = (moments - (shares * moments).sum(1, keepdim=True)) ** 2
    return (shares * squares).mean(2).sum(1) * (2 * n / (n - 1).clamp(min=1))


PENALTIES: dict[str, type[DomainObjective]] = {"irm": IRM, "vrex": VREx, "mmd": MMD, "coral": CORAL}


def domain_objective(
    name: DomainPenalty, weight: float | None = None, warmup_steps: int | None = None, n_steps: int | None = None
) -> DomainObjective:
    """Return an objective by name, with its default weight and warm-up if not given.

    The default warm-up is at most a quarter of the training's `n_steps`.
    """
    kind = PENALTIES[name]
    if warmup_steps is None and n_steps is not None:
        warmup_steps = min(kind.usual_warmup, n_steps // 4)
    return kind(weight, warmup_steps)


def _precise(outputs: Tensor) -> Tensor:
    """Return outputs in at least single precision."""
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32))
