import numpy as np
import pytest

from domaincover import DomainDataset, InputError
from domaincover.data.dataset import (
    cap_per_domain,
    draw_domains,
    drop_small_cells,
    hold_out_examples,
    paper_split,
)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    domains = rng.choice(12, p=np.arange(1, 13) / 78, size=20_000)
    return DomainDataset.from_arrays(rng.normal(size=(20_000, 1)), rng.choice(3, 20_000, p=[0.6, 0.3, 0.1]), domains)


def split(data, seed=0, **changes):
    settings = {"n_train_domains": 5, "n_unseen_domains": 4, "max_train_rows": 600, "max_test_rows": 300}
    settings["min_cell_size"] = 50
    return paper_split(data, **settings | changes, rng=np.random.default_rng(seed))


def test_every_domain_is_drawn_for_training_equally_often():
    rng = np.random.default_rng(0)
    n = 2_000
    counts = sum(np.bincount(draw_domains(np.arange(8), 2, 3, rng).train, minlength=8) for _ in range(n))
    deviation = np.sqrt(n * 0.25 * 0.75)
    assert np.abs(counts - n * 0.25).max() < 4 * deviation


@pytest.mark.parametrize(("n_train", "message"), [(6, "6 training and 5 unseen .* has 10"), (0, "got 0 and 5")])
def test_more_domains_than_there_are_and_no_training_domain_are_refused(n_train, message):
    with pytest.raises(InputError, match=message):
        draw_domains(np.arange(10), n_train, 5, np.random.default_rng(0))


def test_cells_below_the_minimum_size_are_dropped_and_others_kept(data):
    counts = data.cell_counts()
    limit = int(np.sort(counts[counts > 0])[5])
    kept = data.subset(drop_small_cells(data, np.arange(len(data)), limit)).cell_counts()
    assert np.array_equal(kept, np.where(counts >= limit, counts, 0))


def test_a_cap_keeps_small_domains_whole_and_others_at_the_cap(data):
    rows = cap_per_domain(data.domains, np.arange(len(data)), 700, np.random.default_rng(0))
    sizes = np.bincount(data.domains)
    assert np.array_equal(np.bincount(data.domains[rows]), np.minimum(sizes, 700))
    assert len(set(rows)) == len(rows)


def test_a_cap_takes_every_row_of_a_domain_equally_often():
    domains, rng, n = np.repeat([0, 1], [10, 3]), np.random.default_rng(0), 2_000
    counts = sum(np.bincount(cap_per_domain(domains, np.arange(13), 5, rng), minlength=13) for _ in range(n))
    assert np.abs(counts[:10] - n / 2).max() < 4 * np.sqrt(n / 4)
    assert np.array_equal(counts[10:], [n] * 3)


def test_a_domain_too_small_for_both_caps_is_divided_in_their_proportion():
    domains = np.repeat([0, 1], [90, 5_000])
    train, held_out = hold_out_examples(domains, np.arange(5_090), 2_000, 1_000, np.random.default_rng(0))
    assert np.bincount(domains[train]).tolist() == [60, 2_000]
    assert np.bincount(domains[held_out]).tolist() == [30, 1_000]
    assert not set(train) & set(held_out)


def test_training_rows_can_be_filled_before_any_is_held_out():
    domains = np.repeat([0, 1, 2, 3], [90, 2_000, 2_400, 5_000])
    rows, rng = np.arange(len(domains)), np.random.default_rng(0)
    train, held_out = hold_out_examples(domains, rows, 2_000, 1_000, rng, train_first=True)
    assert np.bincount(domains[train]).tolist() == [90, 2_000, 2_000, 2_000]
    assert np.bincount(domains[held_out], minlength=4).tolist() == [0, 0, 400, 1_000]
    assert not set(train) & set(held_out)


def test_a_split_that_fills_training_rows_first_has_the_same_domains_and_unseen_rows_as_many(data):
    usual, filled = split(data), split(data, train_first=True)
    assert set(data.domains[filled.train]) == set(data.domains[usual.train])
    assert np.array_equal(filled.unseen, usual.unseen)
    assert len(filled.train) > len(usual.train)
    assert len(filled.seen) < len(usual.seen)


def test_the_parts_of_a_split_do_not_overlap_and_unseen_domains_are_unseen(data):
    train, seen, unseen = split(data)
    assert len({*train, *seen, *unseen}) == len(train) + len(seen) + len(unseen)
    assert set(data.domains[train]) == set(data.domains[seen])
    assert len(set(data.domains[train])) == 5
    assert len(set(data.domains[unseen])) == 4
    assert not set(data.domains[train]) & set(data.domains[unseen])


def test_the_same_generator_gives_the_same_split_and_another_one_does_not(data):
    assert all(np.array_equal(a, b) for a, b in zip(split(data, 1), split(data, 1), strict=True))
    assert not np.array_equal(split(data, 1).train, split(data, 2).train)
