import numpy as np
import pytest

from domaincover.training.batches import shuffled

ROWS, ROW, RUN, BLOCK = 100_003, 40, 400, 80_000  # runs of 10 rows, blocks of 2,000


def in_blocks(seed=0, n_rows=ROWS):
    return shuffled(n_rows, ROW, np.random.default_rng(seed), RUN, BLOCK)


def test_a_matrix_of_one_block_is_in_the_order_of_a_permutation():
    order = shuffled(2000, ROW, np.random.default_rng(3), RUN, BLOCK)
    assert np.array_equal(order, np.random.default_rng(3).permutation(2000))


def test_examples_without_a_size_are_in_the_order_of_a_permutation():
    assert np.array_equal(shuffled(50, 0, np.random.default_rng(3)), np.random.default_rng(3).permutation(50))


@pytest.mark.parametrize("n_rows", [2001, 2010, ROWS])
def test_every_row_comes_once(n_rows):
    assert np.array_equal(np.sort(in_blocks(n_rows=n_rows)), np.arange(n_rows))


def test_a_row_larger_than_a_run_or_a_block_is_a_run_of_its_own():
    assert sorted(shuffled(7, 100, np.random.default_rng(0), 30, 30)) == list(range(7))


def test_a_block_has_whole_runs_and_other_ones_each_time():
    first, second = (set(in_blocks(seed)[:2000] // 10) for seed in (0, 1))
    assert len(first) <= 201  # 2,000 rows of 10, and the run that the last row of all is alone in
    assert len(first & second) < 20  # of 200 runs among 10,001, four are expected in both


def test_a_block_is_from_everywhere_and_in_no_order():
    order = in_blocks().astype(float)
    for block in np.split(order[: 50 * 2000], 50):
        # The mean of 200 random runs is that of all rows, within four standard deviations
        assert abs(block.mean() - ROWS / 2) < 4 * ROWS / np.sqrt(12 * 200)
    nearby = np.corrcoef(order[:-1], order[1:])[0, 1]
    assert abs(nearby) < 4 / np.sqrt(200)  # blocks differ in their means, rows within a block do not follow each other
