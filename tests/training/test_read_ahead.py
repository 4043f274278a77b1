import mmap

import numpy as np
import pytest

from domaincover.data.dataset import DomainDataset
from domaincover.training import batches
from domaincover.training.batches import MemoryPool, ReadAhead

N_ROWS, N_FEATURES = 5003, 7  # rows that end within a page, and a file that does


class Announced(mmap.mmap):
    """A file in memory that notes which of its bytes were announced."""

    def madvise(self, *arguments):
        self.__dict__.setdefault("told", []).append(arguments)
        super().madvise(*arguments)


@pytest.fixture
def matrix(tmp_path):
    values = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
    values.tofile(tmp_path / "matrix")
    return np.memmap(tmp_path / "matrix", np.float32, "r+", shape=values.shape)


@pytest.fixture
def announced(matrix, monkeypatch):
    """The bytes announced by an announcer with blocks of 1,000 rows."""
    monkeypatch.setattr(batches, "BLOCK_BYTES", 1000 * N_FEATURES * 4)
    with open(matrix.filename, "r+b") as file:
        matrix._mmap = Announced(file.fileno(), 0)
    ahead = ReadAhead.of(matrix)

    def after(rows, start):
        matrix._mmap.told.clear()
        ahead.reach(rows, start)
        is_told = np.zeros(matrix.nbytes, dtype=bool)
        for advice, first, length in matrix._mmap.told:
            assert (advice, first % mmap.PAGESIZE) == (mmap.MADV_WILLNEED, 0)
            is_told[first : first + length] = True
        return is_told

    return after


def bytes_of(rows):
    needed = np.zeros((N_ROWS, N_FEATURES * 4), dtype=bool)
    needed[rows] = True
    return needed.reshape(-1)


def test_a_pass_in_order_is_announced_a_block_ahead_and_once(announced):
    rows = np.arange(N_ROWS)
    told = announced(rows, 0)
    assert told[bytes_of(rows[:1000])].all()
    assert not told[bytes_of(rows[1200:])].any()
    assert not announced(rows, 1)[bytes_of(rows[2200:])].any()
    assert not announced(rows, 2).any()
    assert announced(rows, 4100)[bytes_of(rows[-1:])].all()  # the file's last bytes, within a page


def test_a_new_epoch_starts_again(announced):
    rows = np.arange(N_ROWS)
    announced(rows, 4900)
    assert announced(rows, 0)[bytes_of(rows[:1000])].all()


def test_runs_of_rows_are_announced_and_little_between_them(announced):
    runs = np.array([4000, 100, 2000])[:, None] + np.arange(300)
    told = announced(np.random.default_rng(0).permutation(runs.reshape(-1)), 0)
    assert told[bytes_of(runs.reshape(-1))].all()
    assert told.sum() <= runs.size * N_FEATURES * 4 + 3 * mmap.PAGESIZE


def test_rows_that_lie_anywhere_are_not_announced_one_by_one(announced):
    assert not announced(np.arange(0, N_ROWS, 3), 0).any()


def test_only_mapped_matrices_have_an_announcer(matrix):
    assert ReadAhead.of(np.zeros((3, 2), dtype=np.float32)) is None
    assert ReadAhead.of(matrix.astype(np.float64)) is None  # a memmap by name only
    assert ReadAhead.of(matrix) is not None


def test_batches_of_a_mapped_matrix_are_those_of_memory(matrix):
    codes = np.zeros(N_ROWS, dtype=np.int64)
    pools = [MemoryPool([DomainDataset(part, codes, codes, (0,), (0,))]) for part in (matrix, np.array(matrix))]
    rows = np.random.default_rng(0).permutation(N_ROWS)[None]
    for one, other in zip(*(pool.batches(rows, 100) for pool in pools), strict=True):
        assert (one.examples == other.examples).all()
