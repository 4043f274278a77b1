import numpy as np
import pytest
import torch
from torch import nn

from domaincover import GaussianDomains, InputError, SetCoverLoss
from domaincover.networks.perceptrons import linear, stack
from domaincover.training.batches import MemoryPool, ShuffledBatches, score
from domaincover.training.checkpoints import BestWeights, shortfall
from domaincover.training.loop import train
from domaincover.training.objectives import CrossEntropy, Objective
from domaincover.training.settings import TrainingSettings

DATA = GaussianDomains.of_paper(4).sample(4, 50, np.random.default_rng(0))


def batches(n_networks=1, batch_size=64):
    rngs = [np.random.default_rng(seed) for seed in range(n_networks)]
    return ShuffledBatches(MemoryPool([DATA]), [np.arange(len(DATA))] * n_networks, batch_size, rngs)


def networks(n):
    return [linear(4, 2, np.random.default_rng(seed)) for seed in range(n)]


def weights(network):
    return [parameter.detach().clone() for parameter in network.parameters()]


def fill(stacked, values):
    """Give every number of replica r the value values[r]."""
    with torch.no_grad():
        for parameter in stacked.parameters():
            parameter.copy_(torch.as_tensor(values, dtype=parameter.dtype).view(-1, 1, 1).expand_as(parameter))


def in_turn(*verdicts):
    """Make a judge that has its verdicts ready, and keeps the weights that it was shown."""
    shown = []

    def judge(networks):
        shown.append(weights(networks[0]))
        return torch.tensor([verdicts[len(shown) - 1]])

    return judge, shown


@pytest.mark.parametrize("seed", range(5))
def test_the_best_offer_is_the_first_of_the_lexicographically_smallest(seed):
    offers = np.random.default_rng(seed).integers(0, 4, (20, 2, 3)) / 4.0  # offers × criteria × replicas, with ties
    nets = networks(3)
    stacked = stack(nets)
    best = BestWeights(stacked, 3)
    for number, (first, second) in enumerate(offers):
        fill(stacked, [number] * 3)
        best.offer(torch.tensor(first), torch.tensor(second))
    best.restore()
    stacked.write_back()
    expected = [np.lexsort((offers[:, 1, r], offers[:, 0, r]))[0] for r in range(3)]
    assert [network[0].weight[0, 0].item() for network in nets] == expected


def test_weights_that_were_never_judged_are_the_last_ones():
    (network,) = networks(1)
    stacked = stack([network])
    best = BestWeights(stacked, 1)
    fill(stacked, [7.0])
    best.restore()
    stacked.write_back()
    assert (network[0].weight == 7).all()


@pytest.mark.parametrize("verdict", [(0.0, np.nan), (np.nan, 0.0), (np.inf, 0.0)])
def test_weights_without_a_verdict_are_not_kept(verdict):
    stacked = stack(networks(1))
    best = BestWeights(stacked, 1)
    fill(stacked, [1.0])
    best.offer(torch.tensor([0.5]), torch.tensor([1.0]))
    fill(stacked, [2.0])
    best.offer(*(torch.tensor([value]) for value in verdict))
    best.restore()
    assert all((parameter == 1).all() for parameter in stacked.parameters())


def test_each_replica_runs_out_of_patience_by_itself_and_keeps_what_it_has():
    stacked = stack(networks(2))
    best = BestWeights(stacked, 2)
    closed = []
    for value, first in enumerate(([3, 3], [3, 3], [4, 2], [1, 5], [5, 5])):  # the first gets better too late
        fill(stacked, [value, value])
        best.offer(torch.tensor(first), torch.zeros(2))
        best.close(2, value + 1)
        closed.append(best.all_closed)
    assert closed == [False, False, False, False, True]
    assert best.stopped_at == [3, 5]
    best.hold()
    assert next(stacked.parameters())[:, 0, 0].tolist() == [2, 4]
    best.restore()
    stacked_weights = next(stacked.parameters()).detach()
    assert stacked_weights[0].unique().tolist() == [0]
    assert stacked_weights[1].unique().tolist() == [2]


def test_buffers_are_kept_with_the_weights():
    network = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    stacked = stack([network])
    best = BestWeights(stacked, 1)
    network[0].running_mean.fill_(1.0)
    best.offer(torch.zeros(1), torch.zeros(1))
    network[0].running_mean.fill_(2.0)
    best.restore()
    assert (network[0].running_mean == 1).all()


