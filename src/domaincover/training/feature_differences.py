"""Distances between the features of domains, with gradients."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.training.domain_batches import ByDomain

KERNEL_RATES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


def discrepancy(by_domain: ByDomain, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean over pairs of domains of mean K(a, a) + mean K(b, b) − 2 mean K(a, b), and its gradient.

    K is the sum of Gaussian kernels exp(−rate · squared distance). The value is by replica.
    """
    # Centred, since squared distances are computed as differences of squares, which lose precision far from 0.
    rows, is_there = by_domain.split(features - features.mean(1, keepdim=True))
    rows = rows.transpose(2, 3).contiguous()  # (replica, domain, feature, example), the faster order in products
    n_replicas, n_domains, n_features, n_each = rows.shape
    one, other = _pairs_on(n_domains, rows.device)
    squares = rows.square().sum(2, keepdim=True)
    ones = torch.ones_like(squares)
    # |a − b|² = (−2 a, |a|², 1) · (b, 1, |b|²)
    left = torch.cat([rows * -2, squares, ones], 2).index_select(1, one).flatten(0, 1)
    right = torch.cat([rows, ones, squares], 2)
    a, b = (right.index_select(1, side).flatten(0, 1) for side in (one, other))
    distances = torch.bmm(left.transpose(1, 2), b).clamp_(min=0)
    _with_itself(distances, n_replicas, n_domains).zero_()  # removes rounding errors
    rates, both = _rates(rows.dtype, rows.device)
    # Clamped values are negligible, and subnormal numbers are slow. Powers of e would take four times as long.
    kernels = torch.outer(rates, distances.view(-1)).clamp_(min=-115).exp2_()
    total, pull = (both @ kernels).view(2, n_replicas, len(one), n_each, n_each)
    weights = _even_weights(n_replicas, n_domains, n_each) if is_there is None else _pair_weights(by_domain)
    weights = weights.to(rows)
    pull = pull * weights[:, :, None, None]
    if is_there is not None:
        pair = is_there[:, one].unsqueeze(3) & is_there[:, other].unsqueeze(2)
        total, pull = total * pair, pull * pair
    value, pull = (total.sum((2, 3)) * weights).sum(1), pull.flatten(0, 1)
    _with_itself(pull, n_replicas, n_domains).zero_()  # the distance of an example to itself is constant
    pulled = torch.zeros_like(right)  # Σ pull · example, and, from the ones, Σ pull
    for side, part in ((one, torch.bmm(b, pull.transpose(1, 2))), (other, torch.bmm(a, pull))):
        pulled.index_add_(1, side, part.unflatten(0, (n_replicas, -1)), alpha=2)
    slope = rows * pulled[:, :, n_features, None] - pulled[:, :, :n_features]
    return value, by_domain.joined(slope.transpose(2, 3))


def moment_differences(by_domain: ByDomain, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean over pairs of domains of squared differences of means and covariances, and its gradient.

    Differences are averaged over coordinates and entries. The mean over all pairs is twice the sample variance over
    domains, so no pairs are formed.
    """
    rows, is_there = by_domain.split(features)
    n_replicas, n_domains, n_each, n_features = rows.shape
    rows = rows.transpose(2, 3).reshape(-1, n_features, n_each)
    n: Tensor | int = n_each
    n_free: Tensor | int = n_each - 1
    if is_there is not None:  # a domain with one example has a mean but no covariance
        n, n_free = (_by_domain(np.maximum(by_domain.counts.n_examples - k, 1), rows) for k in (0, 1))
    means = rows.sum(2, keepdim=True) / n
    centred = rows - means if is_there is None else (rows - means) * is_there.view(-1, 1, n_each)
    covariances = torch.bmm(centred, centred.transpose(1, 2)) / n_free
    value, slope = _spread(by_domain, torch.cat([means, covariances], 2))
    by_row = torch.baddbmm(slope[:, :, :1] / n, slope[:, :, 1:] * (2 / n_free), centred)
    return value, by_domain.joined(by_row.view(n_replicas, n_domains, n_features, n_each).transpose(2, 3))


def _spread(by_domain: ByDomain, moments: Tensor) -> tuple[Tensor, Tensor]:
    """Return twice the sample variances over domains, of means and of covariances, by replica, and its gradient.

    Moments are (replica · domain, feature, 1 + feature), the mean first; variances are averaged over entries.
    """
    n_replicas, n_domains = by_domain.codes.shape
    each, scale = (
        moments.unflatten(0, (n_replicas, n_domains)),
        _per_entry(moments.shape[1], moments.dtype, moments.device),
    )
    if by_domain.in_turns:
        away = each - each.mean(1, keepdim=True)
        slope = away * (scale * (4 / max(n_domains - 1, 1)))
    else:
        shares, n = by_domain.counts.per_domain[:, :, None, None], by_domain.counts.n_domains[:, None, None, None]
        away = each - (torch.from_numpy(shares).to(each) * each).sum(1, keepdim=True)
        by_replica = 4 * (shares > 0) * (n > 1) / np.maximum(n - 1, 1)
        slope = away * scale * torch.from_numpy(by_replica).to(each)
    return (slope * away).sum((1, 2, 3)) / 2, slope.flatten(0, 1)


@lru_cache(maxsize=16)
def _per_entry(n_features: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the weights of a mean and of a row of covariances in averages over entries."""
    return torch.tensor([1 / n_features] + [1 / n_features**2] * n_features, dtype=dtype, device=device)


def _by_domain(numbers: NDArray[Any], like: Tensor) -> Tensor:
    return torch.from_numpy(numbers).to(like).view(-1, 1, 1)


def _pairs(n_domains: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both sides of all pairs of domains, starting with each domain paired with itself."""
    own, (one, other) = np.arange(n_domains), np.triu_indices(n_domains, 1)
    return np.concatenate([own, one]), np.concatenate([own, other])


@lru_cache(maxsize=16)
def _pairs_on(n_domains: int, device: torch.device) -> tuple[Tensor, Tensor]:
    one, other = (torch.from_numpy(side).to(device) for side in _pairs(n_domains))
    return one, other


def _with_itself(of_pairs: Tensor, n_replicas: int, n_domains: int) -> Tensor:
    """Return the entries of each example with itself, of (replica · pair, example, example)."""
    return of_pairs.unflatten(0, (n_replicas, -1))[:, :n_domains].diagonal(dim1=-2, dim2=-1)


@lru_cache(maxsize=16)
def _rates(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the negative rates of powers of 2, and the factors that give K and its derivative from the kernels."""
    rates = -torch.tensor(KERNEL_RATES, dtype=torch.float64, device=device)
    return (rates / math.log(2)).to(dtype), torch.stack([torch.ones_like(rates), rates]).to(dtype)


def _pair_weights(by_domain: ByDomain) -> Tensor:
    """Return the weight of the kernel of two examples, by replica and pair of domains."""
    n, per_example = by_domain.counts.n_domains[:, None], by_domain.counts.per_example
    a, b = _pairs(per_example.shape[1])
    # A domain is in n − 1 of the n (n − 1) / 2 pairs.
    by_pair = np.where(a == b, 2 / n, -4 / np.maximum(n * (n - 1), 1)) * (n > 1)
    return torch.from_numpy(by_pair * per_example[:, a] * per_example[:, b])


@lru_cache(maxsize=16)
def _even_weights(n_replicas: int, n_domains: int, n_each: int) -> Tensor:
    """Return the weights for alternating domains, which are the same in every batch."""
    return _pair_weights(ByDomain(np.tile(np.arange(n_domains), (n_replicas, n_each)), n_domains))
