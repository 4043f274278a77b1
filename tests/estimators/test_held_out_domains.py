import numpy as np
import pytest
import torch
from torch import nn

from domaincover import DomainDataset, GaussianDomains, SetCoverClassifier
from domaincover.estimators.stacked_fit import HeldOutDomains, LowestLoss, SmallestSets, verdicts
from domaincover.networks.perceptrons import linear
from domaincover.thresholds import criterion_for

DATA = GaussianDomains.of_paper(4).sample(5, 40, np.random.default_rng(0))
HELD_OUT = HeldOutDomains(DATA)
NETWORKS = [linear(4, 2, np.random.default_rng(seed)) for seed in range(4)]
of_each = pytest.mark.parametrize("network", NETWORKS)


def smallest_sets(held_out, target, min_cell_size):
    return SmallestSets(held_out, criterion_for(target, range(held_out.labels.max() + 1)), min_cell_size)


def scores_of(network):
    with torch.no_grad():
        return network(torch.as_tensor(DATA.examples)).numpy()


def hits_of(own, target):
    """Return the highest threshold at which so large a share of scores is above, by trying each of them."""
    return max(score for score in own if np.mean(own >= score) >= target)


def needed_thresholds(scores, labels, domains, target, min_cell_size, n_missed=0):
    """Return by brute force each label's threshold by its pooled rows, lowered until the domains are at target."""
    n_labels = scores.shape[1]
    base = np.array([min(0, hits_of(scores[labels == k, k], target)) for k in range(n_labels)])
    offsets = []
    for domain in np.unique(domains):
        cells = [(k, scores[(domains == domain) & (labels == k), k]) for k in range(n_labels)]
        offsets += [[hits_of(own, target) - base[k] for k, own in cells if len(own) >= min_cell_size]]
    return base + min(0, sorted(min(own) for own in offsets if own)[n_missed])


def test_scores_are_the_networks():
    np.testing.assert_allclose(HELD_OUT.scores(NETWORKS[0]), scores_of(NETWORKS[0]), atol=1e-6)


@of_each
@pytest.mark.parametrize("target", [0.5, 0.9])
def test_thresholds_bring_each_label_and_then_every_domain_to_target(network, target):
    found = smallest_sets(DATA, target, 1).thresholds(network)
    expected = needed_thresholds(scores_of(network), DATA.labels, DATA.domains, target, 1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found <= 0).all()


@of_each
def test_every_cell_of_the_held_out_domains_is_at_target(network):
    sets = scores_of(network) >= smallest_sets(DATA, 0.9, 1).thresholds(network) - 1e-6
    hit = sets[np.arange(len(DATA)), DATA.labels]
    for domain, label in np.ndindex(5, 2):
        assert hit[(DATA.domains == domain) & (DATA.labels == label)].mean() >= 0.9


def test_of_nineteen_domains_the_worst_may_miss_the_target():
    data = GaussianDomains.of_paper(4).sample(19, 40, np.random.default_rng(1))
    found = smallest_sets(data, 0.9, 5).thresholds(NETWORKS[1])
    with torch.no_grad():
        scores = NETWORKS[1](torch.as_tensor(data.examples)).numpy()
    expected = needed_thresholds(scores, data.labels, data.domains, 0.9, 5, n_missed=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (expected > needed_thresholds(scores, data.labels, data.domains, 0.9, 5)).all()


def ten_labels(n_hopeless):
    """Return one-hot examples of ten labels in five domains, and one cell of so many rows that looks like another."""
    labels = np.tile(np.repeat(np.arange(10), 30), 5)
    domains = np.repeat(np.arange(5), 300)
    examples = 4 * np.eye(10)[labels] - 1 + np.random.default_rng(0).normal(0, 0.3, (1500, 10))
    cell = np.flatnonzero((domains == 3) & (labels == 7))
    examples[cell, 7], examples[cell, 8] = -6, 3
    kept = np.setdiff1d(np.arange(1500), cell[n_hopeless:])
    return DomainDataset.from_arrays(examples[kept].astype(np.float32), labels[kept], domains[kept])


@pytest.mark.parametrize("n_hopeless", [1, 9, 12])
def test_one_small_hopeless_cell_of_ten_labels_does_not_fill_the_sets(n_hopeless):
    judge = smallest_sets(ten_labels(n_hopeless), 0.9, 20)
    assert judge.verdict(nn.Identity()) < 1.1


def test_a_large_hopeless_cell_is_brought_to_target():
    judge = smallest_sets(ten_labels(30), 0.9, 20)
    assert judge.thresholds(nn.Identity())[7] <= -6


def test_a_label_that_is_hard_everywhere_does_not_lower_the_others():
    data = ten_labels(15)
    data.examples[data.labels == 7, 7] = np.random.default_rng(1).normal(-3, 0.2, (data.labels == 7).sum())
    thresholds = smallest_sets(data, 0.9, 20).thresholds(nn.Identity())
    assert thresholds[7] < -3
    assert (np.delete(thresholds, 7) > -1).all()


@pytest.mark.parametrize("small_rows", [10, 19])
def test_small_cells_of_held_out_domains_set_no_offset_together(small_rows):
    """Every other domain has small cells, whose labels are noise."""
    n_in_cells = np.where(np.arange(20) % 2, small_rows, 60)
    domains = np.repeat(np.arange(20), 2 * n_in_cells)
    labels = np.concatenate([np.repeat([0, 1], n) for n in n_in_cells])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(labels), 2)) + 4 * np.eye(2)[labels] * (n_in_cells[domains] == 60)[:, None]
    model = SetCoverClassifier(epochs=3, validation_domains=0.5, random_state=0).fit(X, labels, domains=domains)
    is_held_out = np.isin(domains, model.held_out_domains_)
    assert set(n_in_cells[model.held_out_domains_]) == {small_rows, 60}
    scores, labels, domains = model.label_scores(X)[is_held_out], labels[is_held_out], domains[is_held_out]
    np.testing.assert_allclose(model.thresholds_, needed_thresholds(scores, labels, domains, 0.9, 20), atol=1e-6)
    together = np.where(n_in_cells[domains] < 20, -1, domains)
    assert (model.thresholds_ > needed_thresholds(scores, labels, together, 0.9, 20)).all()


