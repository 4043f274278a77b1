import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.prediction_sets import (
    check_target_recall,
    covers,
    hits_needed,
    recall_by_cell,
    set_sizes,
    sets_from_scores,
    single_label_sets,
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


def test_recall_of_an_empty_cell_is_nan():
    sets = np.array([[True, False], [False, True], [False, False]])
    recall = recall_by_cell(sets, np.array([0, 0, 1]), np.array([0, 0, 2]), n_domains=3)
    assert np.array_equal(recall, [[0.5, np.nan], [np.nan, np.nan], [np.nan, 0.0]], equal_nan=True)


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
    assert covers(sets, np.array([1, 1])).tolist() == [True, False]
