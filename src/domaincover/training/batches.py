"""Batches: from arrays in memory, one shuffle per epoch and replica and no per-item loader; or read as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import Block, LazyExamples, row_blocks
from domaincover.errors import InputError
from domaincover.training.multipliers import check_codes

LINE = 64  # bytes, at whose multiples torch places what it makes


class Batch(NamedTuple):
    """Examples, label codes and domain codes of every replica: (replica, example, …).

    `share` is the part of the whole batch that this process has of it; a process that has none gets a stand-in of
    share 0, so that it can take part in what all do together.
    """

    examples: Tensor
    labels: Tensor
    domains: Tensor
    share: float = 1.0


class Shard(NamedTuple):
    """Which of several processes this is; each has its part of every batch."""

    rank: int = 0
    n_processes: int = 1

    def part(self, n: int) -> slice:
        """Return this process's part of n things, as even as can be."""
        return slice(self.rank * n // self.n_processes, (self.rank + 1) * n // self.n_processes)

    def part_of_batch(self, n: int) -> slice:
        """Return this process's part of a batch: two examples or more, which BatchNorm needs, or else none.

        Of a batch that is too small to share so, the first process has all.
        """
        if n >= 2 * self.n_processes:
            return self.part(n)
        return slice(0, n if self.rank == 0 else 0)


ALONE = Shard()


class Pool(Protocol):
    """The examples that replicas draw their rows from."""

    rows_at_once: int  # in a pass without a gradient

    @property
    def device(self) -> torch.device:
        """Where batches lie."""
        ...

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Refuse examples of domains or labels that an objective does not have."""
        ...

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield the given rows, (replica, row), so many of each replica at a time; the last batch may be shorter."""
        ...


class MemoryPool:
    """Arrays of several data sets end to end, on the device."""

    rows_at_once = 4096  # of a replica copied in one go: fewer calls, bounded memory

    def __init__(
        self, datasets: Sequence[DomainDataset], dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> None:
        parts = zip(*((data.examples, data.labels, data.domains) for data in datasets), strict=True)
        examples, labels, domains = ([torch.as_tensor(values) for values in part] for part in parts)
        self._parts = (
            _joined([part.to(dtype) for part in examples]).to(device),
            _joined(labels).to(device),
            _joined(domains).to(device),
        )

    @property
    def device(self) -> torch.device:
        """Where the examples lie."""
        return self._parts[1].device

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Refuse examples of domains or labels that an objective does not have."""
        check_codes(self._parts[2], n_domains, "domain")
        check_codes(self._parts[1], n_labels, "label")

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield the given rows, several batches being copied in one go."""
        n_replicas, n_rows = rows.shape
        per_copy = max(1, self.rows_at_once // batch_size) * batch_size
        n_whole = n_rows - n_rows % batch_size
        for start in range(0, n_whole, per_copy):
            part = torch.from_numpy(rows[:, start : min(start + per_copy, n_whole)])
            by_batch = part.view(n_replicas, -1, batch_size).transpose(0, 1)
            for examples, labels, domains in zip(*self._take(by_batch), strict=True):
                # Sums round by where in memory a batch starts, and a resumed training copies from another batch on.
                at_line = examples.data_ptr() % LINE == 0
                yield Batch(examples if at_line else examples.clone(), labels, domains)
        if n_whole < n_rows:
            examples, labels, domains = self._take(torch.from_numpy(rows[:, n_whole:]))
            yield Batch(examples, labels, domains)

    def _take(self, rows: Tensor) -> Iterator[Tensor]:
        """Return the examples of the given rows, in the shape of `rows`."""
        # index_select copies whole rows, several times as fast as examples[rows]
        flat = rows.reshape(-1).to(self.device)
        return (part.index_select(0, flat).view(*rows.shape, *part.shape[1:]) for part in self._parts)


class LazyPool:
    """Examples that are read as they are needed, for one network: memory does not grow with their number."""

    rows_at_once = 256

    def __init__(self, data: DomainDataset, device: str = "cpu") -> None:
        self._examples: LazyExamples = data.examples
        self._labels, self._domains = torch.as_tensor(data.labels), torch.as_tensor(data.domains)
        self._device = torch.device(device)

    @property
    def device(self) -> torch.device:
        """Where batches are put."""
        return self._device

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Refuse examples of domains or labels that an objective does not have."""
        check_codes(self._domains, n_domains, "domain")
        check_codes(self._labels, n_labels, "label")

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield the given rows of the one replica; workers read ahead."""
        (own,) = rows
        blocks = [own[some] for some in row_blocks(len(own), batch_size)]
        for some, block in zip(blocks, self._examples.blocks(blocks), strict=True):
            check_readable(self._examples, some, block)
            parts = (torch.from_numpy(block.values), self._labels[some], self._domains[some])
            examples, labels, domains = (part[None].to(self._device) for part in parts)
            yield Batch(examples, labels, domains)


def check_readable(examples: LazyExamples, rows: NDArray[np.int64], block: Block) -> None:
    """Refuse to train on what cannot be read; fit has left out what could not be read when it began."""
    if block.readable is not None:
        raise lost(examples.sources[rows[~block.readable]][0])


def lost(source: Any) -> InputError:
    """Return what to say of a source that can be read no more."""
    return InputError(f"{source} could be read when training began, and now it cannot; bring it back and go on.")


def make_pool(datasets: Sequence[DomainDataset], device: str = "cpu") -> Pool:
    """Return the pool that the data sets' examples need."""
    if not any(isinstance(data.examples, LazyExamples) for data in datasets):
        return MemoryPool(datasets, device=device)
    if len(datasets) > 1:
        raise InputError("networks on examples that are read as they are needed train one at a time.")
    return LazyPool(datasets[0], device)


class ShuffledBatches:
    """Every replica's rows in its own random order, a new one each epoch, cut into batches.

    Rows are of the same pool or even the same ones; each replica draws its order from its own generator, so it meets
    the batches that it would meet alone. One with fewer rows than the others starts another round of them within the
    epoch. In several processes all draw the same order, and each has its part of every batch.
    """

    def __init__(
        self,
        pool: Pool,
        rows: Sequence[NDArray[Any]],
        batch_size: int,
        rngs: Sequence[np.random.Generator],
        shard: Shard = ALONE,
    ) -> None:
        if min(map(len, rows)) == 0:
            raise InputError(f"every replica needs at least one row, got {[len(part) for part in rows]}.")
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}.")
        self.pool, self.rngs, self.shard = pool, rngs, shard
        self.rows = [np.asarray(part) for part in rows]
        self.n_rows = max(map(len, rows))
        self.batch_size = min(batch_size, self.n_rows)
        self.n_batches = -(-self.n_rows // self.batch_size)
        self.remember()

    def epoch(self, n_done: int = 0) -> Iterator[Batch]:
        """Yield the batches of one epoch but the first few; the last one may be shorter."""
        self.remember()
        order = self._order()[:, n_done * self.batch_size :]
        if self.shard.n_processes == 1:
            yield from self.pool.batches(order, self.batch_size)
            return
        n_rows = order.shape[1]
        n_whole = n_rows - n_rows % self.batch_size
        yield from self._own_part(order[:, :n_whole], self.batch_size)
        if n_whole < n_rows:
            yield from self._own_part(order[:, n_whole:], n_rows - n_whole)

    def in_order(self) -> Iterator[tuple[Batch, Tensor | None]]:
        """Yield every row once, in large blocks, for passes without a gradient; of several processes, each has a part.

        Where a replica has fewer rows than others, a mask tells which examples of a block are there for the first time.
        """
        part = self.shard.part(self.n_rows)
        first_time = torch.arange(self.n_rows)[part] < torch.tensor([[len(rows)] for rows in self.rows])
        padded = np.stack([np.resize(rows, self.n_rows)[part] for rows in self.rows])
        blocks = self.pool.batches(padded, self.pool.rows_at_once)
        for block, counts in zip(blocks, first_time.split(self.pool.rows_at_once, dim=1), strict=False):
            yield block, None if bool(counts.all()) else counts.to(self.pool.device)

    def remember(self) -> None:
        """Keep the generators' states, from which the present epoch can be drawn again."""
        self._states = [rng.bit_generator.state for rng in self.rngs]

    @property
    def states(self) -> list[Any]:
        """The generators' states at the start of the present epoch, as plain data."""
        return self._states

    @states.setter
    def states(self, states: list[Any]) -> None:
        for rng, state in zip(self.rngs, states, strict=True):
            rng.bit_generator.state = state
        self._states = states

    def saved_state(self) -> dict[str, Tensor]:
        """Return what later epochs depend on beside the generators, by name."""
        return {}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from such a state."""

    def _order(self) -> NDArray[Any]:
        """Return the rows of an epoch as they come, (replica, row)."""
        return np.stack([self._drawn(rng, rows) for rng, rows in zip(self.rngs, self.rows, strict=True)])

    def _drawn(self, rng: np.random.Generator, rows: NDArray[Any]) -> NDArray[Any]:
        rounds = [rng.permutation(rows) for _ in range(-(-self.n_rows // len(rows)))]
        return np.concatenate(rounds)[: self.n_rows]

    def _own_part(self, order: NDArray[Any], batch_size: int) -> Iterator[Batch]:
        """Yield this process's part of whole batches; where that is none, a stand-in of two examples."""
        part = self.shard.part_of_batch(batch_size)
        n_own = part.stop - part.start
        own = order.reshape(len(order), -1, batch_size)[:, :, part if n_own else slice(2)]
        for batch in self.pool.batches(own.reshape(len(order), -1), own.shape[2]):
            yield batch._replace(share=n_own / batch_size)


def whole_batches(batch_size: int, n_rows: int) -> int:
    """Return a batch size that leaves no last batch of one example, which has no statistics for BatchNorm."""
    while 1 < batch_size < n_rows and n_rows % batch_size == 1:
        batch_size += 1
    return batch_size


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # a large table is not copied for nothing
