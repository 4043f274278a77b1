import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domaincover.errors import InputError
from domaincover.paper.theory.gaussian import GaussianCells
from domaincover.paper.theory.learnability import (
    consistent_bound,
    intercepts_at_target,
    log_growth,
    mean_size,
    min_recall,
    share_missing,
    uniform_bound,
)

BOUNDS = pytest.mark.parametrize("bound", [uniform_bound, consistent_bound])


def some_cells(rng, n_labels=3, n_domains=6, n_features=2):
    return [
        GaussianCells.of(rng.normal(size=(n_domains, n_features)), rng.uniform(0.5, 2, n_domains))
        for _ in range(n_labels)
    ]


def test_growth_is_that_of_all_subsets_up_to_the_dimension_and_of_intervals_beyond():
    assert log_growth(5, 5) == pytest.approx(math.log(2**5))
    assert log_growth(10, 2) == pytest.approx(math.log(1 + 10 + 45))  # what intervals do with ten points


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 10))
def test_growth_never_exceeds_all_subsets_nor_the_product_over_labels(n_domains, dimension, n_labels):
    growth = log_growth(n_domains, dimension, n_labels)
    assert growth <= n_domains * math.log(2)
    assert growth <= n_labels * log_growth(n_domains, dimension) + 1e-9


@settings(deadline=None)
@given(st.integers(10, 10**6), st.integers(1, 20), st.integers(1, 5), st.sampled_from([0.01, 0.05, 0.5]))
def test_at_a_bound_below_one_the_cited_inequality_is_an_equality(n_domains, dimension, n_labels, delta):
    growth = log_growth(2 * n_domains, dimension, n_labels)
    uniform, consistent = (bound(n_domains, dimension, n_labels, delta) for bound in (uniform_bound, consistent_bound))
    if uniform < 1:
        assert math.log(4) + growth - n_domains * uniform**2 / 8 == pytest.approx(math.log(delta))
    if consistent < 1:
        assert math.log(2) + growth - n_domains * consistent / 2 * math.log(2) == pytest.approx(math.log(delta))


@BOUNDS
def test_a_bound_falls_with_domains_and_delta_and_rises_with_dimension_and_labels(bound):
    usual = bound(50_000, 11, 2, 0.05)
    assert usual < 1
    assert bound(100_000, 11, 2, 0.05) < usual < bound(20_000, 11, 2, 0.05)
    assert bound(50_000, 11, 2, 0.5) < usual
    assert bound(50_000, 10, 2, 0.05) < usual < bound(50_000, 11, 3, 0.05)


@BOUNDS
def test_a_bound_says_nothing_for_few_domains(bound):
    assert bound(100, 11, 2) == 1


def test_predictors_at_target_in_all_training_domains_are_promised_more():
    assert consistent_bound(50_000, 11, 2) < uniform_bound(50_000, 11, 2) / 10


@BOUNDS
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_domains": 0, "dimension": 1}, "n_domains must be at least 1, got 0"),
        ({"n_domains": 1, "dimension": 0}, "dimension and n_labels must be at least 1, got 0 and 1"),
        ({"n_domains": 1, "dimension": 1, "delta": 5}, "delta must lie between 0 and 1, got 5"),
    ],
)
def test_bad_input_is_refused(bound, arguments, message):
    with pytest.raises(InputError, match=message):
        bound(**arguments)


def test_min_recall_is_that_of_the_worst_label_also_for_many_predictors_at_once():
    rng = np.random.default_rng(0)
    cells = some_cells(rng)
    weights, intercepts = rng.normal(size=(4, 3, 2)), rng.normal(size=(4, 3))
    found = min_recall(cells, weights, intercepts)
    assert found.shape == (4, 6)
    for w, b, row in zip(weights, intercepts, found, strict=True):
        recalls = np.array([cell.recall(w[y], b[y]) for y, cell in enumerate(cells)])
        np.testing.assert_allclose(row, recalls.min(axis=0), rtol=1e-12)


def test_mean_size_is_that_of_simulated_sets():
    rng = np.random.default_rng(1)
    cells = some_cells(rng, n_domains=2)
    weights, intercepts, n = rng.normal(size=(3, 2)), rng.normal(size=3), 40_000
    sizes = [
        [np.sum(rng.normal(m, s, (n, 2)) @ weights.T + intercepts >= 0, axis=1).mean() for m, s in
         zip(cell.means, cell.deviations, strict=True)]
        for cell in cells
    ]  # fmt: skip
    # a size of 0 to 3 has a deviation of 1.5 at most
    np.testing.assert_allclose(mean_size(cells, weights, intercepts), np.mean(sizes, axis=0), atol=5 * 1.5 / np.sqrt(n))


def test_with_intercepts_at_target_the_worst_domain_of_each_label_is_exactly_there():
    rng = np.random.default_rng(2)
    cells, weights = some_cells(rng), rng.normal(size=(3, 2))
    intercepts = intercepts_at_target(cells, weights, 0.9)
    for y, cell in enumerate(cells):
        assert cell.recall(weights[y], intercepts[y]).min() == pytest.approx(0.9, abs=1e-12)
    assert share_missing(min_recall(cells, weights, intercepts), 0.9) == 0
    assert share_missing(min_recall(cells, weights, intercepts - 1e-6), 0.9) > 0


def test_the_share_missing_counts_domains_below_the_target():
    np.testing.assert_array_equal(share_missing(np.array([[0.9, 0.89, 1, 0.5], [1, 1, 1, 0.9]]), 0.9), [0.5, 0])
