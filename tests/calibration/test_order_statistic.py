"""The order statistic of residuals: with one draw the k-th lowest, with several draws still as promised."""

import numpy as np
import pytest

from domaincover.calibration.adaptation import domain_residuals, n_counting, order_statistic
from tests.calibration.literal import rank


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n_domains", [1, 4, 9, 19, 20, 99])
def test_one_draw_gives_the_kth_lowest(n_domains, confidence):
    residuals = np.random.default_rng(0).permutation(n_domains).astype(float)
    k = rank(confidence, n_domains)
    expected = k - 1 if k > 0 else -np.inf
    assert order_statistic(residuals[None], n_domains, confidence) == expected
    assert order_statistic(np.tile(residuals, (7, 1)), n_domains, confidence) == expected


def test_domains_that_do_not_count_stand_last():
    residuals = np.concatenate([np.arange(19.0), np.full(5, np.inf)])
    assert order_statistic(residuals[None], 19, 0.9) == 1


def test_draws_that_do_not_count_leave_the_confidence_to_those_that_do():
    rng = np.random.default_rng(0)
    n_repetitions, n_domains, n_draws = 4000, 40, 5
    hardness = rng.normal(size=(n_repetitions, 1, n_domains + 1))
    values = hardness + rng.normal(size=(n_repetitions, n_draws, n_domains + 1))
    counts = rng.random(values.shape) < 0.4
    values = np.where(counts, values, np.inf)
    seen = values[:, :, :-1]
    offset = np.array([order_statistic(each, n_counting(each), 0.9) for each in seen])
    is_about = counts[:, 0, -1]  # of a new domain whose draw counts
    share = (values[is_about, 0, -1] >= offset[is_about]).mean()
    assert share >= 0.9 - 4 * np.sqrt(0.09 / is_about.sum())
    assert order_statistic(np.full((3, 20), np.inf), 0, 0.9) == -np.inf


def test_the_residual_is_the_lowest_over_promised_labels():
    by_cell = np.array([[1.0, 5.0, -9.0], [np.inf, 2.0, np.inf], [np.inf, np.inf, 0.0]])
    found = domain_residuals(by_cell, np.array([0.5, 1.0, 0.0]), np.array([True, True, False]))
    assert found.tolist() == [0.5, 1.0, np.inf]


def test_several_draws_keep_the_confidence_and_vary_less():
    rng = np.random.default_rng(0)
    n_repetitions, n_domains, n_draws = 4000, 19, 10
    of_domain = rng.normal(size=(n_repetitions, 1, n_domains + 1))
    values = of_domain + rng.normal(size=(n_repetitions, n_draws, n_domains + 1))
    new, seen = values[:, 0, -1], values[:, :, :-1]
    one, several = order_statistic(seen[:, :1], n_domains, 0.9), order_statistic(seen, n_domains, 0.9)
    for offset in (one, several):
        share = (new >= offset).mean()
        assert share >= 0.9 - 4 * np.sqrt(0.09 / n_repetitions)
    assert several.std() < 0.9 * one.std()
