"""The examples of a batch, domain by domain."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Counts(NamedTuple):
    """How many domains and examples there are, and what each counts in a mean."""

    n_examples: NDArray[np.int64]  # (replica, domain); 0 where a replica has fewer domains than others
    n_domains: NDArray[np.int64]  # (replica)
    per_domain: NDArray[np.float64]  # 1 / n_domains, and 0 for domains that are not there: (replica, domain)
    per_example: NDArray[np.float64]  # 1 / n_examples
    per_half: NDArray[np.float64]  # the same for even and odd examples, (replica, half, domain)

    @classmethod
    def of(cls, n_examples: NDArray[np.int64]) -> Counts:
        """Return all of them, from the numbers of examples."""
        n_domains = np.count_nonzero(n_examples, axis=1)
        halves = np.stack([(n_examples + 1) // 2, n_examples // 2], axis=1)
        per_example, per_half = (np.where(n > 0, 1 / np.maximum(n, 1), 0) for n in (n_examples, halves))
        return cls(n_examples, n_domains, (n_examples > 0) / n_domains[:, None], per_example, per_half)


class ByDomain:
    """Which examples of a batch belong to which domain: codes (replica, example) to means and parts by domain.

    Replicas may have different domains, and domains different numbers of examples. Where it is known that `n_domains`
    domains take turns all through the batch, as in `DomainBatches`, nothing is sorted.
    """

    codes: NDArray[np.int64]  # of the domains, (replica, domain)
    counts: Counts
    in_turns: bool

    def __init__(self, domains: NDArray[np.int64], n_domains: int | None = None) -> None:
        n_replicas, n_rows = domains.shape
        self.in_turns = n_domains is not None and n_rows % (2 * n_domains) == 0  # in two equal halves
        if self.in_turns and n_domains is not None:
            self.codes = domains[:, :n_domains]
            self.counts = _even_counts(n_replicas, n_domains, n_rows // n_domains)
            return
        span, replicas = int(domains.max()) + 1, np.arange(n_replicas)
        found, places, counts = np.unique(domains + span * replicas[:, None], return_inverse=True, return_counts=True)
        owner = found // span
        first = np.searchsorted(owner, replicas)
        place = np.arange(len(found)) - first[owner]
        self._place = places.reshape(domains.shape) - first[:, None]  # of each example's domain
        self.codes, n_examples = np.zeros((2, n_replicas, int(place.max()) + 1), dtype=np.int64)
        self.codes[owner, place], n_examples[owner, place] = found % span, counts
        self.counts = Counts.of(n_examples)
        order = np.argsort(self._place, axis=1, kind="stable")
        starts = np.cumsum(n_examples, axis=1) - n_examples
        self._rank = np.empty_like(order)  # of each example in its domain
        ranks = np.arange(n_rows) - np.take_along_axis(starts, np.take_along_axis(self._place, order, 1), 1)
        np.put_along_axis(self._rank, order, ranks, axis=1)

    def mean(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the mean of every domain, (replica, domain), of values of examples."""
        if self.in_turns:
            return values.reshape(len(values), -1, self.codes.shape[1]).mean(1, dtype=np.float64)
        return self._sums(values) * self.counts.per_example

    def mean_of_halves(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the means of every domain's even and odd examples, (replica, half, domain)."""
        if self.in_turns:
            return values.reshape(len(values), -1, 2, self.codes.shape[1]).mean(1, dtype=np.float64)
        sums = [self._sums(values * (self._rank % 2 == half)) for half in (0, 1)]
        return np.stack(sums, axis=1) * self.counts.per_half

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give every example the value of its domain."""
        if self.in_turns:
            return np.tile(values, (1, int(self.counts.n_examples[0, 0])))
        return np.take_along_axis(values, self._place, axis=1)

    def spread_halves(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give every example the value of its domain's even or odd half."""
        if self.in_turns:
            return np.tile(values.reshape(len(values), -1), (1, int(self.counts.n_examples[0, 0]) // 2))
        return np.where(self._rank % 2 == 0, self.spread(values[:, 0]), self.spread(values[:, 1]))

    def split(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return values (replica, example, …) by domain, (replica, domain, example, …), and which are there.

        Domains with fewer examples than others are filled up with zeros; None means that none is.
        """
        n_replicas, n_domains = self.codes.shape
        if self.in_turns:
            return values.view(n_replicas, -1, n_domains, *values.shape[2:]).transpose(1, 2), None
        shape = n_replicas, n_domains, int(self.counts.n_examples.max())
        split = values.new_zeros(*shape, *values.shape[2:])
        split[self._index(values)] = values
        is_there = torch.from_numpy(np.arange(shape[2]) < self.counts.n_examples[:, :, None])
        return split, is_there.to(values.device)

    def joined(self, split: Tensor) -> Tensor:
        """Return values in the order of the batch again."""
        if self.in_turns:
            return split.transpose(1, 2).flatten(1, 2)
        return split[self._index(split)]

    def _index(self, values: Tensor) -> tuple[Tensor, ...]:
        parts = (np.arange(len(self.codes))[:, None], self._place, self._rank)
        return tuple(torch.from_numpy(part).to(values.device) for part in parts)

    def _sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        sums = np.zeros(self.codes.shape)
        np.add.at(sums, (np.arange(len(sums))[:, None], self._place), values)
        return sums


@lru_cache(maxsize=16)
def _even_counts(n_replicas: int, n_domains: int, n_each: int) -> Counts:
    return Counts.of(np.full((n_replicas, n_domains), n_each))
