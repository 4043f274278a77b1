"""Examples in memory, on disk or read on demand, and batches of them: shuffled, or of a few domains each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples, row_blocks
from domaincover.errors import InputError
from domaincover.training.objectives import check_codes

LINE = 64  # bytes; torch aligns its allocations to multiples of it
BLOCK_BYTES = 1 << 28  # of rows that are shuffled together: what must stay in memory
RUN_BYTES = 1 << 16  # neighbours that are visited together: reading so much takes a disk little longer than one page


class Batch(NamedTuple):
    """Examples, label codes and domain codes of every replica: (replica, example, …)."""

    examples: Tensor
    labels: Tensor
    domains: Tensor


class Pool:
    """The examples from which replicas draw their rows."""

    rows_at_once: ClassVar[int]  # in passes without gradient
    row_bytes: int = 0  # of an example; 0 where it makes no difference which ones are read together

    def __init__(self, labels: Tensor, domains: Tensor, device: str) -> None:
        self._labels, self._domains, self.device = labels, domains, torch.device(device)

    def check_codes(self, n_domains: int, n_labels: int) -> None:
        """Raise if there are domain or label codes that an objective does not have."""
        check_codes(self._domains, n_domains, "domain")
        check_codes(self._labels, n_labels, "label")

    @abstractmethod
    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield batches of the given rows, (replica, row); the last batch may be smaller."""


