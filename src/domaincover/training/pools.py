"""Examples in memory, on disk or read on demand: drawn in batches by the replicas of a stack, or scored in blocks."""

from __future__ import annotations

import mmap
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import LazyExamples, row_blocks
from domaincover.errors import InputError
from domaincover.training.objectives import check_codes

LINE = 64  # bytes; torch aligns its allocations to multiples of it
BLOCK_BYTES = 1 << 28  # of rows that are shuffled together, or announced to the disk: what must stay in memory
LEAST_RUN = 8  # rows that lie together on average; fewer are not worth a call for each


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
        self._ahead = ReadAhead.of(datasets[0].examples) if len(datasets) == 1 else None

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


class ReadAhead:
    """Announces the rows of a mapped matrix a block ahead, and only these.

    The system by itself would read megabytes around every row that it finds missing, most of them in vain.
    """

    def __init__(self, matrix: np.memmap[Any, Any]) -> None:
        self._map: mmap.mmap = matrix._mmap  # type: ignore[attr-defined]
        self._row_bytes, self._n_rows = matrix[:1].nbytes, len(matrix)
        self._rows_at_once = max(1, BLOCK_BYTES // max(self._row_bytes, 1))
        self._told = 0
        self._map.madvise(mmap.MADV_RANDOM)

    @staticmethod
    def of(examples: Any) -> ReadAhead | None:
        """Return the announcer of a matrix; None if it is in memory, or the system takes no announcements."""
        is_mapped = getattr(examples, "_mmap", None) is not None and getattr(examples, "offset", 1) == 0
        return ReadAhead(examples) if is_mapped and hasattr(mmap, "MADV_WILLNEED") else None

    def reach(self, rows: NDArray[np.int64], start: int) -> None:
        """Announce rows up to a block after `start`, those before which have been visited."""
        if start == 0:
            self._told = 0
        while self._told < min(start + self._rows_at_once, len(rows)):
            self._announce(rows[self._told : self._told + self._rows_at_once])
            self._told += self._rows_at_once

    def _announce(self, rows: NDArray[np.int64]) -> None:
        is_next = np.zeros(self._n_rows, dtype=bool)
        is_next[rows] = True
        ordered = np.flatnonzero(is_next)
        starts = np.flatnonzero(np.diff(ordered, prepend=-2) > 1)
        if len(starts) > max(len(ordered) // LEAST_RUN, 1):
            return
        firsts = ordered[starts] * self._row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        ends = (ordered[np.append(starts[1:], len(ordered)) - 1] + 1) * self._row_bytes
        for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
            self._map.madvise(mmap.MADV_WILLNEED, first, end - first)


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
