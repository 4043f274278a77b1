"""The order in which an epoch visits rows: any order for a small matrix, in blocks for one that may be on disk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RUN_BYTES = 1 << 16  # neighbours that are visited together: reading so much takes a disk little longer than one page
BLOCK_BYTES = 1 << 28  # of runs that are shuffled together: what must stay in memory at a time


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