class MemoryPool(Pool):
    """Concatenated arrays of several datasets, on the device."""

    rows_at_once = 4096  # copied at once per replica: fewer calls with bounded memory

    def __init__(
        self, datasets: Sequence[DomainDataset], dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> None:
        parts = zip(*((data.examples, data.labels, data.domains) for data in datasets), strict=True)
        examples, labels, domains = ([torch.as_tensor(values) for values in part] for part in parts)
        super().__init__(_joined(labels).to(device), _joined(domains).to(device), device)
        self._examples = _joined([part.to(dtype) for part in examples]).to(device)
        self.row_bytes = self._examples[:1].nbytes

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield batches of the given rows, copying several at once."""
        n_replicas, n_rows = rows.shape
        per_copy = max(1, self.rows_at_once // batch_size) * batch_size
        n_whole = n_rows - n_rows % batch_size
        for start in range(0, n_whole, per_copy):
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
        flat, parts = rows.reshape(-1).to(self.device), (self._examples, self._labels, self._domains)
        return (part.index_select(0, flat).view(*rows.shape, *part.shape[1:]) for part in parts)


class LazyPool(Pool):
    """Examples read on demand, for one network, in constant memory."""

    rows_at_once = 256

    def __init__(self, data: DomainDataset, device: str = "cpu") -> None:
        super().__init__(torch.as_tensor(data.labels), torch.as_tensor(data.domains), device)
        self._examples: LazyExamples = data.examples

    def batches(self, rows: NDArray[np.int64], batch_size: int) -> Iterator[Batch]:
        """Yield batches of the given rows of the only replica; workers read ahead."""
        (own,) = rows
        blocks = [own[some] for some in row_blocks(len(own), batch_size)]
        for some, block in zip(blocks, self._examples.blocks(blocks), strict=True):
            if block.readable is not None:
                raise no_longer_readable(self._examples.sources[some[~block.readable]][0])
            parts = (torch.from_numpy(block.values), self._labels[some], self._domains[some])
            examples, labels, domains = (part[None].to(self.device) for part in parts)
            yield Batch(examples, labels, domains)


def no_longer_readable(source: Any) -> InputError:
    """Return the error for a source that has become unreadable since fit began, which excludes unreadable ones."""
    return InputError(f"{source} was readable when training began, but is not any more; restore it and resume.")


def make_pool(datasets: Sequence[DomainDataset], device: str = "cpu") -> Pool:
    """Return a pool for the datasets: in memory, or lazy if their examples are."""
    if not any(isinstance(data.examples, LazyExamples) for data in datasets):
        return MemoryPool(datasets, device=device)
    if len(datasets) > 1:
        raise InputError("networks on examples that are read on demand are trained one at a time.")
    return LazyPool(datasets[0], device)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # avoids copying a single large table


@torch.no_grad()
def score(
    network: Callable[[Tensor], Tensor],
    examples: NDArray[Any] | LazyExamples,
    device: torch.device | str = "cpu",
    rows_at_once: int = 65_536,
) -> NDArray[Any]:
    """Return a network's scores, (example, label), computed in blocks; lazy examples are read on demand.

    Unreadable examples score infinity for every label.
    """
    dtype = torch.float32
    if isinstance(network, nn.Module) and (weights := next(network.eval().parameters(), None)) is not None:
        device, dtype = weights.device, weights.dtype
    if not isinstance(examples, LazyExamples):
        rows = row_blocks(len(examples), rows_at_once)
        blocks = [network(torch.as_tensor(examples[some[0] : some[-1] + 1]).to(device, dtype)).cpu() for some in rows]
        return torch.cat(blocks).numpy()
    scores = []
    for block in examples.blocks(row_blocks(len(examples), LazyPool.rows_at_once)):
        some = network(torch.from_numpy(block.values).to(device)).float().cpu()
        if block.readable is not None:  # nothing is known of them, so their sets contain every label
            some[torch.from_numpy(~block.readable)] = torch.inf
        scores.append(some)
    return torch.cat(scores).numpy()


class ShuffledBatches:
    """Shuffled batches of every replica's rows, in a new order each epoch.

    Each replica has its own generator, so its batches do not depend on the other replicas. Replicas with fewer rows
    repeat theirs within an epoch.
    """

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

    def epoch(self, n_done: int = 0) -> Iterator[Batch]:
        """Yield the batches of one epoch after the first `n_done`; the last one may be smaller."""
        yield from self.pool.batches(self._order()[:, n_done * self.batch_size :], self.batch_size)

    def in_order(self) -> Iterator[tuple[Batch, Tensor | None]]:
        """Yield every row once in large blocks, for passes without gradient.

        If a replica has fewer rows than others, a mask marks the examples of a block that are not repetitions.
        """
        first_time = torch.arange(self.n_rows) < torch.tensor([[len(rows)] for rows in self.rows])
        padded = np.stack([np.resize(rows, self.n_rows) for rows in self.rows])
        blocks = self.pool.batches(padded, self.pool.rows_at_once)
        for block, counts in zip(blocks, first_time.split(self.pool.rows_at_once, dim=1), strict=False):
            yield block, None if bool(counts.all()) else counts.to(self.pool.device)

    def skip(self, n_epochs: int) -> None:
        """Draw the order of some epochs in vain, so that the next one is that of a training which had them."""
        for _ in range(n_epochs):
            self._order()

    def _order(self) -> NDArray[Any]:
        """Return the order of an epoch's rows, (replica, row)."""
        drawn = [self._drawn(rng, rows) for rng, rows in zip(self.rngs, self.rows, strict=True)]
        return drawn[0][None] if len(drawn) == 1 else np.stack(drawn)

    def _drawn(self, rng: np.random.Generator, rows: NDArray[Any]) -> NDArray[Any]:
        n_rounds = -(-self.n_rows // len(rows))
        rounds = [rows[shuffled(len(rows), self.pool.row_bytes, rng)] for _ in range(n_rounds)]
        return rounds[0] if n_rounds == 1 else np.concatenate(rounds)[: self.n_rows]


def shuffled(
    n_rows: int, row_bytes: int, rng: np.random.Generator, run_bytes: int = RUN_BYTES, block_bytes: int = BLOCK_BYTES
) -> NDArray[np.int64]:
    """Return the rows of a matrix in random order; those of a large one block by block.

    A block consists of runs of neighbouring rows from anywhere in the matrix, drawn anew each time, and its rows are
    in random order. So a matrix larger than memory is read from disk once, in runs. The order depends on the size of
    the matrix and not on where it is, so that training on disk gives what training in memory gives.

    >>> shuffled(12, row_bytes=4, rng=np.random.default_rng(0), run_bytes=8, block_bytes=24)
    array([10, 11,  7,  4,  6,  5,  1,  0,  8,  3,  2,  9])
    """
    per_block = max(1, block_bytes // max(row_bytes, 1))
    if n_rows <= per_block:
        return rng.permutation(n_rows)
    per_run = max(1, run_bytes // row_bytes)
    runs = rng.permutation(-(-n_rows // per_run))
    order = (runs[:, None] * per_run + np.arange(per_run)).reshape(-1)
    if n_rows % per_run:
        order = order[order < n_rows]
    for start in range(0, n_rows, per_block):
        rng.shuffle(order[start : start + per_block])
    return order


class DomainBatches(ShuffledBatches):
    """Batches of `domains_per_batch` distinct, alternating domains with equally many examples of each, at least two.

    An epoch has as many batches as with `ShuffledBatches`; the batch size is a multiple of the number of domains.
    Domains are drawn equally often whatever their size, the least used first in random order, and so are the examples
    of a domain. A domain with too few examples for a batch repeats an even number of them, so that its even and odd
    examples are never the same. With fewer domains than requested, every batch has all of them, with more of each.
    """

    def __init__(
        self,
        pool: Pool,
        rows: Sequence[NDArray[Any]],
        domains: Sequence[NDArray[Any]],
        batch_size: int,
        rngs: Sequence[np.random.Generator],
        domains_per_batch: int = 4,
    ) -> None:
        """Initialise; `domains` are the domain codes of each replica's rows."""
        if domains_per_batch < 1:
            raise InputError(f"domains_per_batch must be at least 1, got {domains_per_batch}.")
        super().__init__(pool, rows, batch_size, rngs)
        self._samplers = [_RowSampler(own, rng) for own, rng in zip(domains, rngs, strict=True)]
        self.domains_per_batch = min(domains_per_batch, *(sampler.n_domains for sampler in self._samplers))
        per_domain = max(self.batch_size // self.domains_per_batch, 2)
        self.batch_size = per_domain * self.domains_per_batch
        self.n_batches = -(-self.n_rows // self.batch_size)

    def _order(self) -> NDArray[Any]:
        shape = self.n_batches, self.domains_per_batch, self.batch_size // self.domains_per_batch
        return np.stack([rows[sampler.draw(*shape)] for rows, sampler in zip(self.rows, self._samplers, strict=True)])


class _RowSampler:
    """Draw the rows of one replica, and remember how often each of them and each domain has been used."""

    def __init__(self, domains: NDArray[Any], rng: np.random.Generator) -> None:
        names, self._domains, self._sizes = np.unique(domains, return_inverse=True, return_counts=True)
        if self._sizes.min() < 2:
            raise InputError(f"domain {names[self._sizes.argmin()]} has one example; at least two are needed.")
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._rng = rng
        self.n_domains = len(self._sizes)
        self._uses, self._uses_of_domains = (np.zeros(n, dtype=np.int64) for n in (len(domains), self.n_domains))

    def draw(self, n_batches: int, n_domains: int, n_examples: int) -> NDArray[np.int64]:
        """Return positions among the rows, batch by batch, with alternating domains in each."""
        drawn = self._drawn_domains(n_batches, n_domains)
        lead = self._lead()
        by_domain = np.argsort(self._domains * (lead.max() + 1.0) + lead + self._rng.random(len(lead)))
        cycles = np.where(self._sizes < n_examples, self._sizes - self._sizes % 2, n_examples)[drawn]
        times_before = pd.Series(drawn.reshape(-1)).groupby(drawn.reshape(-1)).cumcount()
        first = times_before.to_numpy().reshape(drawn.shape) * cycles
        nth = first[:, None, :] + np.arange(n_examples)[:, None] % cycles[:, None, :]  # batch, turn, domain
        positions = by_domain[self._starts[drawn][:, None, :] + nth % self._sizes[drawn][:, None, :]].reshape(-1)
        self._uses += np.bincount(positions, minlength=len(lead))
        return positions

    def _lead(self) -> NDArray[np.int64]:
        """Return how much more often each row was used than the least used of its domain."""
        least = np.full(self.n_domains, self._uses.max())
        np.minimum.at(least, self._domains, self._uses)
        return self._uses - least[self._domains]

    def _drawn_domains(self, n_batches: int, n_domains: int) -> NDArray[np.int64]:
        """Return distinct domains for every batch, drawn in rounds of all domains, the least used first."""
        per_round, rounds = self.n_domains // n_domains, []
        for first in range(0, n_batches, per_round):
            n_drawn = min(per_round, n_batches - first) * n_domains
            drawn = np.argsort(self._uses_of_domains + self._rng.random(self.n_domains))[:n_drawn]
            drawn = self._rng.permutation(drawn)
            self._uses_of_domains[drawn] += 1
            rounds.append(drawn)
        return np.concatenate(rounds).reshape(-1, n_domains)
