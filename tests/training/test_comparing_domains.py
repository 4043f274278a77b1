"""Objectives that compare domains, in the training loop: fresh optimisers, judges, stacks, and what is refused."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from domaincover import GaussianDomains, InputError
from domaincover.data.dataset import DomainDataset
from domaincover.networks.perceptrons import linear, perceptron
from domaincover.terminal.processes import one_thread
from domaincover.training.batches import DomainBatches, MemoryPool
from domaincover.training.domain_objectives import IRM, VREx, domain_objective
from domaincover.training.loop import train
from domaincover.training.settings import TrainingSettings

DATA = GaussianDomains.of_paper(10).sample(6, 40, np.random.default_rng(0))
PENALTIES = ("irm", "vrex", "mmd", "coral")


@pytest.fixture(autouse=True)
def in_one_thread():
    with one_thread():
        yield


def dealt(seeds=(0,), batch_size=32, dtype=torch.float32):
    n = len(seeds)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    return DomainBatches(MemoryPool([DATA], dtype), [np.arange(len(DATA))] * n, [DATA.domains] * n, batch_size, rngs)


def objective(penalty, warmup_steps=5):
    return domain_objective(penalty, warmup_steps=warmup_steps)


def own_module(seed):
    """A network that is not a row of plain layers, so that torch's own Adam trains it."""
    made = perceptron(10, 5, 2, np.random.default_rng(seed))
    return nn.Sequential(made[0], nn.Softplus(), made[2])


MAKERS = {"flat": lambda seed: perceptron(10, 5, 2, np.random.default_rng(seed)), "torch": own_module}


