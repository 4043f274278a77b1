from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from domaincover import GaussianDomains, InputError, SetCoverLoss
from domaincover.cli.network_options import checkpoints_in
from domaincover.networks.perceptrons import perceptron
from domaincover.terminal.processes import one_thread
from domaincover.training.batches import DomainBatches, MemoryPool, ShuffledBatches
from domaincover.training.checkpoints import Checkpoints, State
from domaincover.training.domain_objectives import domain_objective
from domaincover.training.listeners import Listener
from domaincover.training.loop import train
from domaincover.training.objectives import CrossEntropy
from domaincover.training.settings import TrainingSettings
from tests.deep import deep

DATA = GaussianDomains.of_paper(10).sample(4, 50, np.random.default_rng(0))
AT_EVERY_BATCH = 1e-9  # minutes


class KilledError(Exception):
    pass


class KilledAfter(Listener):
    """Stops a training in the middle, as a power cut would."""

    def __init__(self, n_batches):
        self.left = n_batches

    def batch(self, n_examples):  # noqa: ARG002
        self.left -= 1
        if self.left < 0:
            raise KilledError


def with_dropout(seed):
    with torch.random.fork_rng():
        torch.random.manual_seed(seed)
        return nn.Sequential(nn.Linear(10, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 2))


class KilledAtTheEndOfEpoch(Listener):
    """Stops a training when all batches of an epoch are done, before its weights are judged."""

    def __init__(self, n_epochs):
        self.left = n_epochs

    def step(self, step):  # noqa: ARG002
        self.left -= 1
        if self.left < 0:
            raise KilledError


def compare_domains(kind, listeners=(), checkpoints=None, warmup=20):
    """Train three epochs of 14 batches from the same start, two networks or one, the judge wanting small weights."""
    penalty, one = kind
    networks = [with_dropout(5)] if one else [perceptron(10, 4, 2, np.random.default_rng(k)) for k in (1, 2)]
    n = len(networks)
    rows, rngs = [np.arange(len(DATA))] * n, [np.random.default_rng(k) for k in range(n)]
    batches = DomainBatches(MemoryPool([DATA]), rows, [DATA.domains] * n, 16, rngs, domains_per_batch=3)
    objective = domain_objective(penalty, warmup_steps=warmup)

    def judge(networks):
        return torch.stack([next(iter(network.parameters())).detach().square().sum() for network in networks])

    settings = TrainingSettings(3, 0.01, decay=True)
    with torch.random.fork_rng(), one_thread():  # on a busy machine, many times as fast
        torch.random.manual_seed(3)
        histories = [
            each.history
            for each in train(networks, batches, objective, settings, listeners, judge, checkpoints=checkpoints)
        ]
    state = [value for network in networks for value in network.state_dict().values()]
    return state + list(objective.state_dict().values()), histories


@cache
def uninterrupted(kind, warmup):
    return compare_domains(kind, warmup=warmup)


def run(kind, listeners=(), checkpoints=None, epochs=3):
    """Train from the same start; return the weights, and what training went through."""
    networks = [with_dropout(5)] if kind == "one" else [perceptron(10, 4, 2, np.random.default_rng(k)) for k in (1, 2)]
    rows, rngs = [np.arange(len(DATA))] * len(networks), [np.random.default_rng(k) for k in range(len(networks))]
    batches = ShuffledBatches(MemoryPool([DATA]), rows, 16, rngs)
    objective = CrossEntropy() if kind == "erm" else SetCoverLoss(4, 2, [0.9] * len(networks))
    settings = TrainingSettings(epochs, 0.01, update_every=5, recall_from="batches", decay=True)
    with torch.random.fork_rng():
        torch.random.manual_seed(3)
        histories = [
            each.history for each in train(networks, batches, objective, settings, listeners, checkpoints=checkpoints)
        ]
    state = [value for network in networks for value in network.state_dict().values()]
    return state, histories


