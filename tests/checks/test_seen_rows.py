"""Rows of training are found among new ones, and rows that domains share; what is alike by chance is not told."""

import base64

import numpy as np
import pandas as pd
import pytest

from domaincover import InputError, check_table
from domaincover.checks.seen_rows import MOST_KEPT, SeenRows, domains_alike, row_hashes
from domaincover.data.encoding import TableEncoder

KINDS = {"dose": "number", "sex": "category", "day": "date", "name": "ignored"}


def visits(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "dose": rng.normal(size=n_rows).round(3),
            "sex": rng.choice(["f", "m"], n_rows),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(300, size=n_rows), "D"),
            "name": [f"{seed}-{k}" for k in range(n_rows)],
        }
    )


def seen_in(training, n_domains=10):
    domains = np.arange(len(training)) % n_domains
    return SeenRows.of(training, domains, KINDS, salt=7)


def test_rows_of_training_are_counted_among_new_ones():
    training = visits(2000)
    mixed = pd.concat([visits(280, seed=1), training.sample(120, random_state=0)])
    seen = SeenRows.from_dict(seen_in(training).to_dict())
    assert seen.note(mixed, KINDS).startswith("120 of 400 rows were in training;")
    assert seen.note(visits(400, seed=2), KINDS) is None


def test_a_row_is_the_same_in_csv_and_parquet(tmp_path):
    training = visits(500)
    training.to_csv(tmp_path / "t.csv", index=False)
    training.astype({"dose": "float32", "sex": "category"}).to_parquet(tmp_path / "t.parquet")
    from_csv, from_parquet = pd.read_csv(tmp_path / "t.csv"), pd.read_parquet(tmp_path / "t.parquet")
    kinds = {name: kind for name, kind in TableEncoder().fit(from_csv).kinds_.items() if kind != "ignored"}
    assert np.array_equal(row_hashes(from_csv, kinds, 3), row_hashes(from_parquet, kinds, 3))


def test_missing_values_of_both_kinds_make_the_same_row():
    one = pd.DataFrame({"dose": [None, 1.0], "sex": ["f", None]}, dtype=object)
    other = pd.DataFrame({"dose": [np.nan, 1], "sex": ["f", np.nan]})
    kinds = {"dose": "number", "sex": "category"}
    assert np.array_equal(row_hashes(one, kinds, 1), row_hashes(other, kinds, 1))


def test_a_large_table_keeps_a_sample_that_still_counts():
    training = visits(MOST_KEPT + 30_000)
    training["dose"] = np.arange(len(training))  # every row differs
    seen = SeenRows.from_dict(seen_in(training).to_dict())
    assert len(seen.fingerprints) <= MOST_KEPT
    told = seen.note(pd.concat([training.head(3000), visits(1000, seed=1)]), KINDS)
    n_seen = int(told.split()[1].replace(",", ""))
    n_compared = 4000 * MOST_KEPT / len(training)
    assert abs(n_seen - 3000) < 5 * 4000 * np.sqrt(0.75 * 0.25 / n_compared)


def test_rows_that_are_alike_by_chance_are_not_told():
    rng = np.random.default_rng(0)
    coarse = pd.DataFrame({"dose": rng.integers(4, size=3000), "sex": rng.choice(["f", "m"], 3000)})
    kinds = {"dose": "number", "sex": "category"}
    seen = SeenRows.of(coarse[:2000], np.arange(2000) % 10, kinds, salt=0)
    assert seen.by_chance == 1
    assert seen.note(coarse[2000:], kinds) is None


def test_one_hospital_under_two_names_is_found():
    table = visits(1000)
    domains = np.arange(1000) % 8
    twice = pd.concat([table, table[domains == 3]])
    names = np.array([*domains.astype(str), *["St. Mary"] * 125], dtype=object)
    assert domains_alike(row_hashes(twice, KINDS, 0), names) == [("3", "St. Mary", 1.0)]
    assert domains_alike(row_hashes(table, KINDS, 0), domains) == []


def test_check_names_domains_that_are_one():
    table = visits(1000)
    domains = np.arange(1000) % 8
    twice = pd.concat([table, table[domains == 3]], ignore_index=True)
    names = np.array([*domains.astype(str), *["St. Mary"] * 125], dtype=object)
    labels = np.arange(len(twice)) % 2
    found = check_table(twice, labels, names).findings
    assert [each.what for each in found if "share most" in each.what] == [
        "Some domains of domain share most of their rows: 3 and St. Mary (100 %)."
    ]
    assert not any("share most" in each.what for each in check_table(table, labels[:1000], domains).findings)


def test_another_salt_gives_other_fingerprints():
    table = visits(100)
    assert not np.isin(*(SeenRows.of(table, np.zeros(100), KINDS, salt).fingerprints for salt in (1, 2))).any()


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprints": "§"},
        {"fingerprints": base64.b64encode(b"abc").decode()},
        {"salt": -1},
        {"highest": 2**64},
        {"salt": "x"},
    ],
)
def test_corrupt_fingerprints_are_refused_in_one_line(change):
    plain = seen_in(visits(50)).to_dict()
    with pytest.raises(InputError, match="fingerprints of its training rows are corrupt"):
        SeenRows.from_dict(plain | change)
    with pytest.raises(InputError, match="corrupt"):
        SeenRows.from_dict({key: value for key, value in plain.items() if key != next(iter(change))})