def test_shortfall_is_that_of_the_worst_cell():
    rng = np.random.default_rng(0)
    recall = rng.random((3, 5, 2))
    recall[rng.random(recall.shape) < 0.3] = np.nan
    recall[2] = 0.95
    targets = np.array([0.5, 0.9, 0.9])
    expected = np.maximum(targets - np.nanmin(recall, axis=(1, 2)), 0)
    found = shortfall(torch.tensor(recall), torch.tensor(targets).view(3, 1, 1))
    np.testing.assert_allclose(found.numpy(), expected)
    assert found[2] == 0


def test_the_weights_that_the_judge_likes_best_are_kept():
    judge, shown = in_turn(3.0, 1.0, 2.0, 1.0)
    (network,) = networks(1)
    train([network], batches(), CrossEntropy(), TrainingSettings(epochs=4), judge=judge)
    kept = weights(network)
    assert all(torch.equal(a, b) for a, b in zip(kept, shown[1], strict=True))


def test_the_last_weights_are_kept_where_asked_for_whatever_the_judge_says():
    judge, shown = in_turn(1.0, 2.0, 3.0)
    (network,) = networks(1)
    train([network], batches(), CrossEntropy(), TrainingSettings(epochs=3, iterate="last"), judge=judge)
    assert all(torch.equal(a, b) for a, b in zip(weights(network), shown[2], strict=True))


def test_training_stops_after_so_many_verdicts_without_better_weights():
    judge, shown = in_turn(3.0, 1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0)
    ((history, _),) = train(networks(1), batches(), CrossEntropy(), TrainingSettings(epochs=8, patience=3), judge=judge)
    assert len(shown) == len(history.epoch) == 5


def test_without_patience_training_runs_to_its_end():
    judge, shown = in_turn(*np.arange(8.0))
    train(networks(1), batches(), CrossEntropy(), TrainingSettings(epochs=8), judge=judge)
    assert len(shown) == 8


@pytest.mark.parametrize("recall_from", ["full-pass", "batches"])
def test_the_same_weights_are_not_judged_twice(recall_from):
    judge, shown = in_turn(*np.arange(12.0, 0, -1))  # better every time
    settings = TrainingSettings(epochs=3, update_every=2, recall_from=recall_from, patience=1)
    train(networks(1), batches(), SetCoverLoss(4, 2, [0.9]), settings, judge=judge)
    assert len(shown) == 6, "4 batches an epoch: after 2 and after 4, where the epoch ends too"


@pytest.mark.parametrize("update_every", [1, 2, 3, 9])
def test_a_judge_of_epochs_is_asked_once_an_epoch_however_often_multipliers_move(update_every):
    judge, shown = in_turn(3.0, 1.0, 2.0)
    settings = TrainingSettings(epochs=3, update_every=update_every, recall_from="batches", judge_at="epochs")
    (network,) = networks(1)
    train([network], batches(), SetCoverLoss(4, 2, [0.9]), settings, judge=judge)
    assert len(shown) == 3
    assert all(torch.equal(a, b) for a, b in zip(weights(network), shown[1], strict=True)), "the best is kept"


def test_a_judge_scores_a_network_that_does_not_train():
    network = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2))
    modes = []

    def judge(networks):
        modes.append(networks[0].training)
        return torch.zeros(1)

    train([network], batches(), CrossEntropy(), TrainingSettings(epochs=2), judge=judge)
    assert modes == [False] * 2
    assert network.training, "and goes on training"


def test_a_judge_that_only_looks_does_not_change_training():
    alone, judged = networks(1), networks(1)
    settings = TrainingSettings(epochs=3, iterate="last")
    ((first, _),) = train(alone, batches(), CrossEntropy(), settings)
    ((second, _),) = train(judged, batches(), CrossEntropy(), settings, judge=in_turn(1.0, 2.0, 3.0)[0])
    assert np.array_equal(first.loss, second.loss)
    assert np.array_equal(score(alone[0], DATA.examples), score(judged[0], DATA.examples))


