import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from domaincover.errors import InputError
from tests.paper.theory.shattering import check_shattering, members, performs_well, subset_numbers

TABLES = st.integers(1, 4).flatmap(lambda n: arrays(bool, st.tuples(st.integers(0, 20), st.just(n))))


def test_all_subsets_of_three_domains_are_shattered():
    found = check_shattering(members(np.arange(8), 3))
    assert found.is_shattered
    assert found.missing.shape == (0, 3)
    assert found.n_domains == 3


@settings(deadline=None, max_examples=60)
@given(TABLES)
def test_reached_and_missing_subsets_are_those_of_a_plain_search(table):
    found = check_shattering(table)
    reached = {tuple(row) for row in table.tolist()}
    missing = {tuple(row) for row in found.missing.tolist()}
    assert missing == {tuple(row) for row in members(np.arange(2 ** table.shape[1]), table.shape[1]).tolist()} - reached
    assert found.n_reached == len(reached)
    assert found.is_shattered == (not missing)


@settings(deadline=None, max_examples=60)
@given(TABLES)
def test_the_named_hypothesis_is_the_first_that_performs_well_on_exactly_the_subset(table):
    for number, hypothesis in enumerate(check_shattering(table).hypothesis):
        if hypothesis >= 0:
            wanted = members(number, table.shape[1])
            assert hypothesis == min(np.flatnonzero((table == wanted).all(axis=1)))


@settings(deadline=None, max_examples=60)
@given(arrays(bool, st.tuples(st.integers(0, 5), st.integers(1, 24))))
def test_numbers_and_members_of_subsets_are_inverse(chosen):
    np.testing.assert_array_equal(members(subset_numbers(chosen), chosen.shape[1]), chosen)


def test_a_domain_needs_every_label_that_it_has_at_target():
    recall = [[[0.9, 0.95], [0.89, 1.0], [np.nan, 0.9]]]
    np.testing.assert_array_equal(performs_well(recall, 0.9), [[True, False, True]])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 1]], "expected booleans .*, got int64"),
        ([True, False], r"got bool of shape \(2,\)"),
        (np.zeros((1, 25), dtype=bool), "from 1 to 24, got 25"),
        (np.zeros((1, 0), dtype=bool), "got 0"),
    ],
)
def test_tables_that_cannot_be_checked_are_refused(table, message):
    with pytest.raises(InputError, match=message):
        check_shattering(table)
