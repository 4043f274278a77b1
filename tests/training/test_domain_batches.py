"""Batches of a few domains each: who is in them, how often, and in which order."""

import numpy as np
import pytest
import torch

from domaincover import InputError
from domaincover.data.dataset import DomainDataset
from domaincover.data.examples import Block, LazyExamples
from domaincover.training.batches import DomainBatches, LazyPool, MemoryPool, make_pool

SIZES = (40, 25, 17, 8, 3, 2, 30)  # of seven domains, two of them smaller than their part of a batch
DOMAINS = np.random.default_rng(0).permutation(np.repeat(np.arange(len(SIZES)), SIZES))


def dataset(domains=DOMAINS, examples=None):
    """Examples that are their own row numbers."""
    rows = np.arange(len(domains), dtype=np.float32)[:, None]
    examples = rows if examples is None else examples
    return DomainDataset(examples, np.zeros(len(domains), int), domains, (0,), tuple(range(int(domains.max()) + 1)))


def dealt(domains=DOMAINS, batch_size=20, seed=1, k=4):
    data = dataset(domains)
    return DomainBatches(
        MemoryPool([data]), [np.arange(len(data))], [domains], batch_size, [np.random.default_rng(seed)], k
    )


def rows_of(batch):
    return batch.examples[..., 0].numpy().astype(int)


def epochs(batches, n=1):
    """Return the row numbers of some epochs' batches, (batch, row), of the first replica."""
    return np.stack([rows_of(batch)[0] for _ in range(n) for batch in batches.epoch()])


def test_every_batch_has_as_many_distinct_domains_as_asked_for_with_equally_many_examples_taking_turns():
    for batch in dealt(k=4).epoch():
        turns = batch.domains[0].view(5, 4)
        assert len(turns[0].unique()) == 4
        assert torch.equal(turns, turns[:1].expand(5, 4))


def test_labels_and_domains_are_those_of_the_examples():
    for batch in dealt().epoch():
        assert np.array_equal(batch.domains.numpy(), DOMAINS[rows_of(batch)])


