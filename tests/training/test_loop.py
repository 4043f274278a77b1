import numpy as np
import pytest
import torch
from torch import nn

from domaincover import GaussianDomains, InputError, SetCoverLoss
from domaincover.networks.perceptrons import linear, stack
from domaincover.training.batches import MemoryPool, ShuffledBatches, score
from domaincover.training.loop import train
from domaincover.training.objectives import CrossEntropy
from domaincover.training.settings import TrainingSettings
from tests.recall import recall_by_cell

DATA = GaussianDomains.of_paper(10).sample(4, 100, np.random.default_rng(0))


def batches(n_networks=1, batch_size=64):
    rngs = [np.random.default_rng(seed) for seed in range(n_networks)]
    return ShuffledBatches(MemoryPool([DATA]), [np.arange(len(DATA))] * n_networks, batch_size, rngs)


def normalised():
    """A network with running statistics and dropout, whose behaviour differs between training and scoring."""
    return nn.Sequential(nn.BatchNorm1d(10), nn.Dropout(0.5), nn.Linear(10, 2))


def test_every_row_is_in_one_batch_of_an_epoch_and_the_order_changes():
    source = batches(2, batch_size=30)
    first, second = (torch.cat([batch.examples for batch in source.epoch()], dim=1) for _ in range(2))
    for replica in first:
        assert torch.equal(replica.sort(dim=0).values, torch.as_tensor(DATA.examples).sort(dim=0).values)
    assert not torch.equal(first, second)
    assert not torch.equal(first[0], first[1])


def test_the_last_batch_is_the_rest():
    sizes = [batch.examples.shape[1] for batch in batches(batch_size=150).epoch()]
    assert sizes == [150, 150, 100]
    assert [batch.labels.shape[1] for batch in batches(batch_size=1_000).epoch()] == [400]


def test_a_history_has_a_row_per_epoch_without_multipliers():
    ((history, _),) = train(
        [linear(10, 2, np.random.default_rng(0))], batches(), CrossEntropy(), TrainingSettings(epochs=3)
    )
    assert history.epoch.tolist() == [0, 1, 2]
    assert history.loss[-1] < history.loss[0]
    assert history.recall is history.multipliers is history.set_size is None


def test_erm_learns_what_logistic_regression_does():
    network = linear(10, 2, np.random.default_rng(0))
    train([network], batches(), CrossEntropy(), TrainingSettings(epochs=300, learning_rate=0.02))
    margin = torch.tensor(score(network, DATA.examples)).diff(dim=1)[:, 0].double()
    error = torch.sigmoid(margin) - torch.as_tensor(DATA.labels)
    gradient = (error[:, None] * torch.as_tensor(DATA.examples)).mean(0)
    assert gradient.abs().max() < 0.01, "at the minimum of the convex loss the gradient is 0, up to the last steps"


def test_statistics_of_a_network_alone_are_those_of_its_training_batches():
    network = normalised()
    train([network], batches(), SetCoverLoss(4, 2, [0.9]), TrainingSettings(epochs=2, iterate="last"))
    assert network[0].num_batches_tracked == 2 * 7, "the pass that measures recall must not move them"


def test_the_best_weights_come_with_their_statistics():
    network = normalised()
    settings = TrainingSettings(epochs=4, learning_rate=0.3)
    ((history, _),) = train([network], batches(), SetCoverLoss(4, 2, [0.9]), settings)
    shortfall = np.maximum(0.9 - np.nanmin(history.recall, axis=(1, 2)), 0)
    best = np.lexsort((history.set_size, shortfall))[0]
    sets = score(network, DATA.examples) >= 0
    assert sets.sum(axis=1).mean() == pytest.approx(history.set_size[best])
    assert network[0].num_batches_tracked == 7 * (best + 1)


