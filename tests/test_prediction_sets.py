import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.prediction_sets import (
    check_target_recall,
    covers,
    hits_needed,
    is_hardly_better_than_lot,
    set_sizes,
    sets_from_scores,
    single_label_sets,
    size_by_lot,
)


@given(
    st.integers(1, 10_000),
    st.one_of(st.floats(0.001, 0.999), st.integers(1, 999).map(lambda k: k / 1000)),
)
def test_hits_needed_is_the_smallest_count_whose_share_reaches_the_target(n, target):
    needed = int(hits_needed(n, target))
    assert needed / n >= target
    assert (needed - 1) / n < target


def test_no_hit_is_needed_where_there_is_no_example():
    assert hits_needed(np.array([0, 10]), 0.9).tolist() == [0, 9]


@pytest.mark.parametrize("target", [90, 1.0, 0.0, -0.1, float("nan")])
def test_target_recall_outside_zero_one_is_refused(target):
    with pytest.raises(InputError, match=f"between 0 and 1, got {target:g}"):
        check_target_recall(target)


def test_a_label_is_in_the_set_when_its_score_equals_the_threshold():
    sets = sets_from_scores(np.array([[1.0, 2.0], [0.9, 2.1]]), np.array([1.0, 2.1]))
    assert sets.tolist() == [[True, False], [False, True]]


def test_single_label_sets_hold_the_first_of_the_highest_scores():
    assert single_label_sets(np.array([[1.0, 3.0, 3.0], [4.0, 0.0, 0.0]])).tolist() == [
        [False, True, False],
        [True, False, False],
    ]


def test_sizes_and_coverage_are_read_off_the_sets():
    sets = np.array([[True, True, False], [False, False, False]])
    assert set_sizes(sets).tolist() == [2, 0]
    assert set_sizes(np.ones((2, 300), bool)).tolist() == [300, 300]
    assert set_sizes(sets[:, ::2]).tolist() == [1, 0]
    assert covers(sets, np.array([1, 1])).tolist() == [True, False]


def test_sets_by_lot_have_the_size_and_recall_of_their_probability():
    rng = np.random.default_rng(0)
    sets = rng.random((20_000, 4)) < 0.8
    labels = rng.integers(4, size=len(sets))
    error = 4 * np.sqrt(0.8 * 0.2 / len(sets))  # four standard errors of a share, twice that of a size of four labels
    assert abs(covers(sets, labels).mean() - 0.8) < error
    assert abs(set_sizes(sets).mean() - size_by_lot(4, 0.8)) < 2 * error
    assert is_hardly_better_than_lot(set_sizes(sets).mean(), size_by_lot(4, covers(sets, labels).mean()))


def test_sets_that_save_more_than_a_tenth_are_better_than_by_lot():
    np.testing.assert_array_equal(is_hardly_better_than_lot([1.61, 1.63], 1.8), [False, True])
