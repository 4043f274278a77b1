"""The examples of a batch, domain by domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class ByDomain:
    """Which examples of a batch belong to which domain: codes (replica, example) to means and parts by domain.

    Replicas may have different domains, and domains different numbers of examples. Where it is known that `n_domains`
    domains take turns all through the batch, as in `DomainBatches`, nothing is sorted.
    """

    codes: NDArray[np.int64]  # of the domains, (replica, domain)
    n_examples: NDArray[np.int64]  # (replica, domain); 0 where a replica has fewer domains than others
    in_turns: bool

    def __init__(self, domains: NDArray[np.int64], n_domains: int | None = None) -> None:
        n_replicas, n_rows = domains.shape
        self.in_turns = n_domains is not None and n_rows % (2 * n_domains) == 0  # in two equal halves
        if self.in_turns and n_domains is not None:
            self.codes = domains[:, :n_domains]
            self.n_examples = np.full((n_replicas, n_domains), n_rows // n_domains)
            return
        span, replicas = int(domains.max()) + 1, np.arange(n_replicas)
        found, places, counts = np.unique(domains + span * replicas[:, None], return_inverse=True, return_counts=True)
        owner = found // span
        first = np.searchsorted(owner, replicas)
        place = np.arange(len(found)) - first[owner]
        self._place = places.reshape(domains.shape) - first[:, None]  # of each example's domain
        self.codes, self.n_examples = np.zeros((2, n_replicas, int(place.max()) + 1), dtype=np.int64)
        self.codes[owner, place], self.n_examples[owner, place] = found % span, counts
        order = np.argsort(self._place, axis=1, kind="stable")
        starts = np.cumsum(self.n_examples, axis=1) - self.n_examples
        self._rank = np.empty_like(order)  # of each example in its domain
        ranks = np.arange(n_rows) - np.take_along_axis(starts, np.take_along_axis(self._place, order, 1), 1)
        np.put_along_axis(self._rank, order, ranks, axis=1)

    @property
    def has_examples(self) -> NDArray[np.bool_]:
        """Which domains there are, (replica, domain)."""
        return self.n_examples > 0

    @property
    def n_domains(self) -> NDArray[np.int64]:
        """How many domains each replica has."""
        return np.count_nonzero(self.n_examples, axis=1)

    def mean(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the mean of every domain, (replica, domain), of values of examples."""
        if self.in_turns:
            return values.reshape(len(values), -1, self.codes.shape[1]).mean(1, dtype=np.float64)
        return self._sums(values) / np.maximum(self.n_examples, 1)

    def mean_of_halves(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the means of every domain's even and odd examples, and their numbers: (replica, half, domain)."""
        n = np.stack([(self.n_examples + 1) // 2, self.n_examples // 2], axis=1)
        if self.in_turns:
            return values.reshape(len(values), -1, 2, self.codes.shape[1]).mean(1, dtype=np.float64), n
        sums = [self._sums(values * (self._rank % 2 == half)) for half in (0, 1)]
        return np.stack(sums, axis=1) / np.maximum(n, 1), n

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give every example the value of its domain."""
        if self.in_turns:
            return np.tile(values, (1, int(self.n_examples[0, 0])))
        return np.take_along_axis(values, self._place, axis=1)

    def spread_halves(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give every example the value of its domain's even or odd half."""
        if self.in_turns:
            return np.tile(values.reshape(len(values), -1), (1, int(self.n_examples[0, 0]) // 2))
        return np.where(self._rank % 2 == 0, self.spread(values[:, 0]), self.spread(values[:, 1]))

    def split(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return values (replica, example, …) by domain, (replica, domain, example, …), and which are there.

        Domains with fewer examples than others are filled up with zeros; None means that none is.
        """
        n_replicas, n_domains = self.codes.shape
        if self.in_turns:
            return values.view(n_replicas, -1, n_domains, *values.shape[2:]).transpose(1, 2), None
        shape = n_replicas, n_domains, int(self.n_examples.max())
        split = values.new_zeros(*shape, *values.shape[2:])
        split[self._index(values)] = values
        is_there = torch.from_numpy(np.arange(shape[2]) < self.n_examples[:, :, None])
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
