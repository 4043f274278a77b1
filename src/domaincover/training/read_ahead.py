"""Have the disk read the rows of a memory-mapped matrix before training needs them."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.training.shuffling import BLOCK_BYTES

LEAST_RUN = 8  # rows that lie together on average; fewer are not worth a call for each


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