def test_an_epoch_has_as_many_examples_as_the_data_up_to_a_batch():
    rows = epochs(dealt(batch_size=20))
    assert rows.shape == (-(-len(DOMAINS) // 20), 20)


@pytest.mark.parametrize("n_epochs", [1, 2, 7, 30])
def test_within_a_domain_no_example_is_used_twice_more_than_another(n_epochs):
    used = np.bincount(epochs(dealt(), n_epochs).ravel(), minlength=len(DOMAINS))
    for code, size in enumerate(SIZES):
        if size >= 5:  # as many as a batch takes; smaller ones repeat some of theirs within it
            assert np.ptp(used[code == DOMAINS]) <= 1


def test_even_and_odd_examples_of_a_domain_are_never_the_same():
    for rows in epochs(dealt(), 20):
        turns = rows.reshape(5, 4)
        for one, other in zip(turns[::2].T, turns[1::2].T, strict=True):
            assert not set(one) & set(other)


def test_every_example_is_used_in_time():
    # The largest domain, of 40, gives five a time; it is in four batches of seven on average
    assert len(np.unique(epochs(dealt(), 8))) == len(DOMAINS)


def test_no_example_is_twice_in_a_batch_where_the_domain_has_enough():
    for rows in epochs(dealt(), 10):
        twice = np.bincount(rows, minlength=len(DOMAINS)) > 1
        assert set(DOMAINS[twice]) <= {4, 5}, "the domains with three and two examples"


@pytest.mark.parametrize("n_epochs", [1, 2, 9])
def test_small_and_large_domains_are_dealt_equally_often(n_epochs):
    rows = epochs(dealt(), n_epochs)
    assert np.ptp(np.bincount(DOMAINS[rows[:, :4]].ravel(), minlength=7)) <= 1


def test_of_many_domains_none_is_dealt_again_before_all_were():
    many = np.repeat(np.arange(1000), 2)
    rows = epochs(dealt(many, batch_size=80, k=10), 8)  # 25 batches of 10 domains an epoch: four epochs for all
    assert (np.bincount(many[rows[:, :10]].ravel()) == 2).all()


def test_where_hands_divide_the_deck_every_domain_is_dealt_once_before_one_is_dealt_again():
    domains = np.arange(600) % 12
    first = domains[epochs(dealt(domains, batch_size=8, k=4), 1)[:, :4]]
    assert len(first) == 75
    for start in range(0, 75, 3):
        assert sorted(first[start : start + 3].ravel()) == list(range(12))


def test_with_fewer_domains_than_asked_for_every_batch_has_them_all_and_its_size():
    domains = np.arange(90) % 3
    batches = dealt(domains, batch_size=24, k=8)
    assert batches.domains_per_batch == 3
    for batch in batches.epoch():
        assert batch.domains[0].bincount().tolist() == [8, 8, 8]


def test_a_batch_is_no_larger_than_the_data():
    domains = np.arange(24) % 3
    assert epochs(dealt(domains, batch_size=1000, k=3)).shape == (1, 24)


def test_a_batch_has_at_least_two_examples_of_a_domain():
    assert [batch.domains.shape[1] for batch in dealt(np.arange(32) % 4, batch_size=4).epoch()] == [8] * 4


def test_one_domain_alone_fills_the_batches():
    assert sorted(epochs(dealt(np.zeros(12, int), batch_size=6)).ravel()) == list(range(12))


def test_the_same_seed_gives_the_same_batches_and_another_one_others():
    assert np.array_equal(epochs(dealt(seed=1), 3), epochs(dealt(seed=1), 3))
    assert not np.array_equal(epochs(dealt(seed=1), 3), epochs(dealt(seed=2), 3))


def test_epochs_are_shuffled_anew():
    batches = dealt()
    assert not np.array_equal(epochs(batches), epochs(batches))


def test_codes_need_not_run_from_zero():
    batches = dealt(np.array([7, 7, 3, 3, 9, 9]), batch_size=6)
    assert sorted(next(iter(batches.epoch())).domains[0].tolist()) == [3, 3, 7, 7, 9, 9]


def test_a_replica_in_a_stack_meets_the_batches_that_it_meets_alone():
    rng = np.random.default_rng(3)
    several = [rng.permutation(DOMAINS), rng.permutation(DOMAINS) + 2]
    data, n = [dataset(domains) for domains in several], len(DOMAINS)
    together = DomainBatches(
        MemoryPool(data), [np.arange(n), np.arange(n, 2 * n)], several, 20, [np.random.default_rng(k) for k in (5, 6)]
    )
    met = np.concatenate([rows_of(batch)[:, None] for _ in range(3) for batch in together.epoch()], axis=1)
    for replica, domains in enumerate(several):
        assert np.array_equal(met[replica], epochs(dealt(domains, seed=5 + replica), 3))


def test_a_replica_with_fewer_rows_has_as_many_batches_as_the_others():
    small, large = np.arange(20) % 5, np.arange(100) % 5
    data = [dataset(small), dataset(large)]
    rngs = [np.random.default_rng(k) for k in range(2)]
    batches = DomainBatches(MemoryPool(data), [np.arange(20), np.arange(20, 120)], [small, large], 20, rngs)
    shapes = [tuple(batch.labels.shape) for batch in batches.epoch()]
    assert shapes == [(2, 20)] * 5


@pytest.mark.parametrize("n_done", [1, 4, 7])
def test_after_skipped_epochs_and_batches_the_others_are_what_they_would_have_been(n_done):
    whole, other = dealt(), dealt()
    epochs(whole, 3)
    other.skip(3)
    again = np.stack([*(rows_of(batch)[0] for batch in other.epoch(n_done)), *epochs(other, 2)])
    assert np.array_equal(epochs(whole, 3)[n_done:], again)


def read(sources):
    return Block(sources.astype(np.float32)[:, None], None)


def test_examples_that_are_read_come_as_those_in_memory_do():
    data = dataset(examples=LazyExamples(np.arange(len(DOMAINS)).astype(object), read, 0))
    pool = make_pool([data])
    assert isinstance(pool, LazyPool)
    batches = DomainBatches(pool, [np.arange(len(data))], [DOMAINS], 20, [np.random.default_rng(1)])
    assert np.array_equal(epochs(batches, 2), epochs(dealt(), 2))


def test_ten_thousand_domains_are_dealt():
    domains = np.repeat(np.arange(10_000), 5)
    rows = epochs(dealt(domains, batch_size=256, k=32))
    assert rows.shape == (196, 256)
    assert np.bincount(domains[rows[:, :32]].ravel()).max() == 1, "there are more domains than an epoch deals"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"k": 0}, "domains_per_batch must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
    ],
)
def test_batches_that_cannot_be_are_refused_in_a_line(settings, words):
    with pytest.raises(InputError, match=words) as refusal:
        dealt(**settings)
    assert "\n" not in str(refusal.value)
