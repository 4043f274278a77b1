import numpy as np
import pytest
import torch
from torch import nn

from domaincover import GaussianDomains
from domaincover.estimators.judges import HeldOutDomains, LowestLoss, Panel, SmallestSets
from domaincover.networks.perceptrons import linear
from domaincover.networks.stacks import stack

DATA = GaussianDomains.of_paper(4).sample(5, 40, np.random.default_rng(0))
HELD_OUT = HeldOutDomains(DATA)
NETWORKS = [linear(4, 2, np.random.default_rng(seed)) for seed in range(4)]
of_each = pytest.mark.parametrize("network", NETWORKS)


def scores_of(network):
    with torch.no_grad():
        return network(torch.as_tensor(DATA.examples)).numpy()


def recall_at(threshold, scores):
    """Return the recall of every cell in plain numpy."""
    hit = scores[np.arange(len(scores)), DATA.labels] >= threshold
    return np.array([[hit[(DATA.domains == e) & (DATA.labels == k)].mean() for k in range(2)] for e in range(5)])


def test_scores_are_the_networks():
    np.testing.assert_allclose(HELD_OUT.scores(NETWORKS[0]), scores_of(NETWORKS[0]), atol=1e-6)


@of_each
@pytest.mark.parametrize("target", [0.5, 0.9])
def test_the_threshold_is_the_highest_at_which_every_cell_is_at_target_but_no_higher_than_0(network, target):
    threshold = SmallestSets(HELD_OUT, target).threshold(network)
    own = scores_of(network)[np.arange(len(DATA)), DATA.labels]
    reaching = [score for score in own if recall_at(score, scores_of(network)).min() >= target]
    assert threshold == pytest.approx(min(0, max(reaching)), abs=1e-6)


@of_each
def test_sets_are_judged_by_their_size_at_that_threshold(network):
    judge = SmallestSets(HELD_OUT, 0.9)
    scores = HELD_OUT.scores(network)
    assert judge.verdict(network) == (scores >= judge.threshold(network)).sum(axis=1).mean()


def test_scores_that_are_too_low_are_judged_as_if_they_were_not():
    network, shifted = (linear(4, 2, np.random.default_rng(0)) for _ in "ab")
    with torch.no_grad():
        shifted[0].bias -= 8.0
    judge = SmallestSets(HELD_OUT, 0.9)
    assert judge.threshold(network) < 0
    assert judge.verdict(shifted) == pytest.approx(judge.verdict(network), abs=1.5 / len(DATA))
    assert judge.threshold(shifted) == pytest.approx(judge.threshold(network) - 8, abs=1e-5)


def test_a_cell_too_small_to_miss_one_does_not_judge():
    data = DATA.subset(np.flatnonzero((DATA.domains > 0) | (np.arange(len(DATA)) < 8)))  # domain 0 has 8 examples
    without = DATA.subset(np.flatnonzero(DATA.domains > 0))
    few, none = (SmallestSets(HeldOutDomains(part), 0.9) for part in (data, without))
    assert few.threshold(NETWORKS[1]) == none.threshold(NETWORKS[1])


def test_scores_that_tell_labels_apart_are_judged_better_than_constant_ones():
    oracle, constant = nn.Linear(4, 2), nn.Linear(4, 2)
    with torch.no_grad():
        direction = torch.tensor([1.0, 1.0, 1.0, 1.0])  # label 1 has its mean along it
        oracle.weight.copy_(torch.stack([-direction, direction]))
        constant.weight.zero_()
    judge = SmallestSets(HELD_OUT, 0.9)
    assert judge.verdict(oracle) < judge.verdict(constant) == 2


def test_the_threshold_is_that_of_a_network_that_does_not_train():
    network = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2)).train()
    judge = SmallestSets(HELD_OUT, 0.9)
    assert judge.threshold(network) == judge.threshold(network)


@of_each
def test_probabilities_are_judged_by_their_mean_cross_entropy(network):
    loss = LowestLoss(HELD_OUT).verdict(network)
    scores = scores_of(network).astype(np.float64)
    own = scores[np.arange(len(DATA)), DATA.labels]
    assert loss == pytest.approx(np.mean(np.log(np.exp(scores).sum(axis=1)) - own), rel=1e-5)


def test_each_network_of_a_stack_has_its_own_judge():
    others = HeldOutDomains(DATA.subset(np.arange(0, len(DATA), 2)))
    judges = [LowestLoss(HELD_OUT), LowestLoss(others), LowestLoss(HELD_OUT)]
    verdicts, ties = Panel(judges)(stack(NETWORKS[:3]))
    expected = [judge.verdict(network) for judge, network in zip(judges, NETWORKS, strict=False)]
    np.testing.assert_allclose(verdicts, expected, rtol=1e-5)
    assert ties.tolist() == [0, 0, 0]
