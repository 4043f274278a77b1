from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domaincover.errors import InputError
from tests.paper.theory.one_dimension import (
    HalfLineBounds,
    half_line_bounds,
    impossible_assignment,
    reached_by_half_lines,
    shattered_domains,
)
from tests.paper.theory.shattering import check_shattering

VALUES = st.lists(st.integers(-3, 3), min_size=1, max_size=5)
TARGETS = st.sampled_from([0.1, 0.5, 0.6, 0.9])


def some_domains(n_labels, n_domains):
    return st.lists(st.lists(VALUES, min_size=n_labels, max_size=n_labels), min_size=n_domains, max_size=n_domains)


def is_shattered(bounds):
    return check_shattering(reached_by_half_lines(bounds)).is_shattered


def plain_search(samples, target):
    """Try every threshold between and at the values, both directions, every label alone; then all labels at once."""
    cuts = np.arange(-4, 4.5, 0.5)
    half_lines = [lambda x, a=a: x <= a for a in cuts] + [lambda x, a=a: x >= a for a in cuts]
    by_label = [
        {tuple(np.mean(inside(np.array(domain[y]))) >= target for domain in samples) for inside in half_lines}
        for y in range(len(samples[0]))
    ]
    return {tuple(np.all(kept, axis=0).tolist()) for kept in product(*by_label)}


@settings(deadline=None, max_examples=50)
@given(st.data(), TARGETS, st.integers(1, 2))
def test_the_assignments_reached_are_those_of_a_search_through_all_thresholds(data, target, n_labels):
    samples = data.draw(some_domains(n_labels, data.draw(st.integers(1, 4))))
    reached = reached_by_half_lines(half_line_bounds(samples, target))
    assert {tuple(row) for row in reached.tolist()} == plain_search(samples, target)


@settings(deadline=None, max_examples=50)
@given(st.data(), TARGETS, st.integers(1, 3))
def test_more_than_twice_the_labels_are_not_shattered_and_the_witness_is_missing(data, target, n_labels):
    bounds = half_line_bounds(data.draw(some_domains(n_labels, 2 * n_labels + 1)), target)
    witness = impossible_assignment(bounds)
    assert tuple(witness.assignment) not in {tuple(row) for row in reached_by_half_lines(bounds)}
    assert witness.assignment[witness.extremes].all()
    assert not witness.assignment[witness.beside]


def test_with_one_label_no_order_of_three_domains_is_shattered_and_half_of_those_of_two_are():
    """What is reached depends on the orders of the bounds only, ties apart, and a tie is one order less."""
    orders = {n: [np.array(order, dtype=float)[:, None] for order in permutations(range(n))] for n in (2, 3)}
    shattered = {
        n: [is_shattered(HalfLineBounds(upper, lower)) for upper, lower in product(orders[n], repeat=2)] for n in (2, 3)
    }
    assert not any(shattered[3])
    assert sum(shattered[2]) == 2


@pytest.mark.parametrize("n_labels", [1, 2, 3, 4])
@pytest.mark.parametrize("target", [0.1, 0.5, 0.51, 0.9, 0.999])
def test_twice_the_labels_can_be_shattered(n_labels, target):
    bounds = shattered_domains(n_labels, target)
    assert bounds.upper.shape == (2 * n_labels, n_labels)
    assert is_shattered(bounds)
    with pytest.raises(InputError, match=f"all {2 * n_labels} domains are extreme"):
        impossible_assignment(bounds)
