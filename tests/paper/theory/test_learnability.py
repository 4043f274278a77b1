import numpy as np

from domaincover.paper.theory import intercepts_at_target, recalls
from tests.paper.theory.gaussian_shattering import GaussianCells


def some_domains(rng, n_labels=3, n_domains=6, n_features=2):
    return rng.normal(size=(n_domains, n_labels, n_features)), 0.7


def test_recalls_are_those_of_each_labels_gaussians():
    rng = np.random.default_rng(0)
    means, deviation = some_domains(rng)
    weights, intercepts = rng.normal(size=(3, 2)), rng.normal(size=3)
    found = recalls(means, deviation, weights, intercepts)
    assert found.shape == (3, 3, 6)
    for label in range(3):
        cells = GaussianCells.of(means[:, label], deviation)
        expected = [cells.recall(w, b) for w, b in zip(weights, intercepts, strict=True)]
        np.testing.assert_allclose(found[:, label], expected, rtol=1e-12)


def test_sizes_are_those_of_simulated_sets():
    rng = np.random.default_rng(1)
    means, deviation = some_domains(rng, n_domains=2)
    weights, intercepts, n = rng.normal(size=(3, 2)), rng.normal(size=3), 40_000
    drawn = means[..., None, :] + deviation * rng.standard_normal((2, 3, n, 2))
    sizes = (drawn @ weights.T + intercepts >= 0).sum(axis=-1).mean(axis=-1)
    # a size of 0 to 3 has a deviation of 1.5 at most
    found = recalls(means, deviation, weights, intercepts).sum(axis=0).T
    np.testing.assert_allclose(found, sizes, atol=5 * 1.5 / np.sqrt(n))


def test_with_intercepts_at_target_the_worst_domain_of_each_label_is_exactly_there():
    rng = np.random.default_rng(2)
    means, deviation = some_domains(rng)
    weights = rng.normal(size=(3, 2))
    intercepts = intercepts_at_target(means, deviation, weights, 0.9)
    own = recalls(means, deviation, weights, intercepts).diagonal()
    np.testing.assert_allclose(own.min(axis=0), 0.9, atol=1e-12)


def test_a_scorer_without_weights_holds_a_label_always_or_never():
    found = recalls(np.ones((2, 2, 3)), 1.0, np.zeros((2, 3)), np.array([0.0, -1.0]))
    assert found.tolist() == [[[1, 1], [1, 1]], [[0, 0], [0, 0]]]
