"""Examples that are read on demand, such as images by path or texts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError

KEPT_BYTES = 1 << 28  # of images in memory while a network trains; more are read anew in every epoch


class Block(NamedTuple):
    """A block of examples as an array, and a mask of those that could be read (None means all)."""

    values: NDArray[Any]
    readable: NDArray[np.bool_] | None = None

    def some(self, rows: Any) -> Block:
        """Return some rows of a block."""
        readable = None if self.readable is None else self.readable[rows]
        return Block(self.values[rows], None if readable is None or readable.all() else readable)


class Reader(Protocol):
    """Read sources such as paths or texts; must be plain data that can be sent to worker processes."""

    def __call__(self, sources: NDArray[Any]) -> Block:
        """Return the examples of the given sources, in order."""
        ...


class LazyExamples:
    """Sources and their reader; indexed like an array, and read only by `blocks`.

    >>> class Lengths:
    ...     def __call__(self, sources):
    ...         return Block(np.array([len(source) for source in sources]))
    >>> words = LazyExamples(np.array(["a", "bb", "ccc"], dtype=object), Lengths())
    >>> [block.values.tolist() for block in words[1:].blocks([np.array([0, 1]), np.array([0])])]
    [[2, 3], [2]]
    """

    def __init__(self, sources: NDArray[Any], read: Reader, workers: int = 0, in_memory: Block | None = None) -> None:
        self.sources, self.read, self.workers = sources, read, workers
        self._in_memory = in_memory

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, rows: Any) -> LazyExamples:
        in_memory = None if self._in_memory is None else self._in_memory.some(rows)
        return LazyExamples(self.sources[rows], self.read, self.workers, in_memory)

    def blocks(self, rows: Iterable[NDArray[np.int64]]) -> Iterator[Block]:
        """Yield the examples of each block of rows; worker processes, if any, read ahead."""
        if self._in_memory is not None:
            yield from map(self._in_memory.some, rows)
        elif self.workers == 0:
            for some in rows:
                yield self.read(self.sources[some])
        else:
            yield from self._blocks_by_workers(rows)

    def kept(self) -> LazyExamples:
        """Return image files of which all fit into `KEPT_BYTES` as images in memory; other examples as they are."""
        if len(self) == 0 or self.sources.dtype != object:
            return self
        one = self.read(self.sources[:1]).values
        if one.dtype != np.uint8 or one.nbytes * len(self) > KEPT_BYTES:
            return self
        blocks = list(self.blocks(row_blocks(len(self), 64)))
        readable = [np.ones(len(values), bool) if mask is None else mask for values, mask in blocks]
        kept = Block(np.concatenate([values for values, _ in blocks]), np.concatenate(readable))
        return LazyExamples(self.sources, self.read, in_memory=kept)

    def _blocks_by_workers(self, rows: Iterable[NDArray[np.int64]]) -> Iterator[Block]:
        import torch
        from torch.utils.data import DataLoader

        loader: Any = DataLoader(
            _Rows(self.sources, self.read),  # type: ignore[arg-type]
            batch_sampler=rows,  # type: ignore[arg-type]
            num_workers=self.workers,
            collate_fn=_identity,
            generator=torch.Generator(),  # otherwise each pass would advance the global generator
        )
        try:
            for block in loader:
                if isinstance(block, InputError):
                    raise block
                yield block
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise InputError(
                "a worker process that reads examples was killed, possibly out of memory; use fewer workers."
            ) from None


class _Rows:
    """Dataset for the workers of a DataLoader.

    Texts are stored as one array of bytes: with Python strings, reference counting would make every worker copy the
    memory pages it reads.
    """

    def __init__(self, sources: NDArray[Any], read: Reader) -> None:
        self._are_texts = sources.dtype == object and all(type(source) is str for source in sources)
        self._sources = np.array([*map(os.fsencode, sources)]) if self._are_texts else sources
        self._read = read

    def __len__(self) -> int:
        return len(self._sources)

    def __getitems__(self, rows: NDArray[np.int64]) -> Block | InputError:
        some = self._sources[rows]
        if self._are_texts:
            some = np.array([*map(os.fsdecode, some), None], dtype=object)[:-1]  # None keeps a single text whole
        try:
            return self._read(some)
        except InputError as error:  # returned, since the loader would wrap it in a traceback
            return error


def _identity(block: Any) -> Any:
    return block


def row_blocks(n_rows: int, rows_at_once: int) -> Iterator[NDArray[np.int64]]:
    """Yield consecutive row indices in blocks of `rows_at_once`."""
    for start in range(0, n_rows, rows_at_once):
        yield np.arange(start, min(start + rows_at_once, n_rows))


def fingerprint(examples: NDArray[Any] | LazyExamples) -> bytes:
    """Return a digest of examples; for lazy ones, of their sources (with size and time of files) and reader."""
    digest = hashlib.blake2b(digest_size=16)
    values: Any = examples
    if isinstance(examples, LazyExamples):
        digest.update(repr(examples.read).encode())
        values = examples.sources
    if values.dtype == object:
        for source in values:
            digest.update(f"{source}\0{_stamp(source)}\0".encode("utf-8", "surrogateescape"))
    else:
        digest.update(np.ascontiguousarray(values).data)
    return digest.digest()


def _stamp(source: Any) -> str:
    """Return a file's size and modification time; an empty string for a text."""
    try:
        found = os.stat(source)
    except (OSError, ValueError, TypeError):
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"


def default_workers() -> int:
    """Return the default number of worker processes: the number of cores, at most four."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 4)
