"""The learning bounds: growth by enumeration, the inequalities they solve, and what they promise by simulation."""

import bisect
import math
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domaincover.paper.theory import log_growth, no_failure_bound, uniform_bound
from tests.documents import ROOT

BOUNDS = pytest.mark.parametrize("bound", [uniform_bound, no_failure_bound])


def domains_for(bound, epsilon, *arguments):
    """Return the smallest number of domains for which a bound is epsilon or less."""
    return bisect.bisect_left(range(1, 10**6), True, key=lambda m: bound(m, *arguments) <= epsilon) + 1


# Growth


def exact_sum(n, dimension):
    return sum(math.comb(n, k) for k in range(dimension + 1))


@given(st.integers(1, 10**6), st.integers(1, 200))
def test_the_growth_of_one_label_is_sauers_sum(n, dimension):
    expected = math.log(exact_sum(n, dimension)) if n > dimension else n * math.log(2)
    assert log_growth(n, dimension) == pytest.approx(min(expected, n * math.log(2)), rel=1e-12)


@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 10))
def test_the_growth_of_labels_together_is_the_product_and_never_exceeds_all_subsets(n, dimension, n_labels):
    of_label = log_growth(n, dimension)
    assert log_growth(n, dimension, n_labels) == min(n_labels * of_label, n * math.log(2))


def interval_subsets(values):
    """Return the subsets of the points that an interval holds, as masks."""
    order, subsets = np.argsort(values), {(False,) * len(values)}
    for low, high in product(range(len(values)), repeat=2):
        if low <= high:
            mask = np.zeros(len(values), bool)
            mask[order[low : high + 1]] = True
            subsets.add(tuple(mask.tolist()))
    return subsets


@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_no_more_subsets_are_reached_than_the_growth_allows_by_enumeration(n_labels):
    """Of each label, the domains at target lie in an interval of a number of their own: VC dimension 2."""
    rng, most = np.random.default_rng(0), 0
    for n in (3, 5, 8):
        by_label = [[np.array(subset) for subset in interval_subsets(rng.random(n))] for _ in range(n_labels)]
        reached = {tuple(np.all(choice, axis=0).tolist()) for choice in product(*by_label)}
        assert len(reached) <= round(math.exp(log_growth(n, 2, n_labels)))
        most = max(most, len(reached) / math.exp(log_growth(n, 2, n_labels)))
        if n_labels == 1:
            assert len(reached) == exact_sum(n, 2)
        else:  # the sum for one label would not be enough
            assert len(reached) > exact_sum(n, 2) or n == 3


# The inequalities


@given(st.integers(1, 200), st.floats(1e-2, 0.5), st.floats(1e-4, 0.5))
def test_no_failure_takes_no_more_domains_than_the_closed_form_of_blumer_and_others(dimension, epsilon, delta):
    closed = max(4 / epsilon * math.log2(2 / delta), 8 * dimension / epsilon * math.log2(13 / epsilon))
    assert no_failure_bound(math.ceil(closed), dimension, 1, delta) <= epsilon


@pytest.mark.parametrize(("bound", "n_domains"), [(no_failure_bound, 36_328), (uniform_bound, 1_459_893)])
def test_the_numbers_of_domains_on_the_theory_page_are_the_smallest(bound, n_domains):
    assert bound(n_domains, 51, 3, 0.05) <= 0.1 < bound(n_domains - 1, 51, 3, 0.05)


def test_the_table_of_the_theory_page_has_these_bounds():
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for domains, *shown in rows:
        found = [bound(int(domains.replace(",", "")), 11, 2, 0.05) for bound in (no_failure_bound, uniform_bound)]
        assert [float(number) for number in shown] == pytest.approx(found, abs=5e-4)


@BOUNDS
@pytest.mark.parametrize("dimension", [1, 51])
def test_a_bound_once_met_stays_met(bound, dimension):
    first = domains_for(bound, 0.1, dimension)
    assert max(bound(int(m), dimension) for m in np.geomspace(first, 100 * first, 200)) <= 0.1


