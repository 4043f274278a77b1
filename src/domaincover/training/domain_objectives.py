"""Objectives that compare domains: IRM, VREx, MMD, CORAL, Group DRO and QRM.

Each is computed from a complete batch of several domains of any sizes, separately for every replica of a stack. A
domain's risk is the mean cross-entropy of its examples. Gradients are written out rather than left to autograd, whose
overhead on a few domains would exceed a small network's training time. Computations on domains use NumPy, whose calls
cost a fraction of torch's on so few numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

from domaincover.errors import InputError
from domaincover.options import DomainPenalty
from domaincover.prediction_sets import check_share
from domaincover.training.domain_batches import ByDomain
from domaincover.training.feature_differences import discrepancy, moment_differences
from domaincover.training.objectives import Objective, log_softmax

N_CELLS, ROOT = 32, math.sqrt(2 * math.pi)
Numbers = NDArray[np.float64]


class Compared(NamedTuple):
    """A batch with its probabilities and the risks of its domains."""

    by_domain: ByDomain
    scores: Tensor
    labels: Tensor  # (replica, example, 1)
    probabilities: Tensor
    risks: Numbers  # (replica, domain)

    def slope_of_losses(self, weights: Numbers) -> Tensor:
        """Return the gradient with respect to the scores of Σ weight · cross-entropy, for weights of examples."""
        own = torch.from_numpy(weights).to(self.scores).unsqueeze(-1)
        return (self.probabilities * own).scatter_add_(-1, self.labels, -own)


class DomainObjective(Objective):
    """The mean risk over domains, plus a weighted penalty on differences between domains.

    Before `warmup_steps` the weight is at most 1; at `warmup_steps` it becomes its full value and the optimiser is
    reset. In your own training loop, call `begin_step` before each step.
    """

    _of_features: Callable[[ByDomain, Tensor], tuple[Tensor, Tensor]]  # the penalty by replica, and its gradient

    def __init__(self, weight: float, warmup_steps: int) -> None:
        """Initialise the objective."""
        super().__init__()
        if not 0 <= weight < math.inf:
            raise InputError(f"weight must be a finite number, 0 or more, got {weight:g}.")
        if warmup_steps < 0 or warmup_steps != int(warmup_steps):
            raise InputError(f"warmup_steps must be a whole number, 0 or more, got {warmup_steps}.")
        self.full_weight, self.warmup_steps = weight, warmup_steps
        self.in_turns: int | None = None  # number of domains, if they are known to alternate in every batch
        self.is_warm = warmup_steps == 0

    def begin_step(self, step: int) -> bool:
        """Set the weight for a step, counted from 0, and return whether the optimiser must be reset before it."""
        if self.is_warm != (step >= self.warmup_steps):  # torch's modules are slow to set attributes
            self.is_warm = not self.is_warm
        return step == self.warmup_steps > 0

    @property
    def weight(self) -> float:
        """The penalty's weight at the current step."""
        return self.full_weight if self.is_warm else min(1.0, self.full_weight)

    def forward(self, scores: Tensor, labels: Tensor, domains: Tensor, features: Tensor | None = None) -> Tensor:
        """Return the batch's loss, one for each replica of a stack."""
        if labels.ndim == 1:
            one = None if features is None else features[None]
            return self(scores[None], labels[None], domains[None], one)[0]
        return super().forward(scores, labels, domains, features)

    @torch.no_grad()
    def value_and_slopes(
        self, scores: Tensor, labels: Tensor, domains: Tensor, features: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the loss of each replica, and its gradients with respect to scores and, if needed, features."""
        batch = _compared(_precise(scores), labels, ByDomain(domains.cpu().numpy(), self.in_turns))
        value, slope = self._of_scores(batch)
        slope = slope.to(scores.dtype)
        if not self.needs_features:
            return value, [slope]
        if features is None:
            raise InputError(f"{type(self).__name__} compares features: objective(scores, labels, domains, features).")
        penalty, by_features = self._of_features(batch.by_domain, _precise(features))
        return torch.add(value, penalty, alpha=self.weight), [slope, (by_features * self.weight).to(features.dtype)]

    def _of_scores(self, batch: Compared) -> tuple[Tensor, Tensor]:
        """Return the loss without the penalty on features, by replica, and its gradient."""
        value, by_risk = self._of_risks(batch.by_domain, batch.risks)
        weights = batch.by_domain.spread(by_risk * batch.by_domain.counts.per_example)
        return torch.from_numpy(value).to(batch.scores), batch.slope_of_losses(weights)

    def _of_risks(self, by_domain: ByDomain, risks: Numbers) -> tuple[Numbers, Numbers]:
        """Return the mean over domains, by replica, and its gradient with respect to the risks."""
        slope = by_domain.counts.per_domain
        return (slope * risks).sum(1), slope


class IRM(DomainObjective):
    """Invariant risk minimization (Arjovsky et al. 2019): one scale of the scores is optimal in every domain.

    The penalty is the mean over domains of g₁ · g₂, the derivatives at s = 1 of the risk of s · scores on the even and
    the odd examples of a domain. The product of two independent estimates is unbiased, and can be negative.
    """

    def __init__(self, weight: float = 100.0, warmup_steps: int = 500) -> None:
        super().__init__(weight, warmup_steps)

    def _of_scores(self, batch: Compared) -> tuple[Tensor, Tensor]:
        by_domain, scores, p = batch.by_domain, batch.scores, batch.probabilities
        # d/ds of −log softmax(s · scores)[label] at s = 1: the expected score minus the label's own
        expected = (p * scores).sum(-1, keepdim=True)
        slopes = (expected - scores.gather(-1, batch.labels)).squeeze(-1)
        g = by_domain.mean_of_halves(slopes.cpu().numpy())
        value, share = self._of_risks(by_domain, batch.risks)
        pull = by_domain.spread_halves(self.weight * share[:, None] * g[:, ::-1] * by_domain.counts.per_half)
        weights = by_domain.spread(share * by_domain.counts.per_example)
        by_pull = torch.from_numpy(pull).to(scores).unsqueeze(-1) * (scores - expected) * p
        total = torch.from_numpy(value + self.weight * (share * g[:, 0] * g[:, 1]).sum(1)).to(scores)
        return total, batch.slope_of_losses(weights + pull) + by_pull


class VREx(DomainObjective):
    """Risk extrapolation (Krueger et al. 2021): the penalty is the population variance of the domains' risks."""

    def __init__(self, weight: float = 10.0, warmup_steps: int = 500) -> None:
        super().__init__(weight, warmup_steps)

    def _of_risks(self, by_domain: ByDomain, risks: Numbers) -> tuple[Numbers, Numbers]:
        mean, share = super()._of_risks(by_domain, risks)
        deviations = risks - mean[:, None]
        return mean + self.weight * (share * deviations**2).sum(1), share * (1 + 2 * self.weight * deviations)


class MMD(DomainObjective):
    """Maximum mean discrepancy of features (Li et al. 2018), averaged over pairs of domains.

    For a pair: mean K(a, a) + mean K(b, b) − 2 mean K(a, b), where K is the sum of seven Gaussian kernels.
    """

    needs_features = True
    _of_features = staticmethod(discrepancy)

    def __init__(self, weight: float = 1.0, warmup_steps: int = 0) -> None:
        super().__init__(weight, warmup_steps)


class CORAL(DomainObjective):
    """Correlation alignment (Sun and Saenko 2016) of feature means and covariances, averaged over pairs of domains.

    Squared differences are averaged over coordinates, and over the entries of covariances.
    """

    needs_features = True
    _of_features = staticmethod(moment_differences)

    def __init__(self, weight: float = 1.0, warmup_steps: int = 0) -> None:
        super().__init__(weight, warmup_steps)


class GroupDRO(DomainObjective):
    """Group distributionally robust optimisation (Sagawa et al. 2020): risks weighted towards the worst domains.

    Each step multiplies the weight of every domain in the batch by exp(rate · risk). `present` marks the domain codes
    that occur in training, for each replica of a stack. The loss Σ weight · risk over all domains is estimated from
    those in the batch, scaled by domains / domains in the batch.
    """

    domain_weights: Tensor

    def __init__(self, present: Tensor, rate: float = 0.01) -> None:
        super().__init__(0.0, 0)
        if not (rate > 0 and math.isfinite(rate)):
            raise InputError(f"rate must be above 0, got {rate:g}.")
        self.rate, there = rate, torch.atleast_2d(present).double()
        if not ((there == 0) | (there == 1)).all():
            raise InputError("present must contain only True or False, one per domain code.")
        self.n_domains = there.sum(1).numpy()
        self.register_buffer("domain_weights", there / there.sum(1, keepdim=True))

    def _of_risks(self, by_domain: ByDomain, risks: Numbers) -> tuple[Numbers, Numbers]:
        weights, codes = self.domain_weights.cpu().double().numpy(), (np.arange(len(risks))[:, None], by_domain.codes)
        if self.training:
            growth = np.zeros_like(weights)
            np.add.at(growth, codes, self.rate * risks * (by_domain.counts.n_examples > 0))
            weights = weights * np.exp(growth - growth.max(1, keepdims=True))  # cancels in the normalisation
            weights /= weights.sum(1, keepdims=True)
            self.domain_weights.copy_(torch.from_numpy(weights))
        slope = weights[codes] * by_domain.counts.per_domain * self.n_domains[:, None]
        return (slope * risks).sum(1), slope


class QRM(DomainObjective):
    """Quantile risk minimization (Eastwood et al. 2022): a quantile of the risks of domains.

    The distribution of risks is estimated from the domains of a batch by Gaussian kernels with the normal reference
    bandwidth, 1.06 · deviation · n^(−1/5). Before `warmup_steps` the loss is the mean risk.
    """

    def __init__(self, quantile: float = 0.75, warmup_steps: int = 500) -> None:
        super().__init__(0.0, warmup_steps)
        check_share(quantile, "quantile")
        self.quantile = quantile

    def _of_risks(self, by_domain: ByDomain, risks: Numbers) -> tuple[Numbers, Numbers]:
        mean, share = super()._of_risks(by_domain, risks)
        if not self.is_warm:
            return mean, share
        n, there = by_domain.counts.n_domains, share > 0
        deviations, n_free = (risks - mean[:, None]) * there, np.maximum(n - 1, 1)
        # The small constant keeps the gradient finite if all risks are equal.
        spread, factor = np.sqrt((deviations**2).sum(1) / n_free + 1e-12), 1.06 * n**-0.2
        value, distances, nearness = _kernel_quantile(risks, factor * spread, self.quantile, share)
        by_width = (nearness * distances).sum(1) * factor / (n_free * spread)
        return value, nearness + by_width[:, None] * deviations


WITH_A_WEIGHT: dict[str, Callable[..., DomainObjective]] = {"irm": IRM, "vrex": VREx, "mmd": MMD, "coral": CORAL}


def domain_objective(
    name: DomainPenalty,
    present: Tensor,
    *,
    weight: float | None = None,
    warmup_steps: int | None = None,
    rate: float = 0.01,
    quantile: float = 0.75,
    n_steps: int | None = None,
) -> DomainObjective:
    """Return an objective by name, with its default weight and warm-up if not given.

    `present` marks the domains that each replica of a stack is trained on, (replica, domain code). The default warm-up
    is at most a quarter of the training's `n_steps`.
    """
    warmup = 500 if name in ("irm", "vrex", "qrm") else 0
    if n_steps is not None:
        warmup = min(warmup, n_steps // 4)
    warmup = warmup if warmup_steps is None else warmup_steps
    if weight is not None and name not in WITH_A_WEIGHT:
        raise InputError(f"{name} has no weight; set its {'rate' if name == 'group-dro' else 'quantile'} instead.")
    if name == "group-dro":
        return GroupDRO(present, rate)
    if name == "qrm":
        return QRM(quantile, warmup)
    given = {} if weight is None else {"weight": weight}
    return WITH_A_WEIGHT[name](**given, warmup_steps=warmup)


def _precise(outputs: Tensor) -> Tensor:
    """Return outputs in at least single precision."""
    return outputs if outputs.dtype in (torch.float32, torch.float64) else outputs.float()


def _compared(scores: Tensor, labels: Tensor, by_domain: ByDomain) -> Compared:
    own = labels.unsqueeze(-1)
    log_probabilities = log_softmax(scores)
    risks = -by_domain.mean(log_probabilities.gather(-1, own).squeeze(-1).cpu().numpy())
    return Compared(by_domain, scores, own, log_probabilities.exp_(), risks)


def _kernel_quantile(risks: Numbers, widths: Numbers, share: float, parts: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return, by replica, a quantile of the kernel density estimate of the risks.

    Also return its distance from each risk in bandwidths, and each kernel's part of the density there. Found on a grid,
    refined by Halley's method.
    """
    width, there = widths[:, None], parts > 0
    offset = width * ndtri(share)  # each kernel's own quantile, relative to its centre
    low = np.where(there, risks, np.inf).min(1, keepdims=True) + offset
    cell = (np.where(there, risks, -np.inf).max(1, keepdims=True) + offset - low) / N_CELLS
    inner = (low + cell * np.arange(1, N_CELLS))[:, :, None]
    reached = ndtr((inner - risks[:, None]) / width[:, None]) @ parts[:, :, None]
    low = low + cell * (reached < share).sum(1)
    place = low + cell / 2
    for _ in range(3):
        distances = (place - risks) / width
        heights = parts * np.exp(distances * distances * -0.5)
        total = heights.sum(1, keepdims=True)
        step = (share - (parts * ndtr(distances)).sum(1, keepdims=True)) * ROOT / total  # Newton's, in bandwidths
        bend = 1 - step * (heights * distances).sum(1, keepdims=True) / (2 * total)
        place = np.minimum(np.maximum(place + width * step / np.maximum(bend, 0.5), low), low + cell)
    return place[:, 0], distances, heights / total
