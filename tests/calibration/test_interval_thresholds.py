"""Thresholds of intervals against a search, shifts against scikit-learn's ridge, and what true coverage takes."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import Ridge

from domaincover.calibration.interval_thresholds import (
    Prior,
    Rows,
    domain_thresholds,
    draws_of,
    fit_level,
    fit_prior,
    learn_shift,
    rows_needed,
)


@pytest.mark.parametrize("n_rows", [1, 9, 10, 11, 40])
@pytest.mark.parametrize("target", [0.5, 0.8, 0.9])
def test_a_domains_threshold_is_the_largest_that_covers_enough(n_rows, target):
    scores = np.random.default_rng(n_rows).integers(8, size=n_rows).astype(float)  # with ties
    padded = np.append(scores, [100.0, 100.0])[None]
    is_real = np.arange(n_rows + 2)[None] < n_rows
    covering = [t for t in scores if (scores >= t).mean() >= target - 1e-12]
    assert domain_thresholds(padded, is_real, target, None) == max(covering)


@pytest.mark.parametrize(("n_rows", "needed"), [(28, 29), (29, 29), (50, 49), (100, 96)])
def test_true_coverage_takes_the_numbers_of_clopper_and_pearson(n_rows, needed):
    assert rows_needed(np.array(n_rows), 0.9, 0.05) == needed
    assert binom.sf(needed - 1, n_rows, 0.9) <= 0.05
    assert needed > n_rows or binom.sf(needed - 2, n_rows, 0.9) > 0.05


def test_too_few_rows_for_true_coverage_have_no_threshold():
    assert domain_thresholds(np.zeros((1, 20)), np.ones((1, 20), bool), 0.9, 0.05) == -np.inf


def stack(n_domains=4, n_rows=30, n_features=3):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n_domains, n_rows, n_features))
    return rng.normal(size=(n_domains, n_rows)) + 2, features, rng.random((n_domains, n_rows)) < 0.6


def test_shifts_are_the_ridge_regression_of_each_domain():
    residuals, features, is_known = stack()
    prior = Prior(bias=0.7, slope=0.3, weight=10.0, size=1.5)
    found = learn_shift(residuals, features, is_known, prior)
    for k, known in enumerate(is_known):
        design = np.column_stack([np.full(known.sum(), prior.bias), prior.slope * features[k][known]])
        ridge = Ridge(alpha=1.0, fit_intercept=False, tol=1e-12).fit(design, residuals[k][known])
        moved = np.column_stack([np.full(30, prior.bias), prior.slope * features[k]]) @ ridge.coef_
        assert found.of(features)[k] == pytest.approx(moved)


def test_the_factor_is_the_mean_size_of_residuals_left_out_drawn_towards_one():
    residuals, features, is_known = stack(n_domains=1)
    prior = Prior(bias=1.0, slope=0.0, weight=10.0, size=2.0)
    known = residuals[0][is_known[0]] / prior.size
    left = []
    for i in range(len(known)):
        others = np.delete(known, i)
        mean, spread = others.sum() / (len(others) + 1), np.sqrt(1 + 1 / (len(others) + 1))  # of the next residual
        left.append(abs(known[i] - mean) / spread)
    expected = (10.0 + sum(left)) / (10.0 + len(known))
    assert learn_shift(residuals, features, is_known, prior).factor[0] == pytest.approx(expected)


def rows_of(spread, n_domains=40, n_rows=60):
    """Return rows whose centres are off by a domain's own amount."""
    rng = np.random.default_rng(1)
    domains = np.repeat(np.arange(n_domains), n_rows)
    values = rng.normal(0, spread, n_domains)[domains] + rng.normal(size=len(domains))
    ones = np.ones(len(values))
    return Rows(values, 0 * ones, 0 * ones, ones, np.empty((len(values), 0)), domains)


def test_known_values_narrow_intervals_where_domains_are_off_and_are_left_out_where_not():
    goal = {"target": 0.9, "confidence": 0.9, "error": None, "n_draws": 3}
    rng = np.random.default_rng(0)
    without, with_ten = (fit_level(rows_of(2.0), k, **goal, rng=rng) for k in (0, 10))
    assert with_ten.width < 0.75 * without.width
    assert fit_level(rows_of(0.0), 10, **goal, rng=rng) is None


def test_the_prior_sees_how_far_domains_are_apart():
    draw = next(iter(draws_of(rows_of(2.0).domains, 10, 1, np.random.default_rng(0))))
    assert fit_prior(rows_of(2.0), draw).bias >= 1.0
    assert fit_prior(rows_of(0.0), draw).bias == 0.0


def test_a_draw_knows_so_many_rows_of_each_domain_and_counts_the_others():
    domains = np.random.default_rng(0).permutation(np.repeat(np.arange(5), [10, 12, 14, 16, 18]))
    for draw in draws_of(domains, 10, 3, np.random.default_rng(1)):
        assert (draw.is_known.sum(axis=1) == 10).all()
        is_real = draw.is_known | draw.is_counted
        assert np.array_equal(np.sort(draw.rows[is_real]), np.arange(70))
        assert (domains[draw.rows[is_real]] == np.nonzero(is_real)[0]).all()
