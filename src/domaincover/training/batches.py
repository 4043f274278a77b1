"""Batches cut from arrays in memory: one shuffle per epoch and replica, no per-item loader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.data.dataset import DomainDataset
from domaincover.errors import InputError
from domaincover.training.multipliers import check_codes


class Batch(NamedTuple):
    """Examples, label codes and domain codes of every replica: (replica, example, …)."""

    examples: Tensor
    labels: Tensor
    domains: Tensor


class Pool:
    """The examples that replicas draw their rows from: several data sets end to end."""

    def __init__(
        self, datasets: Sequence[DomainDataset], dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> None:
        parts = zip(*((data.examples, data.labels, data.domains) for data in datasets), strict=True)
        examples, labels, domains = ([torch.as_tensor(values) for values in part] for part in parts)
        self._parts = Batch(
            _joined([part.to(dtype) for part in examples]).to(device),
            _joined(labels).to(device),
            _joined(domains).to(device),
        )

    @property
    def device(self) -> torch.device:
        """Where the examples lie."""
        return self._parts.labels.device

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Refuse examples of domains or labels that an objective does not have."""
        check_codes(self._parts.domains, n_domains, "domain")
        check_codes(self._parts.labels, n_labels, "label")

    def take(self, rows: Tensor) -> Batch:
        """Return the examples of the given rows, in the shape of `rows`."""
        flat = rows.reshape(-1).to(
            self.device
        )  # index_select copies whole rows, several times as fast as examples[rows]
        return Batch(*(part.index_select(0, flat).view(*rows.shape, *part.shape[1:]) for part in self._parts))


class ShuffledBatches:
    """Every replica's rows in its own random order, a new one each epoch, cut into batches.

    Rows are of the same pool or even the same ones; each replica draws its order from its own generator, so it meets
    the batches that it would meet alone. One with fewer rows than the others starts another round of them within the
    epoch.
    """

    ROWS_AT_ONCE = 4096  # rows of a replica copied from the pool in one go: fewer calls, bounded memory

    def __init__(
        self,
        pool: Pool,
        rows: Sequence[NDArray[Any]],
        batch_size: int,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        if min(map(len, rows)) == 0:
            raise InputError(f"every replica needs at least one row, got {[len(part) for part in rows]}.")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}.")
        self.pool, self.rngs = pool, rngs
        self.rows = [np.asarray(part) for part in rows]
        self.n_rows = max(map(len, rows))
        self.batch_size = min(batch_size, self.n_rows)
        self.n_batches = -(-self.n_rows // self.batch_size)

    def epoch(self) -> Iterator[Batch]:
        """Yield the batches of one epoch; the last one may be shorter."""
        order = np.stack([self._drawn(rng, rows) for rng, rows in zip(self.rngs, self.rows, strict=True)])
        n_replicas, n_rows = order.shape
        per_copy = max(1, self.ROWS_AT_ONCE // self.batch_size) * self.batch_size
        n_whole = n_rows - n_rows % self.batch_size
        for start in range(0, n_whole, per_copy):
            part = torch.from_numpy(order[:, start : min(start + per_copy, n_whole)])
            by_batch = part.view(n_replicas, -1, self.batch_size).transpose(0, 1)
            yield from map(Batch._make, zip(*self.pool.take(by_batch), strict=True))
        if n_whole < n_rows:
            yield self.pool.take(torch.from_numpy(order[:, n_whole:]))

    def in_order(self) -> Iterator[tuple[Batch, Tensor | None]]:
        """Yield every row once, in large blocks, for passes without a gradient.

        Where a replica has fewer rows than others, a mask tells which examples of a block are there for the first time.
        """
        first_time = torch.arange(self.n_rows) < torch.tensor([[len(rows)] for rows in self.rows])
        padded = torch.from_numpy(np.stack([np.resize(rows, self.n_rows) for rows in self.rows]))
        blocks = zip(padded.split(self.ROWS_AT_ONCE, dim=1), first_time.split(self.ROWS_AT_ONCE, dim=1), strict=True)
        for block, counts in blocks:
            yield self.pool.take(block), None if bool(counts.all()) else counts.to(self.pool.device)

    def _drawn(self, rng: np.random.Generator, rows: NDArray[Any]) -> NDArray[Any]:
        rounds = [rng.permutation(rows) for _ in range(-(-self.n_rows // len(rows)))]
        return np.concatenate(rounds)[: self.n_rows]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # a large table is not copied for nothing
