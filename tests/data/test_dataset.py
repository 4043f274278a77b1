import datetime

import numpy as np
import pandas as pd
import pytest

from domaincover import DomainDataset, InputError
from domaincover.data.dataset import (
    cap_per_domain,
    code_names,
    draw_domains,
    drop_small_cells,
    hold_out_examples,
    paper_split,
)

EXAMPLES = np.arange(8.0).reshape(4, 2)


def test_codes_are_positions_in_the_sorted_names():
    data = DomainDataset.from_arrays(EXAMPLES, ["sick", "well", "well", "sick"], [30, 4, 30, 4])
    assert data.label_names == ("sick", "well")
    assert data.domain_names == (4, 30)
    assert data.labels.tolist() == [0, 1, 1, 0]
    assert data.domains.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    "domains",
    [
        ["b", "a", "b", "c"],
        np.array([3, 1, 3, 2]),
        np.array([0.5, -1.0, 0.5, 9.0]),
        [True, False, True, False],
        [("x", 1), ("w", 2), ("x", 1), ("x", 0)],
        [frozenset({1}), frozenset({2}), frozenset({1}), frozenset({2})],
        [1, "1", 1, "b"],
        pd.Series(["b", "a", "b", "c"]),
        pd.Series(["b", "a", "b", "c"], dtype="category"),
        pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-02", "2025-01-01"]),
        [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)] * 2,
    ],
)
def test_domains_of_every_hashable_kind_keep_their_names(domains):
    data = DomainDataset.from_arrays(EXAMPLES, [0, 1, 0, 1], domains)
    assert [str(data.domain_names[code]) for code in data.domains] == [
        str(name) for name in pd.Series(list(domains), dtype=object)
    ] or np.issubdtype(np.asarray(domains).dtype, np.datetime64)
    assert len(set(data.domain_names)) == data.n_domains
    reordered = DomainDataset.from_arrays(EXAMPLES, [0, 1, 0, 1], list(domains)[::-1])
    assert reordered.domain_names == data.domain_names, "codes must not depend on the order of rows"


def test_a_subset_keeps_names_and_codes():
    data = DomainDataset.from_arrays(EXAMPLES, list("abab"), list("xxyy")).subset(np.array([3]))
    assert len(data) == 1
    assert (data.labels[0], data.domains[0]) == (1, 1)
    assert (data.n_labels, data.n_domains) == (2, 2)


def test_cells_are_counted_by_domain_and_label():
    data = DomainDataset.from_arrays(EXAMPLES, list("aabb"), list("xxxy"))
    assert data.cell_counts().tolist() == [[2, 1], [0, 1]]


@pytest.mark.parametrize(
    ("examples", "labels", "domains", "message"),
    [
        (EXAMPLES, [0, 1, 0], [0, 0, 1, 1], "3 labels for 4 examples"),
        (EXAMPLES, [0, 1, 0, 1], [0, 0], "2 domains for 4 examples"),
        (np.where(EXAMPLES == 5, np.nan, EXAMPLES), [0, 1, 0, 1], [0, 0, 1, 1], r"1 values .* row 2, column 1;"),
        (np.where(EXAMPLES == 5, np.inf, EXAMPLES), [0, 1, 0, 1], [0, 0, 1, 1], "row 2, column 1;"),
        (np.where(np.ones((4, 2, 2)), np.nan, 0), [0, 1, 0, 1], [0, 0, 1, 1], r"16 values .* column \(0, 0\)"),
        (EXAMPLES, [0, None, 0, 1], [0, 0, 1, 1], "1 of 4 labels are missing, first at row 1"),
        (EXAMPLES, [0, 1, 0, 1], [0.0, 1.0, np.nan, np.nan], "2 of 4 domains are missing, first at row 2"),
        (EXAMPLES, [0, 1, 0, 1], pd.array(["a", None, "b", "c"]), "1 of 4 domains are missing"),
        (EXAMPLES, [1, 1, 1, 1], [0, 0, 1, 1], "every label is 1"),
        (EXAMPLES, [[0], [1], [0], [1]], [0, 0, 1, 1], "labels must have one dimension"),
        (EXAMPLES, [0, 1, 0, 1], [[1], 2, [1], 2], "domains must be hashable"),
        (EXAMPLES, [[0], [1, 2], [0], [1]], [0, 0, 1, 1], "labels must have one dimension, got rows of different"),
        (EXAMPLES[:, 0], [0, 1, 0, 1], [0, 0, 1, 1], "a row per example"),
        (EXAMPLES[:0], [], [], "no examples"),
        (EXAMPLES.astype(str), [0, 1, 0, 1], [0, 0, 1, 1], "must be numbers"),
        ([[1, 2], [3]], [0, 1], [0, 1], "different lengths"),
    ],
)
def test_bad_data_is_refused_with_the_culprit_named(examples, labels, domains, message):
    with pytest.raises(InputError, match=message):
        DomainDataset.from_arrays(examples, labels, domains)


def test_large_finite_numbers_are_accepted_although_their_sum_overflows():
    examples = np.full((4, 2), 1.7e308)
    assert len(DomainDataset.from_arrays(examples, [0, 1, 0, 1], [0, 0, 1, 1])) == 4


def test_names_from_other_machines_are_coded_as_ours():
    for kind, names in ((">i4", [3, 1, 3]), (">f8", [2.5, 1.0]), (">U3", ["b", "a"])):
        values = np.array(names, dtype=kind)
        coded, own = (code_names(each, "labels", len(values)) for each in (values, values.tolist()))
        assert coded.names == own.names
        assert coded.codes.tolist() == own.codes.tolist()


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
