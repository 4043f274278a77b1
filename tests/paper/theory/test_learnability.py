import numpy as np
import pytest

from domaincover.paper.theory import (
    GaussianCells,
    intercepts_at_target,
    mean_size,
    min_recall,
    share_missing,
)


def some_cells(rng, n_labels=3, n_domains=6, n_features=2):
    return [
        GaussianCells.of(rng.normal(size=(n_domains, n_features)), rng.uniform(0.5, 2, n_domains))
        for _ in range(n_labels)
    ]


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