def same(one, other):
    states = all(torch.equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    values = [[value for history in part[1] for value in vars(history).values()] for part in (one, other)]
    return states and all(
        (a is None and b is None) or np.array_equal(a, b, equal_nan=True) for a, b in zip(*values, strict=True)
    )


@pytest.mark.parametrize("kind", ["one", "stack", "erm"])
@pytest.mark.parametrize("n_batches", [3, 14, 38, *deep(0, 13, 20)])
def test_a_training_that_was_killed_and_resumed_ends_as_one_that_was_not(tmp_path, kind, n_batches):
    with pytest.raises(KilledError):
        run(kind, [KilledAfter(n_batches)], Checkpoints(tmp_path, AT_EVERY_BATCH))
    resumed = run(kind, checkpoints=Checkpoints(tmp_path))
    assert same(resumed, run(kind))


# The switch comes before the 21st of 42 batches; one network has statistics and dropout, two are a stack
@pytest.mark.parametrize("kind", [("irm", False), ("coral", True)], ids=str)
@pytest.mark.parametrize("n_batches", [20, 21, *deep(5, 14, 19, 41)])
def test_a_training_that_compares_domains_is_resumed_as_if_it_had_not_been_killed(tmp_path, kind, n_batches):
    with pytest.raises(KilledError):
        compare_domains(kind, [KilledAfter(n_batches)], Checkpoints(tmp_path, AT_EVERY_BATCH))
    resumed = compare_domains(kind, checkpoints=Checkpoints(tmp_path))
    assert same(resumed, uninterrupted(kind, 20))


@pytest.mark.parametrize("n_epochs", [0, 1, 2])
def test_an_epoch_that_was_killed_before_its_end_was_judged_is_judged_when_resumed(tmp_path, n_epochs):
    with pytest.raises(KilledError):
        compare_domains(
            ("vrex", False), [KilledAtTheEndOfEpoch(n_epochs)], Checkpoints(tmp_path, AT_EVERY_BATCH), warmup=10
        )
    resumed = compare_domains(("vrex", False), checkpoints=Checkpoints(tmp_path), warmup=10)
    assert same(resumed, uninterrupted(("vrex", False), 10))


def run_of_two_lengths(listeners=(), checkpoints=None):
    """Train two networks, one of which stops after two epochs."""
    networks = [perceptron(10, 4, 2, np.random.default_rng(k)) for k in (1, 2)]
    start = networks[1][0].weight.detach().clone()
    batches = ShuffledBatches(
        MemoryPool([DATA]), [np.arange(len(DATA))] * 2, 16, [np.random.default_rng(k) for k in (1, 2)]
    )

    def judge(networks):
        return torch.tensor([0.0, -(networks[1][0].weight - start).norm().item()])

    settings = TrainingSettings(5, 0.01, patience=1, iterate="last")
    histories = [
        each.history
        for each in train(networks, batches, CrossEntropy(), settings, listeners, judge, checkpoints=checkpoints)
    ]
    return [value for network in networks for value in network.state_dict().values()], histories


@pytest.mark.parametrize("n_batches", [27, 30, 45])
def test_a_network_that_had_stopped_before_the_others_stays_so_when_resumed(tmp_path, n_batches):
    with pytest.raises(KilledError):
        run_of_two_lengths([KilledAfter(n_batches)], Checkpoints(tmp_path, AT_EVERY_BATCH))
    resumed, uninterrupted = run_of_two_lengths(checkpoints=Checkpoints(tmp_path)), run_of_two_lengths()
    lengths = [len(history.epoch) for history in uninterrupted[1]]
    assert lengths[0] == 2 < lengths[1]
    assert same(resumed, uninterrupted)


def test_a_training_may_be_killed_again_and_again(tmp_path):
    for n_batches in (5, 2, 9, 1):
        with pytest.raises(KilledError):
            run("one", [KilledAfter(n_batches)], Checkpoints(tmp_path, AT_EVERY_BATCH))
    assert same(run("one", checkpoints=Checkpoints(tmp_path)), run("one"))


def test_checkpoints_alone_change_nothing(tmp_path):
    assert same(run("one", checkpoints=Checkpoints(tmp_path, AT_EVERY_BATCH)), run("one"))


def test_without_a_clock_there_is_one_for_every_epoch_and_the_last_two_are_kept(tmp_path):
    run("one", checkpoints=Checkpoints(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name[:12] for name in names] == ["state-000003", "state-000004"], "three epochs and the end"


def test_a_finished_training_is_not_done_again(tmp_path):
    done = run("one", checkpoints=Checkpoints(tmp_path))
    again = run("one", [KilledAfter(0)], Checkpoints(tmp_path))
    assert same(done, again)


@pytest.mark.parametrize("damage", ["torn", "flipped", "emptied"])
def test_of_a_damaged_checkpoint_the_one_before_is_used(tmp_path, damage):
    with pytest.raises(KilledError):
        run("one", [KilledAfter(20)], Checkpoints(tmp_path, AT_EVERY_BATCH))
    last = max(tmp_path.iterdir())
    content = bytearray(last.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    last.write_bytes(b"" if damage == "emptied" else bytes(content[: -1 if damage == "torn" else None]))
    assert same(run("one", checkpoints=Checkpoints(tmp_path)), run("one"))


def test_what_a_killed_process_left_unfinished_is_removed_by_the_next_checkpoint(tmp_path):
    for name in (".state.999999999-00000000-0a1b2c3d4e5f.part", "mine.part"):
        (tmp_path / name).touch()
    Checkpoints(tmp_path).write(State({"a": torch.ones(2)}, {}))
    assert sorted(path.name[:12] for path in tmp_path.iterdir()) == ["mine.part", "state-000001"]


def test_closing_leaves_nothing_of_what_a_killed_process_left_unfinished(tmp_path):
    own = tmp_path / "kept" / "0123456789abcdef"
    own.mkdir(parents=True)
    Checkpoints(own).write(State({"a": torch.ones(2)}, {}))
    for folder in (own, own.parent):
        (folder / ".state.999999999-00000000-0a1b2c3d4e5f.part").touch()
    with checkpoints_in(own.parent, resume=True):
        pass
    assert list(tmp_path.iterdir()) == []


def test_closing_leaves_what_is_not_its_own(tmp_path):
    (tmp_path / "mine.part").touch()
    with checkpoints_in(tmp_path, resume=False):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.part"]


def test_where_none_is_whole_training_starts_afresh(tmp_path):
    with pytest.raises(KilledError):
        run("one", [KilledAfter(9)], Checkpoints(tmp_path, AT_EVERY_BATCH))
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    assert same(run("one", checkpoints=Checkpoints(tmp_path)), run("one"))


def test_a_folder_that_cannot_be_written_to_is_refused_before_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write checkpoints to"):
        Checkpoints(tmp_path / "file" / "inside")
    with pytest.raises(InputError, match="must be above 0"):
        Checkpoints(tmp_path, every_minutes=0)
