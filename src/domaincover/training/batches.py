"""Batches from arrays in memory (shuffled per epoch and replica, without a per-item loader) or read on demand."""

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
from domaincover.training.loss_inputs import check_codes
from domaincover.training.read_ahead import ReadAhead
from domaincover.training.shuffling import shuffled

LINE = 64  # bytes; torch aligns its allocations to multiples of it


class Batch(NamedTuple):
    """Examples, label codes and domain codes of every replica: (replica, example, …).

    `share` is this process's fraction of the complete batch. A process without examples gets a placeholder of share
    0, so that it can take part in collective operations.
    """

    examples: Tensor
    labels: Tensor
    domains: Tensor
    share: float = 1.0


class Shard(NamedTuple):
    """This process among several, each of which has a part of every batch."""

    rank: int = 0
    n_processes: int = 1

    def part(self, n: int) -> slice:
        """Return this process's part of n items, divided as evenly as possible."""
        return slice(self.rank * n // self.n_processes, (self.rank + 1) * n // self.n_processes)

    def part_of_batch(self, n: int) -> slice:
        """Return this process's part of a batch: at least two examples, which BatchNorm needs, or none.

        A batch too small for that goes to the first process.
        """
        if n >= 2 * self.n_processes:
            return self.part(n)
        return slice(0, n if self.rank == 0 else 0)


ALONE = Shard()


class Pool(Protocol):
    """The examples from which replicas draw their rows."""

    rows_at_once: int  # in passes without gradient
    row_bytes: int  # of an example; 0 where it makes no difference which ones are read together

    @property
    def device(self) -> torch.device:
        """Device of the batches."""
        ...

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Raise if there are domain or label codes that an objective does not have."""
        ...

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield batches of the given rows, (replica, row); the last batch may be smaller."""
        ...


class MemoryPool:
    """Concatenated arrays of several datasets, on the device."""

    rows_at_once = 4096  # copied at once per replica: fewer calls with bounded memory

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
        self.row_bytes = self._parts[0][:1].nbytes
        self._ahead = ReadAhead.of(datasets[0].examples) if len(datasets) == 1 else None

    @property
    def device(self) -> torch.device:
        """Device of the examples."""
        return self._parts[1].device

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Raise if there are domain or label codes that an objective does not have."""
        check_codes(self._parts[2], n_domains, "domain")
        check_codes(self._parts[1], n_labels, "label")

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield batches of the given rows, copying several at once."""
        n_replicas, n_rows = rows.shape
        per_copy = max(1, self.rows_at_once // batch_size) * batch_size
        n_whole = n_rows - n_rows % batch_size
        for start in range(0, n_whole, per_copy):
            if self._ahead is not None:
                self._ahead.reach(rows[0], start)
            part = torch.from_numpy(rows[:, start : min(start + per_copy, n_whole)])
            by_batch = part.view(n_replicas, -1, batch_size).transpose(0, 1)
            for examples, labels, domains in zip(*self._take(by_batch), strict=True):
                # Rounding of sums depends on alignment, and a resumed training starts copying at another batch.
                at_line = examples.data_ptr() % LINE == 0
                yield Batch(examples if at_line else examples.clone(), labels, domains)
        if n_whole < n_rows:
            examples, labels, domains = self._take(torch.from_numpy(rows[:, n_whole:]))
            yield Batch(examples, labels, domains)

    def _take(self, rows: Tensor) -> Iterator[Tensor]:
        """Return the examples of the given rows, in the shape of `rows`."""
        # index_select copies entire rows, several times faster than examples[rows]
        flat = rows.reshape(-1).to(self.device)
        return (part.index_select(0, flat).view(*rows.shape, *part.shape[1:]) for part in self._parts)


class LazyPool:
    """Examples read on demand, for one network, in constant memory."""

    rows_at_once = 256
    row_bytes = 0

    def __init__(self, data: DomainDataset, device: str = "cpu") -> None:
        self._examples: LazyExamples = data.examples
        self._labels, self._domains = torch.as_tensor(data.labels), torch.as_tensor(data.domains)
        self._device = torch.device(device)

    @property
    def device(self) -> torch.device:
        """Device of the batches."""
        return self._device

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Raise if there are domain or label codes that an objective does not have."""
        check_codes(self._domains, n_domains, "domain")
        check_codes(self._labels, n_labels, "label")

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield batches of the given rows of the only replica; workers read ahead."""
        (own,) = rows
        blocks = [own[some] for some in row_blocks(len(own), batch_size)]
        for some, block in zip(blocks, self._examples.blocks(blocks), strict=True):
            check_readable(self._examples, some, block)
            parts = (torch.from_numpy(block.values), self._labels[some], self._domains[some])
            examples, labels, domains = (part[None].to(self._device) for part in parts)
            yield Batch(examples, labels, domains)


def check_readable(examples: LazyExamples, rows: NDArray[np.int64], block: Block) -> None:
    """Raise if examples have become unreadable since fit began, which excludes unreadable ones."""
    if block.readable is not None:
        raise no_longer_readable(examples.sources[rows[~block.readable]][0])


def no_longer_readable(source: Any) -> InputError:
    """Return the error for a source that has become unreadable."""
    return InputError(f"{source} was readable when training began, but is not any more; restore it and resume.")


def make_pool(datasets: Sequence[DomainDataset], device: str = "cpu") -> Pool:
    """Return a pool for the datasets: in memory, or lazy if their examples are."""
    if not any(isinstance(data.examples, LazyExamples) for data in datasets):
        return MemoryPool(datasets, device=device)
    if len(datasets) > 1:
        raise InputError("networks on examples that are read on demand are trained one at a time.")
    return LazyPool(datasets[0], device)


class ShuffledBatches:
    """Shuffled batches of every replica's rows, in a new order each epoch.

    Each replica has its own generator, so its batches do not depend on the other replicas. Replicas with fewer rows
    repeat theirs within an epoch. Several processes draw the same order, and each has a part of every batch.
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
        """Yield the batches of one epoch after the first `n_done`; the last one may be smaller."""
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
        """Yield every row once in large blocks, for passes without gradient; each of several processes has a part.

        If a replica has fewer rows than others, a mask marks the examples of a block that are not repetitions.
        """
        part = self.shard.part(self.n_rows)
        first_time = torch.arange(self.n_rows)[part] < torch.tensor([[len(rows)] for rows in self.rows])
        padded = np.stack([np.resize(rows, self.n_rows)[part] for rows in self.rows])
        blocks = self.pool.batches(padded, self.pool.rows_at_once)
        for block, counts in zip(blocks, first_time.split(self.pool.rows_at_once, dim=1), strict=False):
            yield block, None if bool(counts.all()) else counts.to(self.pool.device)

    def remember(self) -> None:
        """Store the generators' states at the start of an epoch, from which it can be repeated."""
        self._states = [rng.bit_generator.state for rng in self.rngs]

    @property
    def states(self) -> list[Any]:
        """The generators' states at the start of the current epoch, as plain data."""
        return self._states

    @states.setter
    def states(self, states: list[Any]) -> None:
        for rng, state in zip(self.rngs, states, strict=True):
            rng.bit_generator.state = state
        self._states = states

    def saved_state(self) -> dict[str, Tensor]:
        """Return other state that later epochs depend on, as named tensors."""
        return {}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""

    def _order(self) -> NDArray[Any]:
        """Return the order of an epoch's rows, (replica, row)."""
        drawn = [self._drawn(rng, rows) for rng, rows in zip(self.rngs, self.rows, strict=True)]
        return drawn[0][None] if len(drawn) == 1 else np.stack(drawn)

    def _drawn(self, rng: np.random.Generator, rows: NDArray[Any]) -> NDArray[Any]:
        n_rounds = -(-self.n_rows // len(rows))
        rounds = [rows[shuffled(len(rows), self.pool.row_bytes, rng)] for _ in range(n_rounds)]
        return rounds[0] if n_rounds == 1 else np.concatenate(rounds)[: self.n_rows]

    def _own_part(self, order: NDArray[Any], batch_size: int) -> Iterator[Batch]:
        """Yield this process's part of complete batches, or a placeholder of two examples."""
        part = self.shard.part_of_batch(batch_size)
        n_own = part.stop - part.start
        own = order.reshape(len(order), -1, batch_size)[:, :, part if n_own else slice(2)]
        for batch in self.pool.batches(own.reshape(len(order), -1), own.shape[2]):
            yield batch._replace(share=n_own / batch_size)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # avoids copying a single large table