@pytest.mark.parametrize("optimiser", MAKERS)
@pytest.mark.parametrize("kind", [IRM, VREx])
def test_at_the_switch_the_optimiser_starts_afresh_as_in_a_loop_by_hand(kind, optimiser):
    ours, by_hand = MAKERS[optimiser](3), MAKERS[optimiser](3)
    train([ours], dealt(), kind(20.0, 11), TrainingSettings(epochs=3, learning_rate=0.01))
    source, step, loss = dealt(), 0, kind(20.0, 11)
    for _ in range(3):
        for batch in source.epoch():
            if step in (0, 11):
                adam = torch.optim.Adam(by_hand.parameters(), lr=0.01)
            loss.begin_step(step)
            adam.zero_grad()
            loss(by_hand(batch.examples[0]), batch.labels[0], batch.domains[0]).backward()
            adam.step()
            step += 1
    assert step == 24
    for one, other in zip(ours.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_stacked_networks_train_as_if_alone(penalty):
    def trained(seeds):
        networks = [MAKERS["flat"](seed).double() for seed in seeds]
        settings = TrainingSettings(epochs=2, learning_rate=0.01)
        histories = [
            each.history for each in train(networks, dealt(seeds, dtype=torch.float64), objective(penalty), settings)
        ]
        return [(network, history) for network, history in zip(networks, histories, strict=True)]

    together, alone = trained((1, 2, 3)), [trained((seed,))[0] for seed in (1, 2, 3)]
    for (network, history), (own, own_history) in zip(together, alone, strict=True):
        for one, other in zip(network.parameters(), own.parameters(), strict=True):
            # In double precision, so that only what is meant to be different could be
            torch.testing.assert_close(one, other, atol=1e-9, rtol=0)
        np.testing.assert_allclose(history.loss, own_history.loss, rtol=1e-9)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_training_lowers_the_risk(penalty):
    ((history, _),) = train(
        [MAKERS["flat"](0)], dealt(), objective(penalty, warmup_steps=0), TrainingSettings(epochs=12)
    )
    assert history.loss[-1] < history.loss[0]


@pytest.mark.parametrize(("warmup", "judged"), [(0, [8, 16, 24]), (8, [16, 24]), (9, [16, 24]), (20, [24]), (24, [])])
def test_only_weights_after_the_switch_are_judged(warmup, judged):
    loss, steps = VREx(10.0, warmup), []
    begin = loss.begin_step

    def counting(step):
        counting.n = step + 1
        return begin(step)

    def judge(_):
        steps.append(counting.n)
        return torch.zeros(1)

    loss.begin_step = counting
    train([MAKERS["flat"](0)], dealt(), loss, TrainingSettings(epochs=3), judge=judge)
    assert steps == judged


def test_where_none_were_judged_the_last_weights_are_kept():
    judged, last = MAKERS["flat"](0), MAKERS["flat"](0)
    train([judged], dealt(), VREx(10.0, 99), TrainingSettings(epochs=2), judge=lambda _: torch.zeros(1))
    train([last], dealt(), VREx(10.0, 99), TrainingSettings(epochs=2, iterate="last"))
    assert torch.equal(judged[0].weight, last[0].weight)


@pytest.mark.parametrize("penalty", ["mmd", "coral"])
@pytest.mark.parametrize(
    "make",
    [lambda: linear(10, 2, np.random.default_rng(0)), lambda: nn.Sequential(frozen(nn.Linear(10, 4)), nn.Linear(4, 2))],
    ids=["linear", "frozen but for the head"],
)
def test_features_that_are_not_learned_are_refused_in_a_line(penalty, make):
    with pytest.raises(InputError, match=r"no trained layer before its last linear one; add a hidden layer") as no:
        train([make()], dealt(), objective(penalty), TrainingSettings(epochs=1))
    assert "\n" not in str(no.value)


def frozen(layer):
    return layer.requires_grad_(False)


@pytest.mark.parametrize("penalty", ["coral", "vrex"])
def test_training_that_diverges_is_told_in_a_line(penalty):
    with pytest.raises(InputError, match=r"training diverged: .* lower learning_rate"):
        train([MAKERS["flat"](0)], dealt(), objective(penalty), TrainingSettings(epochs=3, learning_rate=1e30))


def test_an_objective_that_compares_features_says_so_where_none_are_given():
    with pytest.raises(InputError, match=r"CORAL compares features: objective\(scores, labels, domains, features\)"):
        objective("coral")(torch.zeros(8, 2), torch.zeros(8, dtype=int), torch.arange(8) % 4)


# With BatchNorm, MMD and CORAL forward each domain on its own, IRM and VREx the whole batch once


@pytest.mark.parametrize(("penalty", "n_passes"), [("irm", 1), ("vrex", 1), ("mmd", 4), ("coral", 4)])
def test_statistics_are_those_of_domains_only_where_features_are_compared(penalty, n_passes):
    network = nn.Sequential(nn.Linear(10, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    batches = dealt()
    train([network], batches, objective(penalty), TrainingSettings(epochs=1))
    assert network[1].num_batches_tracked == n_passes * batches.n_batches


# A problem whose answer is known: MMD and CORAL bring the domains' features together


def shifted(n_domains=4, n_each=100, seed=0):
    """Domains that lie apart along two features, labels along a third."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_each)
    labels = rng.integers(0, 2, len(domains))
    examples = rng.normal(size=(len(domains), 3)).astype(np.float32)
    examples[:, 0] += 2 * labels
    examples[:, 1:] += 2 * rng.normal(size=(n_domains, 2))[domains]
    return DomainDataset(examples, labels, domains, (0, 1), tuple(range(n_domains)))


@cache
def distance(penalty, weight):
    """Return how far the means of the domains' features lie apart, in standard deviations of features."""
    data, network = shifted(), perceptron(3, 8, 2, np.random.default_rng(1))
    batches = DomainBatches(MemoryPool([data]), [np.arange(len(data))], [data.domains], 64, [np.random.default_rng(2)])
    loss = domain_objective(penalty, weight)
    train([network], batches, loss, TrainingSettings(epochs=60, learning_rate=0.01, iterate="last"))
    with torch.no_grad():
        features = network[:-1](torch.from_numpy(data.examples)).numpy()
    means = np.stack([features[data.domains == code].mean(0) for code in range(4)])
    return float(np.sqrt(means.var(0).sum() / features.var(0).sum()))


# A larger weight makes MMD's features all the same, which is its own kind of together
@pytest.mark.parametrize(("penalty", "weights"), [("mmd", (0.0, 0.1, 1.0)), ("coral", (0.0, 1.0, 100.0))])
def test_the_domains_features_come_together_as_the_weight_grows(penalty, weights):
    none, some, much = (distance(penalty, weight) for weight in weights)
    assert none > some > much
    assert much < none / 5