@of_each
@pytest.mark.parametrize("n_rows", [10, 24])
def test_where_all_cells_are_small_there_is_no_offset(network, n_rows):
    data = DATA.subset(np.concatenate([np.flatnonzero(DATA.domains == k)[:n_rows] for k in range(5)]))
    scores = HeldOutDomains(data).scores(network)
    expected = [min(0, hits_of(scores[data.labels == k, k], 0.9)) for k in range(2)]
    np.testing.assert_allclose(smallest_sets(data, 0.9, 20).thresholds(network), expected, atol=1e-6)


@of_each
def test_sets_are_judged_by_their_size_at_that_threshold(network):
    judge = smallest_sets(DATA, 0.9, 1)
    scores = HELD_OUT.scores(network)
    assert judge.verdict(network) == (scores >= judge.thresholds(network)).sum(axis=1).mean()


def test_scores_that_are_too_low_are_judged_as_if_they_were_not():
    network, shifted = (linear(4, 2, np.random.default_rng(0)) for _ in "ab")
    with torch.no_grad():
        for each in (network, shifted):
            each[0].bias -= 8.0
        shifted[0].bias -= 8.0
    judge = smallest_sets(DATA, 0.9, 1)
    assert judge.verdict(shifted) == pytest.approx(judge.verdict(network), abs=1.5 / len(DATA))
    np.testing.assert_allclose(judge.thresholds(shifted), judge.thresholds(network) - 8, atol=1e-5)


def test_a_cell_too_small_to_miss_one_sets_no_offset():
    data = DATA.subset(np.flatnonzero((DATA.domains > 0) | (np.arange(len(DATA)) < 8)))  # domain 0 has 8 examples
    scores = HeldOutDomains(data).scores(NETWORKS[1])
    found = smallest_sets(data, 0.9, 10).thresholds(NETWORKS[1])
    np.testing.assert_allclose(found, needed_thresholds(scores, data.labels, data.domains, 0.9, 10), atol=1e-6)


def test_scores_that_tell_labels_apart_are_judged_better_than_constant_ones():
    oracle, constant = nn.Linear(4, 2), nn.Linear(4, 2)
    with torch.no_grad():
        direction = torch.tensor([1.0, 1.0, 1.0, 1.0])  # label 1 has its mean along it
        oracle.weight.copy_(torch.stack([-direction, direction]))
        constant.weight.zero_()
    judge = smallest_sets(DATA, 0.9, 1)
    assert judge.verdict(oracle) < judge.verdict(constant) == 2


def test_the_threshold_is_that_of_a_network_that_does_not_train():
    network = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2)).train()
    judge = smallest_sets(DATA, 0.9, 1)
    assert np.array_equal(judge.thresholds(network), judge.thresholds(network))


@of_each
def test_probabilities_are_judged_by_their_mean_cross_entropy(network):
    loss = LowestLoss(DATA).verdict(network)
    scores = scores_of(network).astype(np.float64)
    own = scores[np.arange(len(DATA)), DATA.labels]
    assert loss == pytest.approx(np.mean(np.log(np.exp(scores).sum(axis=1)) - own), rel=1e-5)


def test_each_network_of_a_stack_has_its_own_judge():
    others = DATA.subset(np.arange(0, len(DATA), 2))
    judges = [LowestLoss(DATA), LowestLoss(others), LowestLoss(DATA)]
    found = verdicts(judges, NETWORKS[:3])
    expected = [judge.verdict(network) for judge, network in zip(judges, NETWORKS, strict=False)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