def test_without_a_judge_the_training_cells_decide():
    (network,) = networks(1)
    ((history, _),) = train(
        [network], batches(), SetCoverLoss(4, 2, [0.9]), TrainingSettings(epochs=6, learning_rate=0.1)
    )
    below = np.maximum(0.9 - np.nanmin(history.recall, axis=(1, 2)), 0)
    best = np.lexsort((history.set_size, below))[0]
    sets = score(network, DATA.examples) >= 0
    assert sets.sum(axis=1).mean() == pytest.approx(history.set_size[best])


def test_without_judge_or_multipliers_the_last_weights_are_kept():
    best, last = networks(1), networks(1)
    for nets, keep in ((best, "best"), (last, "last")):
        train(nets, batches(), CrossEntropy(), TrainingSettings(epochs=3, iterate=keep))
    assert np.array_equal(score(best[0], DATA.examples), score(last[0], DATA.examples))


def lengths_of_steps(decay):
    """Train by a loss whose gradient has one sign: then every step of Adam is as long as its learning rate."""
    network, path = nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 2)), []  # for torch's own Adam, not our flat one

    class Sum(Objective):
        def forward(self, scores, labels, domains):  # noqa: ARG002
            path.append(network[-1].bias.detach().clone())
            return scores.sum((-2, -1))

    settings = TrainingSettings(epochs=10, learning_rate=0.1, decay=decay)
    train([network], batches(batch_size=100), Sum(), settings)
    path.append(network[-1].bias.detach().clone())
    return torch.stack(path).diff(dim=0).abs()[:, 0].numpy()


def test_the_learning_rate_falls_to_zero_over_the_second_half():
    expected = 0.1 * np.minimum(1, 2 * (1 - np.arange(20) / 20))
    np.testing.assert_allclose(lengths_of_steps(decay=True), expected, rtol=1e-4)


def test_without_decay_the_learning_rate_stays():
    np.testing.assert_allclose(lengths_of_steps(decay=False), 0.1, rtol=1e-4)


def test_decay_is_the_same_for_our_own_adam_as_for_torchs():
    plain = linear(4, 2, np.random.default_rng(0))
    other = nn.Sequential(nn.Dropout(0.0), linear(4, 2, np.random.default_rng(0))[0])
    for network in (plain, other):
        settings = TrainingSettings(epochs=5, learning_rate=0.1, decay=True, iterate="last")
        train([network], batches(), CrossEntropy(), settings)
    np.testing.assert_allclose(score(plain, DATA.examples), score(other, DATA.examples), atol=1e-5)


def test_patience_below_one_is_refused():
    with pytest.raises(InputError, match="patience must be at least 1 or None, got 0"):
        TrainingSettings(patience=0)


def best_at(*epochs):
    """Make a judge to which each replica is best after so many epochs."""
    n_seen = 0

    def judge(networks):  # noqa: ARG001
        nonlocal n_seen
        n_seen += 1
        return torch.tensor([abs(n_seen - epoch) for epoch in epochs])

    return judge


@pytest.mark.parametrize("iterate", ["last", "best"])
@pytest.mark.parametrize("with_multipliers", [False, True], ids=["cross-entropy", "multipliers"])
def test_a_replica_that_stops_before_others_ends_as_if_trained_alone(iterate, with_multipliers):
    """In float64, where batched products round by 1e-16 and training for ten epochs multiplies that a thousandfold."""
    best_epochs, settings = (2, 8, 4), TrainingSettings(epochs=12, learning_rate=0.1, iterate=iterate, patience=2)

    def trained(replicas):
        nets = [network.double() for network in networks(3)]
        chosen, rngs = [nets[r] for r in replicas], [np.random.default_rng(r) for r in replicas]
        source = ShuffledBatches(MemoryPool([DATA], torch.float64), [np.arange(len(DATA))] * len(rngs), 64, rngs)
        objective = SetCoverLoss(4, 2, [0.9] * len(rngs)).double() if with_multipliers else CrossEntropy()
        judge = best_at(*(best_epochs[r] for r in replicas))
        return chosen, [each.history for each in train(chosen, source, objective, settings, judge=judge)]

    for replica, (network, history) in enumerate(zip(*trained([0, 1, 2]), strict=True)):
        (alone,), (of_alone,) = trained([replica])
        assert len(history.epoch) == len(of_alone.epoch) == best_epochs[replica] + 2
        for values, expected in zip(vars(history).values(), vars(of_alone).values(), strict=True):
            if expected is not None:
                np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(weights(network), weights(alone), rtol=1e-9, atol=1e-12)
