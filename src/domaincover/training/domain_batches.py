"""Batches of a few domains each, for objectives that compare domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.errors import InputError
from domaincover.training.batches import ALONE, Pool, Shard, ShuffledBatches


class DomainBatches(ShuffledBatches):
    """Batches of `domains_per_batch` distinct domains that take turns, with as many examples of each, at least two.

    An epoch has as many batches as that of `ShuffledBatches`; their size is a multiple of the domains in them. Domains,
    small or large, have the same say: those that were dealt least come first, in a random order. Of a domain, the
    examples that were used least come first, so all are used in time. One that has too few for a batch gives them
    again and again, an even number of them, so that its even and odd examples are never the same. Where there are
    fewer domains than asked for, every batch has them all, with more of each.

    In several processes each has its part of every domain of a batch, and the loss is that of the whole batch.
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
        """Make batches; `domains` are the codes of each replica's rows."""
        if domains_per_batch < 1:
            raise InputError(f"domains_per_batch must be at least 1, got {domains_per_batch}.")
        super().__init__(pool, rows, batch_size, rngs, shard)
        self._hands = [_Hands(own, rng) for own, rng in zip(domains, rngs, strict=True)]
        self.domains_per_batch = min(domains_per_batch, *(hands.n_domains for hands in self._hands))
        per_domain = max(self.batch_size // self.domains_per_batch, 2)
        if per_domain // shard.n_processes < 2:
            raise InputError(
                f"batches of {self.batch_size} with {self.domains_per_batch} domains leave {shard.n_processes} "
                "processes fewer than two examples of a domain; raise batch_size, or lower domains_per_batch."
            )
        self.batch_size = per_domain * self.domains_per_batch
        self.n_batches = -(-self.n_rows // self.batch_size)

    def remember(self) -> None:
        """Keep what the present epoch can be drawn from again."""
        super().remember()
        for hands in getattr(self, "_hands", []):
            hands.remember()

    def saved_state(self) -> dict[str, Tensor]:
        """Return how often examples and domains had been used when the present epoch began, by replica."""
        return {
            f"{k}.{what}": torch.from_numpy(counts)
            for k, hands in enumerate(self._hands)
            for what, counts in hands.before._asdict().items()
        }

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from such counts."""
        for k, hands in enumerate(self._hands):
            hands.now = hands.before = Uses(*(state[f"{k}.{what}"].numpy().copy() for what in Uses._fields))

    def _order(self) -> NDArray[Any]:
        shape = self.n_batches, self.domains_per_batch, self.batch_size // self.domains_per_batch
        return np.stack([rows[hands.dealt(*shape)] for rows, hands in zip(self.rows, self._hands, strict=True)])


class Uses(NamedTuple):
    """How often each example and each domain was used."""

    examples: NDArray[np.int64]
    domains: NDArray[np.int64]


class _Hands:
    """Deals the rows of one replica."""

    def __init__(self, domains: NDArray[Any], rng: np.random.Generator) -> None:
        names, self._domains, self._sizes = np.unique(domains, return_inverse=True, return_counts=True)
        if self._sizes.min() < 2:
            raise InputError(f"domain {names[self._sizes.argmin()]} has one example; at least two can be compared.")
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._rng = rng
        self.n_domains = len(self._sizes)
        self.now = self.before = Uses(*(np.zeros(n, dtype=np.int64) for n in (len(domains), self.n_domains)))

    def remember(self) -> None:
        self.before = self.now

    def dealt(self, n_batches: int, n_domains: int, n_examples: int) -> NDArray[np.int64]:
        """Return positions among the rows, batch after batch; within one, the domains take turns."""
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
        """Return how often each row was used more than the least used of its domain."""
        used = self.now.examples
        least = np.full(self.n_domains, used.max())
        np.minimum.at(least, self._domains, used)
        return used - least[self._domains]

    def _drawn_domains(self, n_batches: int, n_domains: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return distinct domains for every batch, and how often each has been dealt then.

        Dealt by decks of all domains, those dealt least on top; what is left of a deck comes first in the next one.
        """
        per_deck, uses, hands = self.n_domains // n_domains, self.now.domains.copy(), []
        for first in range(0, n_batches, per_deck):
            n_dealt = min(per_deck, n_batches - first) * n_domains
            deck = np.argsort(uses + self._rng.random(self.n_domains))[:n_dealt]
            deck = self._rng.permutation(deck)
            uses[deck] += 1
            hands.append(deck)
        return np.concatenate(hands).reshape(-1, n_domains), uses


def _times_before(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each code has come before, in the order of rows."""
    flat = codes.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
    times = np.empty_like(flat)
    times[order] = np.arange(len(flat)) - np.repeat(starts, np.diff(starts, append=len(flat)))
    return times.reshape(codes.shape)
