"""Examples that are read as they are needed: images by their paths, texts as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Block(NamedTuple):
    """Some examples as an array, and which of them could be read; None means all."""

    values: NDArray[Any]
    readable: NDArray[np.bool_] | None = None


class Reader(Protocol):
    """Reads sources such as paths or texts. Plain data, so that worker processes can be given one."""

    def __call__(self, sources: NDArray[Any]) -> Block:
        """Return the examples behind the sources, in their order."""
        ...


class LazyExamples:
    """Sources, and what reads them; a part of them is taken as from an array, and nothing is read until `blocks`.

    >>> class Lengths:
    ...     def __call__(self, sources):
    ...         return Block(np.array([len(source) for source in sources]))
    >>> words = LazyExamples(np.array(["a", "bb", "ccc"], dtype=object), Lengths())
    >>> [block.values.tolist() for block in words[1:].blocks([np.array([0, 1]), np.array([0])])]
    [[2, 3], [2]]
    """

    def __init__(self, sources: NDArray[Any], read: Reader, workers: int = 0) -> None:
        self.sources, self.read, self.workers = sources, read, workers

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, rows: Any) -> LazyExamples:
        return LazyExamples(self.sources[rows], self.read, self.workers)

    def blocks(self, rows: Iterable[NDArray[np.int64]]) -> Iterator[Block]:
        """Yield the examples of each of the given blocks of rows; workers, if there are any, read ahead."""
        for some in rows:
            yield self.read(self.sources[some])
