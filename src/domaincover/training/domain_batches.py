"""Batches of a few domains each, and the grouping of a batch by domain, for objectives that compare domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.errors import InputError
from domaincover.training.batches import ALONE, Pool, Shard, ShuffledBatches


class DomainBatches(ShuffledBatches):
    """Batches of `domains_per_batch` distinct, alternating domains with equally many examples of each, at least two.

    An epoch has as many batches as with `ShuffledBatches`; the batch size is a multiple of the number of domains.
    Domains are drawn equally often whatever their size, the least used first in random order, and so are the examples
    of a domain. A domain with too few examples for a batch repeats an even number of them, so that its even and odd
    examples are never the same. With fewer domains than requested, every batch has all of them, with more of each.

    With several processes, each has a part of every domain of a batch, and the loss is that of the complete batch.
    """

    def __init__(
        self,
        pool: Pool,
        rows: Sequence[NDArray[Any]],
        domains: Sequence[NDArray[Any]],
        batch_size: int,
        rngs: Sequence[np.random.Generator],
        shard: Shard = ALONE,
        domains_per_batch: int = 4,
    ) -> None:
        """Initialise; `domains` are the domain codes of each replica's rows."""
        if domains_per_batch < 1:
            raise InputError(f"domains_per_batch must be at least 1, got {domains_per_batch}.")
        super().__init__(pool, rows, batch_size, rngs, shard)
        self._samplers = [_RowSampler(own, rng) for own, rng in zip(domains, rngs, strict=True)]
        self.domains_per_batch = min(domains_per_batch, *(sampler.n_domains for sampler in self._samplers))
        per_domain = max(self.batch_size // self.domains_per_batch, 2)
        if per_domain // shard.n_processes < 2:
            raise InputError(
                f"batches of {self.batch_size} with {self.domains_per_batch} domains leave {shard.n_processes} "
                "processes fewer than two examples of a domain; raise batch_size, or lower domains_per_batch."
            )
        self.batch_size = per_domain * self.domains_per_batch
        self.n_batches = -(-self.n_rows // self.batch_size)

    def remember(self) -> None:
        """Store the state at the start of an epoch, from which it can be repeated."""
        super().remember()
        for sampler in getattr(self, "_samplers", []):
            sampler.remember()

    def saved_state(self) -> dict[str, Tensor]:
        """Return how often examples and domains had been used at the start of the epoch, by replica."""
        return {
            f"{k}.{what}": torch.from_numpy(counts)
            for k, sampler in enumerate(self._samplers)
            for what, counts in sampler.before._asdict().items()
        }

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        for k, sampler in enumerate(self._samplers):
            sampler.now = sampler.before = Uses(*(state[f"{k}.{what}"].numpy().copy() for what in Uses._fields))

    def _order(self) -> NDArray[Any]:
        shape = self.n_batches, self.domains_per_batch, self.batch_size // self.domains_per_batch
        return np.stack([rows[sampler.draw(*shape)] for rows, sampler in zip(self.rows, self._samplers, strict=True)])


class Uses(NamedTuple):
    """How often each example and each domain has been used."""

    examples: NDArray[np.int64]
    domains: NDArray[np.int64]


class _RowSampler:
    """Draw the rows of one replica."""

    def __init__(self, domains: NDArray[Any], rng: np.random.Generator) -> None:
        names, self._domains, self._sizes = np.unique(domains, return_inverse=True, return_counts=True)
        if self._sizes.min() < 2:
            raise InputError(f"domain {names[self._sizes.argmin()]} has one example; at least two are needed.")
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._rng = rng
        self.n_domains = len(self._sizes)
        self.now = self.before = Uses(*(np.zeros(n, dtype=np.int64) for n in (len(domains), self.n_domains)))

    def remember(self) -> None:
        self.before = self.now

    def draw(self, n_batches: int, n_domains: int, n_examples: int) -> NDArray[np.int64]:
        """Return positions among the rows, batch by batch, with alternating domains in each."""
        drawn, domains = self._drawn_domains(n_batches, n_domains)
        lead = self._lead()
        by_domain = np.argsort(self._domains * (lead.max() + 1.0) + lead + self._rng.random(len(lead)))
        cycles = np.where(self._sizes < n_examples, self._sizes - self._sizes % 2, n_examples)[drawn]
        first = _times_before(drawn) * cycles
        nth = first[:, None, :] + np.arange(n_examples)[:, None] % cycles[:, None, :]  # batch, turn, domain
        positions = by_domain[self._starts[drawn][:, None, :] + nth % self._sizes[drawn][:, None, :]].reshape(-1)
        self.now = Uses(self.now.examples + np.bincount(positions, minlength=len(lead)), domains)
        return positions

    def _lead(self) -> NDArray[np.int64]:
        """Return how much more often each row was used than the least used of its domain."""
        used = self.now.examples
        least = np.full(self.n_domains, used.max())
        np.minimum.at(least, self._domains, used)
        return used - least[self._domains]

    def _drawn_domains(self, n_batches: int, n_domains: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return distinct domains for every batch, and how often each domain has then been used.

        Domains are drawn in rounds of all of them, the least used first.
        """
        per_round, uses, rounds = self.n_domains // n_domains, self.now.domains.copy(), []
        for first in range(0, n_batches, per_round):
            n_drawn = min(per_round, n_batches - first) * n_domains
            drawn = np.argsort(uses + self._rng.random(self.n_domains))[:n_drawn]
            drawn = self._rng.permutation(drawn)
            uses[drawn] += 1
            rounds.append(drawn)
        return np.concatenate(rounds).reshape(-1, n_domains), uses


def _times_before(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each code has occurred before, in row order."""
    flat = codes.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
    times = np.empty_like(flat)
    times[order] = np.arange(len(flat)) - np.repeat(starts, np.diff(starts, append=len(flat)))
    return times.reshape(codes.shape)


class Counts(NamedTuple):
    """Numbers of domains and examples, and their weights in means."""

    n_examples: NDArray[np.int64]  # (replica, domain); 0 where a replica has fewer domains than others
    n_domains: NDArray[np.int64]  # (replica)
    per_domain: NDArray[np.float64]  # 1 / n_domains, and 0 for absent domains: (replica, domain)
    per_example: NDArray[np.float64]  # 1 / n_examples
    per_half: NDArray[np.float64]  # the same for even and odd examples, (replica, half, domain)

    @classmethod
    def of(cls, n_examples: NDArray[np.int64]) -> Counts:
        """Return the counts and weights for given numbers of examples."""
        n_domains = np.count_nonzero(n_examples, axis=1)
        halves = np.stack([(n_examples + 1) // 2, n_examples // 2], axis=1)
        per_example, per_half = (np.where(n > 0, 1 / np.maximum(n, 1), 0) for n in (n_examples, halves))
        return cls(n_examples, n_domains, (n_examples > 0) / n_domains[:, None], per_example, per_half)


class ByDomain:
    """Group the examples of a batch by domain, given domain codes (replica, example).

    Replicas may have different domains, and domains different numbers of examples. If `n_domains` domains are known to
    alternate throughout the batch, as in `DomainBatches`, no sorting is needed.
    """

    codes: NDArray[np.int64]  # (replica, domain)
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
        """Return the mean of every domain, (replica, domain)."""
        if self.in_turns:
            shape = len(values), -1, self.codes.shape[1]
            return np.add.reduce(values.reshape(shape), axis=1, dtype=np.float64) * self.counts.per_example
        return self._sums(values) * self.counts.per_example

    def mean_of_halves(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the means of every domain's even and odd examples, (replica, half, domain)."""
        if self.in_turns:
            shape = len(values), -1, 2, self.codes.shape[1]
            return np.add.reduce(values.reshape(shape), axis=1, dtype=np.float64) * self.counts.per_half
        sums = [self._sums(values * (self._rank % 2 == half)) for half in (0, 1)]
        return np.stack(sums, axis=1) * self.counts.per_half

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the value of each example's domain."""
        if self.in_turns:
            return _repeated(values, int(self.counts.n_examples[0, 0]))
        return np.take_along_axis(values, self._place, axis=1)

    def spread_halves(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the value of each example's half (even or odd) of its domain."""
        if self.in_turns:
            return _repeated(values.reshape(len(values), -1), int(self.counts.n_examples[0, 0]) // 2)
        return np.where(self._rank % 2 == 0, self.spread(values[:, 0]), self.spread(values[:, 1]))

    def split(self, values: Tensor) -> tuple[Tensor, Tensor | None]:
        """Reshape values (replica, example, …) to (replica, domain, example, …), and return a mask of real examples.

        Domains with fewer examples are padded with zeros; the mask is None without padding.
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
        """Return values in the order of the batch, reversing `split`."""
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


def _repeated(values: NDArray[Any], n_times: int) -> NDArray[Any]:
    """Return rows repeated side by side, as np.tile does in three times the time."""
    return values[:, None].repeat(n_times, axis=1).reshape(len(values), -1)


@lru_cache(maxsize=16)
def _even_counts(n_replicas: int, n_domains: int, n_each: int) -> Counts:
    return Counts.of(np.full((n_replicas, n_domains), n_each))
