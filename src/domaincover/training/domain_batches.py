"""Batches of a few domains each, for objectives that compare domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.errors import InputError
from domaincover.training.batches import ShuffledBatches
from domaincover.training.pools import ALONE, Pool, Shard


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
