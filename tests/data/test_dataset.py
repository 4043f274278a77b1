import datetime

import numpy as np
import pandas as pd
import pytest

from domaincover import DomainDataset, InputError
from domaincover.data.dataset import code_names

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
