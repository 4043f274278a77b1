"""Batches of a few domains each, for objectives that compare domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.errors import InputError
from domaincover.training.batches import ALONE, Pool, Shard, ShuffledBatches


class DomainBatches(ShuffledBatches):
    """Batches of `domains_per_batch` distinct domains that take turns, with as many examples of each, at least two.

    An epoch has as many batches as that of `ShuffledBatches`. Domains are dealt like cards: all are shuffled, hands are
    dealt while enough are left, and so on; so each, small or large, has the same say. Of a domain, the examples that
    were used least come first, in a random order, so all are used in time; one that has too few for a batch gives
    some more than once. Where there are fewer domains than asked for, every batch has them all, with more of each.

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
        """Return how often each example had been used when the present epoch began, by replica."""
        return {str(k): torch.from_numpy(hands.used_before) for k, hands in enumerate(self._hands)}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from such counts."""
        for k, hands in enumerate(self._hands):
            hands.used = hands.used_before = state[str(k)].numpy().copy()

    def _order(self) -> NDArray[Any]:
        shape = self.n_batches, self.domains_per_batch, self.batch_size // self.domains_per_batch
        return np.stack([rows[hands.dealt(*shape)] for rows, hands in zip(self.rows, self._hands, strict=True)])


class _Hands:
    """Deals the rows of one replica."""

    def __init__(self, domains: NDArray[Any], rng: np.random.Generator) -> None:
        _, self._domains, self._sizes = np.unique(domains, return_inverse=True, return_counts=True)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._rng = rng
        self.n_domains = len(self._sizes)
        self.used = self.used_before = np.zeros(len(domains), dtype=np.int64)

    def remember(self) -> None:
        self.used_before = self.used

    def dealt(self, n_batches: int, n_domains: int, n_examples: int) -> NDArray[np.int64]:
        """Return positions among the rows, batch after batch; within one, the domains take turns."""
        by_domain = np.argsort(self._domains * (self._lead.max() + 1.0) + self._lead + self._rng.random(len(self.used)))
        drawn = self._drawn_domains(n_batches, n_domains)
        first = _times_before(drawn) * n_examples
        nth = first[:, None, :] + np.arange(n_examples)[:, None]  # batch, turn, domain
        positions = by_domain[self._starts[drawn][:, None, :] + nth % self._sizes[drawn][:, None, :]].reshape(-1)
        self.used = self.used + np.bincount(positions, minlength=len(self.used))
        return positions

    @property
    def _lead(self) -> NDArray[np.int64]:
        """How often each row was used more than the least used of its domain."""
        if self.used.max() == 0:
            return self.used
        least = np.full(self.n_domains, self.used.max())
        np.minimum.at(least, self._domains, self.used)
        return self.used - least[self._domains]

    def _drawn_domains(self, n_batches: int, n_domains: int) -> NDArray[np.int64]:
        """Return distinct domains for every batch."""
        per_deck = self.n_domains // n_domains
        n_decks = -(-n_batches // per_deck)
        decks = self._rng.permuted(np.tile(np.arange(self.n_domains), (n_decks, 1)), axis=1)
        return decks[:, : per_deck * n_domains].reshape(-1, n_domains)[:n_batches]


def _times_before(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each code has come before, in the order of rows."""
    flat = codes.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
    times = np.empty_like(flat)
    times[order] = np.arange(len(flat)) - np.repeat(starts, np.diff(starts, append=len(flat)))
    return times.reshape(codes.shape)
