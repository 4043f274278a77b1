"""The relaxation behind SET-COVER: hinges bound the counts they stand for, and nothing is lost in the dual."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from domaincover.training.objectives import SetCoverLoss

from .relaxed_problem import RelaxedProblem

SCORES = st.floats(-5, 5, width=32) | st.sampled_from([-1.0, -0.0, 0.0, 1.0])


@st.composite
def batches(draw):
    """Scores, labels and domains of a batch, and a multiplier for each of two domains and three labels."""
    n = draw(st.integers(1, 12))
    scores = draw(arrays(np.float32, (n, 3), elements=SCORES))
    labels = draw(arrays(np.int64, n, elements=st.integers(0, 2)))
    domains = draw(arrays(np.int64, n, elements=st.integers(0, 1)))
    multipliers = draw(arrays(np.float32, (2, 3), elements=st.floats(0.125, 8, width=32)))
    return torch.tensor(scores), torch.tensor(labels), torch.tensor(domains), torch.tensor(multipliers)


def total_loss(scores, labels, domains, multipliers, penalty):
    loss = SetCoverLoss(2, 3, penalty=penalty)
    loss.multipliers.copy_(multipliers)
    return loss(scores, labels, domains).item() * len(labels)


def counts(scores, labels):
    """Which labels are in the set, which of those are wrong, and which examples are missed."""
    inside = scores >= 0
    true = torch.nn.functional.one_hot(labels, 3).bool()
    return inside, inside & ~true, ~(inside & true).any(1)


@given(SCORES)
def test_a_hinge_is_at_least_the_count_it_stands_for(score):
    assert max(0, 1 + score) >= (score >= 0)
    assert max(0, 1 - score) >= (score < 0)


@settings(deadline=None, max_examples=60)
@given(batches())
def test_the_wrong_label_loss_bounds_wrong_labels_in_sets_and_weighted_misses(batch):
    scores, labels, domains, multipliers = batch
    _, wrong, missed = counts(scores, labels)
    stands_for = wrong.sum() + (multipliers[domains, labels] * missed).sum()
    assert total_loss(*batch, "wrong-label") >= stands_for.item() * (1 - 1e-5)


def test_the_wrong_label_loss_may_be_below_the_set_size_which_the_full_set_loss_never_is():
    only_the_true_label = torch.tensor([[1.0, -1.0, -1.0]]), torch.tensor([0]), torch.tensor([0]), torch.ones(2, 3)
    assert counts(*only_the_true_label[:2])[0].sum() == 1
    assert total_loss(*only_the_true_label, "wrong-label") == 0
    assert total_loss(*only_the_true_label, "full-set") >= 1


@settings(deadline=None, max_examples=60)
@given(batches())
def test_the_full_set_loss_bounds_set_sizes_and_weighted_misses(batch):
    scores, labels, domains, multipliers = batch
    inside, _, missed = counts(scores, labels)
    stands_for = inside.sum() + (multipliers[domains, labels] * missed).sum()
    assert total_loss(*batch, "full-set") >= stands_for.item() * (1 - 1e-5)


@settings(deadline=None, max_examples=60)
@given(batches(), st.sampled_from([0.1, 0.25, 0.5]))
def test_a_cell_that_keeps_the_relaxed_constraint_is_at_target(batch, gamma):
    scores, labels, domains, _ = batch
    own = scores.gather(1, labels[:, None])[:, 0]
    for domain in range(2):
        for label in range(3):
            cell = own[(domains == domain) & (labels == label)]
            if len(cell) and (1 - cell).relu().mean() <= gamma:
                assert (cell >= 0).double().mean() >= 1 - gamma - 1e-9


def small_problem(seed, gamma=0.2, n_per_domain=8, n_features=2):
    """Two or three domains whose own examples lie elsewhere in each, among examples of another label."""
    rng = np.random.default_rng(seed)
    n_domains = 2 + seed % 2
    domain = np.repeat(np.arange(n_domains), n_per_domain)
    own = np.tile(np.arange(n_per_domain) < n_per_domain // 2, n_domains)
    shift = 1 + rng.normal(0, 0.7, (n_domains, n_features))
    x = rng.normal(size=(len(domain), n_features)) + own[:, None] * shift[domain]
    return RelaxedProblem(x, own, domain, gamma)


def set_cover_lagrangian(problem, scorer, multipliers):
    """The same Lagrangian from SetCoverLoss; its mean over the batch takes multipliers · n / cell size.

    Label 0 is the problem's. The other label's scores are 0 but for the rows that have it, and its part is taken off.
    """
    n = len(problem.x)
    labels = torch.tensor(np.where(problem.own, 0, 1))
    sizes = np.bincount(problem.domain[problem.own], minlength=problem.n_domains)
    loss = SetCoverLoss(problem.n_domains, 2, 1 - problem.gamma, penalty="full-set")
    loss.multipliers = torch.ones(problem.n_domains, 2, dtype=torch.float64)
    loss.multipliers[:, 0] = torch.tensor(multipliers * n / sizes)
    scores = torch.zeros(n, 2, dtype=torch.float64)
    scores[:, 0] = torch.tensor(problem.x @ scorer[:-1] + scorer[-1])
    of_other_label = 1 + np.mean(~problem.own)  # relu(1 + 0) of every row, relu(1 − 0) of its own
    value = loss(scores, labels, torch.tensor(problem.domain)).item() - of_other_label
    return value - problem.gamma * multipliers.sum()


@pytest.mark.parametrize("seed", range(6))
def test_the_dual_optimum_is_the_primal_optimum(seed):
    problem = small_problem(seed)
    primal = problem.primal()
    assert primal.value > 0.01, "the constraints ask for something"
    assert problem.best_dual().value == pytest.approx(primal.value, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_multipliers_of_the_exact_solver_attain_the_dual_optimum_and_rest_where_a_constraint_does(seed):
    problem = small_problem(seed)
    primal = problem.primal()
    assert problem.least_lagrangian(primal.multipliers).value == pytest.approx(primal.value, abs=1e-6)
    slack = problem.slack(primal.scorer)
    assert slack.max() <= 1e-7
    np.testing.assert_allclose(primal.multipliers * slack, 0, atol=1e-6)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.lists(st.floats(0, 20), min_size=3, max_size=3), st.integers(0, 2**32 - 1))
def test_no_multipliers_lift_the_dual_above_the_primal_nor_a_scorer_push_the_lagrangian_below_the_dual(
    seed, multipliers, scorer_seed
):
    problem = small_problem(seed)
    chosen = np.array(multipliers[: problem.n_domains])
    dual = problem.least_lagrangian(chosen)
    assert dual.value <= problem.primal().value + 1e-7
    scorer = np.random.default_rng(scorer_seed).normal(0, 2, problem.n_weights)
    assert set_cover_lagrangian(problem, scorer, chosen) >= dual.value - 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_the_lagrangian_of_the_linear_programme_is_that_of_set_cover_loss(seed):
    problem = small_problem(seed)
    multipliers = np.linspace(0.5, 2, problem.n_domains)
    dual = problem.least_lagrangian(multipliers)
    assert set_cover_lagrangian(problem, dual.scorer, multipliers) == pytest.approx(dual.value, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_dual_ascent_on_set_cover_loss_approaches_the_primal_optimum(seed):
    """Steps 1/√t along the constraints' slack, projected to C ≥ 0, the best value so far: within 1 % after 200."""
    problem = small_problem(seed)
    multipliers, values = np.ones(problem.n_domains), []
    for step in range(1, 201):
        scorer = problem.least_lagrangian(multipliers).scorer
        values.append(set_cover_lagrangian(problem, scorer, multipliers))
        multipliers = np.maximum(0, multipliers + problem.slack(scorer) / np.sqrt(step))
    optimum = problem.primal().value
    assert max(values) <= optimum + 1e-7
    assert max(values) == pytest.approx(optimum, rel=0.01)
    assert max(values) > values[0]