@pytest.mark.parametrize("targets", [0.9, [0.9], [0.9, 0.9, 0.9]])
def test_a_loss_for_another_number_of_networks_is_refused_before_training(targets):
    networks = [linear(10, 2, np.random.default_rng(seed)) for seed in range(2)]
    with pytest.raises(InputError, match="one for each of the 2 networks"):
        train(networks, batches(2), SetCoverLoss(4, 2, targets), TrainingSettings(epochs=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"update_every": 0}, "update_every must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0"),
        ({"recall_from": "thin air"}, "one of 'full-pass', 'batches', got 'thin air'"),
        ({"iterate": "all"}, "one of 'best', 'last', got 'all'"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        TrainingSettings(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_recall": 90}, "between 0 and 1, got 90"),
        ({"target_recall": [0.9, 1.0]}, "between 0 and 1, got 1"),
        ({"penalty": "half-set"}, "'wrong-label' or 'full-set', got 'half-set'"),
        ({"floor": 10.0}, "0 < floor <= start <= cap, got 10, 5 and 1e"),
        ({"n_domains": 0}, "at least one domain and one label are needed, got 0 and 2"),
    ],
)
def test_an_impossible_loss_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        SetCoverLoss(**{"n_domains": 3, "n_labels": 2} | changes)


def test_counting_in_parts_gives_the_recall_of_counting_at_once(monkeypatch):
    scores = torch.randn(900, 3, generator=torch.Generator().manual_seed(0))
    labels, domains = torch.arange(900) % 3, torch.arange(900) % 7 % 4
    at_once, in_parts = SetCoverLoss(4, 3), SetCoverLoss(4, 3)
    at_once.count(scores, labels, domains)
    monkeypatch.setattr(type(in_parts.counts), "MOST_PENDING_SCORES", 100)
    for part in range(0, 900, 90):
        rows = slice(part, part + 90)
        in_parts.count(scores[rows], labels[rows], domains[rows])
    assert in_parts.counts.mean_set_size() == at_once.counts.mean_set_size() == (scores >= 0).sum(1).double().mean()
    assert torch.equal(in_parts.update(), at_once.update())


def test_data_with_more_domains_than_the_loss_is_refused_before_training():
    with pytest.raises(InputError, match="domain codes run from 0 to 3, but the loss has 3 domains"):
        train([linear(10, 2, np.random.default_rng(0))], batches(), SetCoverLoss(3, 2, [0.9]), TrainingSettings())


def ragged(*rows, batch_size=4):
    rngs = [np.random.default_rng(seed) for seed in range(len(rows))]
    return ShuffledBatches(MemoryPool([DATA]), rows, batch_size, rngs)


def test_a_replica_without_rows_is_refused():
    with pytest.raises(InputError, match=r"every replica needs at least one row, got \[5, 0\]"):
        ragged(np.arange(5), np.arange(0))


def test_a_replica_with_fewer_rows_meets_each_equally_often_but_for_the_last_round():
    few, many = np.arange(3), np.arange(10, 21)
    number = {row.tobytes(): k for k, row in enumerate(np.asarray(DATA.examples))}
    met = [[], []]
    for batch in ragged(few, many).epoch():
        for replica, examples in enumerate(batch.examples.numpy()):
            met[replica] += [number[row.tobytes()] for row in examples]
    assert sorted(met[1]) == many.tolist()
    assert len(met[0]) == len(many)
    assert [sorted(met[0][start : start + 3]) for start in (0, 3, 6)] == [few.tolist()] * 3


def test_a_full_pass_counts_every_row_of_every_replica_once(monkeypatch):
    monkeypatch.setattr(MemoryPool, "rows_at_once", 7)
    rows = np.arange(5), np.arange(20, len(DATA), 3)
    batches = ragged(*rows)
    networks = [linear(10, 2, np.random.default_rng(seed)) for seed in range(2)]
    stacked, loss = stack(networks), SetCoverLoss(DATA.n_domains, 2, [0.9, 0.9])
    with torch.no_grad():
        for block, counts in batches.in_order():
            loss.counts.add(stacked(block.examples), block.labels, block.domains, counts)
    size = loss.counts.mean_set_size()
    recall = loss.update().numpy()
    for replica, (network, own) in enumerate(zip(networks, rows, strict=True)):
        sets = score(network, DATA.examples[own]) >= 0
        expected = recall_by_cell(sets, DATA.labels[own], DATA.domains[own], DATA.n_domains)
        np.testing.assert_allclose(recall[replica], expected)
        assert size[replica].item() == pytest.approx(sets.sum(axis=1).mean())


def test_a_target_recall_may_be_a_numpy_number():
    assert SetCoverLoss(3, 2, np.float32(0.5)).multipliers.shape == (3, 2)
    assert SetCoverLoss(3, 2, np.array([0.5, 0.9])).multipliers.shape == (2, 3, 2)


def test_an_empty_batch_is_refused():
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        batches(batch_size=0)