@settings(deadline=None)
@given(st.integers(10, 10**6), st.integers(1, 20), st.integers(1, 5), st.sampled_from([0.01, 0.05, 0.5]))
def test_at_a_bound_below_one_the_cited_inequality_is_an_equality(n_domains, dimension, n_labels, delta):
    growth = log_growth(2 * n_domains, dimension, n_labels)
    uniform, no_failure = (bound(n_domains, dimension, n_labels, delta) for bound in (uniform_bound, no_failure_bound))
    if uniform < 1:
        assert math.log(4) + growth - n_domains * uniform**2 / 8 == pytest.approx(math.log(delta))
    if no_failure < 1:
        assert math.log(2) + growth - n_domains * no_failure / 2 * math.log(2) == pytest.approx(math.log(delta))


@BOUNDS
def test_a_bound_falls_with_domains_and_delta_and_rises_with_dimension_and_labels(bound):
    usual = bound(50_000, 11, 2, 0.05)
    assert usual < 1
    assert bound(100_000, 11, 2, 0.05) < usual < bound(20_000, 11, 2, 0.05)
    assert bound(50_000, 11, 2, 0.5) < usual
    assert bound(50_000, 10, 2, 0.05) < usual < bound(50_000, 11, 3, 0.05)


# What they promise, by simulation


def test_no_failure_holds_by_repetition_for_intervals_of_domains():
    """Families of VC dimension 2: intervals. The longest gap without a training point is an unseen failure."""
    rng, epsilon, delta = np.random.default_rng(1), 0.2, 0.1
    points = np.sort(rng.random((2000, domains_for(no_failure_bound, epsilon, 2, 1, delta))), axis=1)
    longest = np.diff(points, axis=1, prepend=0, append=1).max(axis=1)
    assert np.mean(longest > epsilon) <= delta


def test_uniform_convergence_holds_by_repetition_for_half_lines():
    """Half-lines have VC dimension 1; their largest deviation is that of Kolmogorov and Smirnov."""
    rng, epsilon, delta = np.random.default_rng(2), 0.2, 0.1
    m = domains_for(uniform_bound, epsilon, 1, 1, delta)
    points, steps = np.sort(rng.random((200, m)), axis=1), np.arange(m + 1) / m
    deviation = np.maximum(steps[1:] - points, points - steps[:-1]).max(axis=1)
    assert np.mean(deviation > epsilon) <= delta


@pytest.mark.parametrize("n_labels", [2, 4])
def test_no_failure_holds_by_repetition_for_several_labels(n_labels):
    """Of each label, a predictor is at target in the domains whose number for it lies in an interval.

    Numbers are uniform, so the smallest intervals that hold all training domains miss a share of new ones that is known
    exactly, and every predictor without a failure in training misses no more than they do.
    """
    rng, epsilon, delta = np.random.default_rng(3), 0.3, 0.1
    m = domains_for(no_failure_bound, epsilon, 2, n_labels, delta)
    numbers = rng.random((500, m, n_labels))
    missed = 1 - np.prod(numbers.max(axis=1) - numbers.min(axis=1), axis=1)
    assert np.mean(missed > epsilon) <= delta


def test_uniform_convergence_holds_by_repetition_for_two_labels():
    """Of each label, the domains at target are a half-line; all pairs of half-lines on a grid are looked at."""
    rng, m, delta = np.random.default_rng(4), 3000, 0.1
    epsilon = uniform_bound(m, dimension=1, n_labels=2, delta=delta)
    assert epsilon < 0.3
    grid = np.linspace(0, 1, 41)
    for _ in range(60):
        numbers = rng.random((m, 2))
        cells = np.histogram2d(*numbers.T, bins=[grid, grid])[0].cumsum(axis=0).cumsum(axis=1) / m
        assert np.abs(cells - np.outer(grid[1:], grid[1:])).max() <= epsilon


@given(st.integers(1, 10), st.integers(1, 50), st.integers(1, 10**6), st.floats(1e-6, 0.5))
def test_bounding_labels_together_never_asks_for_more_than_splitting_epsilon_and_delta(n_labels, dimension, m, delta):
    for bound in (uniform_bound, no_failure_bound):
        split = min(1.0, n_labels * bound(m, dimension, 1, delta / n_labels))
        assert bound(m, dimension, n_labels, delta) <= split * (1 + 1e-12)
