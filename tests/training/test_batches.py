import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from domaincover import InputError, SetCoverLoss
from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import Block, LazyExamples
from domaincover.training.batches import LazyPool, MemoryPool, ShuffledBatches, make_pool, score
from domaincover.training.loop import train
from domaincover.training.settings import TrainingSettings

RNG = np.random.default_rng(0)
EXAMPLES = RNG.normal(size=(53, 4)).astype(np.float32)
LABELS, DOMAINS = RNG.integers(0, 2, 53), RNG.integers(0, 3, 53)


class Rows:
    """Reads the examples behind row numbers; some may be unreadable."""

    def __init__(self, unreadable=()):
        self.unreadable = unreadable

    def __call__(self, sources):
        readable = ~np.isin(sources.astype(int), self.unreadable)
        return Block(EXAMPLES[sources.astype(int)], None if readable.all() else readable)


class Broken:
    def __call__(self, sources):
        raise InputError(f"row {sources[0]} is broken.")


class Killed:
    def __call__(self, sources):  # noqa: ARG002
        os.kill(os.getpid(), signal.SIGKILL)


def dataset(examples):
    return DomainDataset(examples, LABELS, DOMAINS, (0, 1), (0, 1, 2))


def lazy(read, workers=0):
    return LazyExamples(np.arange(53).astype(object), read, workers)


def shuffled(data):
    return ShuffledBatches(make_pool([data]), [np.arange(53)], 10, [np.random.default_rng(1)])


@pytest.mark.parametrize("workers", [0, 2])
def test_examples_that_are_read_come_as_those_in_memory_do(workers):
    in_memory, read = shuffled(dataset(EXAMPLES)), shuffled(dataset(lazy(Rows(), workers)))
    assert isinstance(in_memory.pool, MemoryPool)
    assert isinstance(read.pool, LazyPool)
    for one, other in zip(in_memory.epoch(), read.epoch(), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one[:3], other[:3], strict=True))


def test_a_network_learns_the_same_from_examples_that_are_read():
    def trained(data):
        with torch.random.fork_rng():
            torch.random.manual_seed(0)
            network = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Tanh(), nn.Linear(3, 2))
        settings = TrainingSettings(epochs=2, update_every=2, recall_from="full-pass")
        train([network], shuffled(data), SetCoverLoss(3, 2, [0.9]), settings)
        return score(network, data.examples)

    assert np.array_equal(trained(dataset(EXAMPLES)), trained(dataset(lazy(Rows()))))


def test_what_becomes_unreadable_while_training_is_named():
    with pytest.raises(InputError, match="17 was readable when training began, but is not any more"):
        list(shuffled(dataset(lazy(Rows([17])))).epoch())


def test_what_cannot_be_read_scores_highest_for_every_label():
    scores = score(nn.Linear(4, 2), lazy(Rows([5, 7])))
    assert np.flatnonzero(np.isposinf(scores).all(axis=1)).tolist() == [5, 7]
    assert np.isfinite(np.delete(scores, [5, 7], axis=0)).all()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_fault_in_a_worker_is_told_as_in_the_main_process(workers):
    with pytest.raises(InputError, match=r"^row 3 is broken\.$"):
        list(lazy(Broken(), workers).blocks([np.array([3, 4])]))


def test_a_worker_that_is_killed_is_told_in_a_line():
    with pytest.raises(InputError, match="was killed, possibly out of memory; use fewer workers"):
        list(lazy(Killed(), 1).blocks([np.array([3, 4])]))


def test_reading_ahead_draws_from_nobody_elses_generator():
    before = torch.get_rng_state()
    list(lazy(Rows(), 1).blocks([np.arange(5)]))
    assert torch.equal(torch.get_rng_state(), before)


def test_networks_on_examples_that_are_read_train_one_at_a_time():
    with pytest.raises(InputError, match="trained one at a time"):
        make_pool([dataset(lazy(Rows()))] * 2)


def test_an_epoch_can_be_drawn_again_from_where_it_was_left():
    batches = shuffled(dataset(EXAMPLES))
    first = [batch.labels for batch in batches.epoch()]
    again = [batch.labels for batch in shuffled(dataset(EXAMPLES)).epoch(n_done=2)]
    assert all(torch.equal(a, b) for a, b in zip(first[2:], again, strict=True))


class CountsReads:
    """Images of one pixel, of which each file is read so often; one cannot be read."""

    n_read = 0

    def __call__(self, sources):
        self.n_read += len(sources)
        values = np.array([int(source) for source in sources], np.uint8).reshape(-1, 1, 1, 1)
        return Block(values, values[:, 0, 0, 0] != 3)


def test_image_files_that_fit_into_memory_are_read_once_and_others_for_every_pass(monkeypatch):
    names, parts = np.array(list("0123456"), dtype=object), [np.array([5, 3]), np.array([1])]
    read = CountsReads()
    lazy_files = LazyExamples(names, read)
    kept = lazy_files.kept()
    before = read.n_read
    for examples in (kept, kept[np.arange(7)], kept[:7]):
        for mine, theirs in zip(examples.blocks(parts), [Block(*read(names[rows])) for rows in parts], strict=True):
            assert np.array_equal(mine.values, theirs.values)
            assert np.array_equal(
                theirs.readable, np.ones(len(theirs.values), bool) if mine.readable is None else mine.readable
            )
    assert read.n_read == before + 3 * 3, "by this test alone"
    monkeypatch.setattr("domaincover.data.examples.KEPT_BYTES", 6)
    assert lazy_files.kept() is lazy_files


def test_batches_of_a_mapped_matrix_are_those_of_memory(tmp_path):
    values, codes = np.random.default_rng(0).normal(size=(503, 7)).astype(np.float32), np.zeros(503, dtype=np.int64)
    values.tofile(tmp_path / "matrix")
    mapped = np.memmap(tmp_path / "matrix", np.float32, "r+", shape=values.shape)
    pools = [MemoryPool([DomainDataset(part, codes, codes, (0,), (0,))]) for part in (mapped, values)]
    rows = np.random.default_rng(0).permutation(503)[None]
    for one, other in zip(*(pool.batches(rows, 100) for pool in pools), strict=True):
        assert (one.examples == other.examples).all()
