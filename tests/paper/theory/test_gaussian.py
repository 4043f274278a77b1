import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.special import ndtri

from domaincover.errors import InputError
from tests.paper.theory.gaussian_shattering import (
    GaussianCells,
    could_be_reached,
    impossible_assignment,
    scorer_reaching,
)
from tests.paper.theory.shattering import check_shattering, members

TARGETS = [0.05, 0.3, 0.5, 0.9, 0.99]
SEEDS = st.integers(0, 2**32 - 1)


def random_cells(rng, n_domains, n_features, spread=1.0, equal_deviations=False):
    root = rng.normal(size=(n_features, n_features))
    deviations = 1.0 if equal_deviations else rng.uniform(0.5, 2, n_domains)
    return GaussianCells.of(
        spread * rng.normal(size=(n_domains, n_features)), deviations, root @ root.T + np.eye(n_features)
    )


def random_scorers(rng, cells, n):
    """Draw scorers whose boundary comes near the domains, so that their assignments differ."""
    weights = rng.normal(size=(n, cells.means.shape[1]))
    near = rng.choice(len(cells.means), n)
    centre = np.einsum("ij,ij->i", weights, cells.means[near])
    return weights, -centre + cells.norm(weights) * rng.normal(0, 3, n)


def test_recall_in_closed_form_is_that_of_simulated_examples():
    rng = np.random.default_rng(0)
    cells = random_cells(rng, 5, 3)
    weights, intercept = random_scorers(rng, cells, 4)
    n = 40_000
    noise = rng.standard_normal((n, 3)) @ np.linalg.cholesky(cells.covariance).T
    x = cells.means[:, None] + cells.deviations[:, None, None] * noise
    shares = ((x @ weights.T + intercept) >= 0).mean(axis=1).T
    # 20 shares with a standard error of 0.5/√n at most: 5 of them
    np.testing.assert_allclose(cells.recall(weights, intercept), shares, atol=5 * 0.5 / np.sqrt(n), rtol=0)


@pytest.mark.parametrize("target", TARGETS)
@settings(deadline=None, max_examples=15)
@given(seed=SEEDS, n_features=st.integers(1, 5))
def test_of_two_domains_more_than_features_one_assignment_is_infeasible(target, seed, n_features):
    cells = random_cells(np.random.default_rng(seed), n_features + 2, n_features)
    assignment = impossible_assignment(cells, target)
    assert not could_be_reached(cells, target, assignment)
    assert not could_be_reached(cells, target, assignment, intercept=False)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_one_domain_more_than_features_in_general_position_is_shattered(target, equal, n_features):
    rng = np.random.default_rng(3)
    # far apart where deviations differ; where they do not, any distance will do
    cells = random_cells(rng, n_features + 1, n_features, spread=1.0 if equal else 1000.0, equal_deviations=equal)
    assignments = members(np.arange(2 ** (n_features + 1)), n_features + 1)
    scorers = [scorer_reaching(cells, target, assignment) for assignment in assignments]
    assert check_shattering(np.array([cells.recall(*scorer) >= target for scorer in scorers])).is_shattered
    assert all(could_be_reached(cells, target, assignment) for assignment in assignments)
    with pytest.raises(InputError, match=f"{n_features + 2} domains with {n_features} features never are"):
        impossible_assignment(cells, target)


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, target=st.sampled_from(TARGETS), n_domains=st.integers(1, 5))
def test_a_scorer_that_is_found_has_the_assignment_and_the_linear_programme_agrees(seed, target, n_domains):
    rng = np.random.default_rng(seed)
    cells = random_cells(rng, n_domains, 2)
    assignment = rng.random(n_domains) < 0.5
    scorer = scorer_reaching(cells, target, assignment)
    if scorer is not None:
        np.testing.assert_array_equal(cells.recall(*scorer) >= target, assignment)
        assert could_be_reached(cells, target, assignment)


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, target=st.sampled_from(TARGETS))
def test_the_papers_assignment_for_scorers_without_intercept_is_infeasible(seed, target):
    """ν₁ = Σ αᵢ νᵢ with ν = (mean, deviation): at target where αᵢ ≥ 0, below where αᵢ < 0 and in domain 1."""
    cells = random_cells(np.random.default_rng(seed), 4, 2)
    vectors = np.column_stack([cells.means, cells.deviations])
    alpha = -null_space(vectors.T)[:, 0]
    alpha = alpha[1:] / -alpha[0]
    assert not could_be_reached(cells, target, np.r_[False, alpha >= 0], intercept=False)


def directions_between_all_boundaries(cells, target):
    """Return unit weights in every arc of the circle on which the assignment is constant, and at their ends."""
    distance = np.hypot(*cells.means.T)
    angle = np.arctan2(cells.means[:, 1], cells.means[:, 0])
    half = np.arccos(np.clip(ndtri(target) * cells.deviations / distance, -1, 1))
    ends = np.sort(np.concatenate([angle - half, angle + half]) % (2 * np.pi))
    middles = (ends + np.append(ends[1:], ends[0] + 2 * np.pi)) / 2
    angles = np.concatenate([ends, middles])
    return np.column_stack([np.cos(angles), np.sin(angles)])


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, target=st.sampled_from(TARGETS))
def test_without_an_intercept_not_even_three_domains_of_two_features_are_shattered(seed, target):
    rng = np.random.default_rng(seed)
    cells = GaussianCells.of(3 * rng.normal(size=(3, 2)), rng.uniform(0.5, 2, 3))
    weights = np.vstack([directions_between_all_boundaries(cells, target), np.zeros(2)])
    assert not check_shattering(cells.recall(weights) >= target).is_shattered


def test_without_an_intercept_two_domains_of_two_features_are_shattered():
    cells = GaussianCells.of([[9.0, 0], [0, 9]], [1, 2])
    assert check_shattering(cells.recall([[1, 1], [1, -1], [-1, 1], [-1, -1]]) >= 0.9).is_shattered
