import numpy as np
import pandas as pd
import pytest

from domaincover import DiskTable, ERMClassifier, TableEncoder
from domaincover.data import encoding
from domaincover.data.encoding import learned_rows

N_ROWS = 5000


@pytest.fixture(autouse=True)
def few_values(monkeypatch):
    monkeypatch.setattr(encoding, "LEARNED_VALUES", 2000)
    monkeypatch.setattr(encoding, "LEARNED_ROWS", 100)


def visits():
    """Return rows of which one is not a date and one not a price, where evenly spaced rows do not fall."""
    days = pd.Series(pd.date_range("2026-01-01", periods=300).strftime("%Y-%m-%d").to_numpy()[np.arange(N_ROWS) % 300])
    prices = pd.Series([f"${k % 90}.50" for k in range(N_ROWS)])
    return pd.DataFrame(
        {
            "dose": np.arange(N_ROWS) / 7,
            "day": days.where(days.index != 11, "unknown"),
            "price": prices.where(prices.index != 12, "on request"),
            "name": [f"patient {k}" for k in range(N_ROWS)],
        }
    )


@pytest.fixture
def on_disk(tmp_path):
    visits().to_parquet(tmp_path / "visits.parquet", row_group_size=900)
    return DiskTable(tmp_path / "visits.parquet")


def test_a_small_table_is_learned_from_as_a_whole():
    small = visits()[:100]
    assert learned_rows(small) is small
    assert len(learned_rows(np.zeros((5000, 2)))) == 1000


def test_rows_are_evenly_spaced_and_have_every_text_of_a_column():
    found = learned_rows(visits())
    assert set(range(0, N_ROWS, 10)) <= set(found.index)
    assert {11, 12} <= set(found.index)
    assert set(found["day"]) == set(visits()["day"])
    assert len(found) < 1000  # not a row for each name


def test_memory_and_disk_have_the_same_rows(on_disk):
    pd.testing.assert_frame_equal(learned_rows(on_disk), learned_rows(visits()), check_index_type=False)
    some = np.random.default_rng(0).random(N_ROWS) < 0.9
    pd.testing.assert_frame_equal(learned_rows(on_disk[some]), learned_rows(visits()[some]), check_index_type=False)


def test_kinds_are_those_that_all_rows_tell_so_that_all_rows_can_be_encoded():
    table, rng = visits(), np.random.default_rng(0)
    model = ERMClassifier(epochs=1, validation_domains=0, random_state=0)
    model.fit(table, rng.integers(2, size=N_ROWS), domains=np.arange(N_ROWS) % 5)
    assert model.encoder_.kinds_ == TableEncoder().fit(table).kinds_
    assert model.encoder_.kinds_ == {"dose": "number", "day": "category", "price": "category", "name": "ignored"}


def test_texts_beyond_a_limit_are_left_out(monkeypatch):
    monkeypatch.setattr(encoding, "MOST_TEXTS", 7)
    column = pd.DataFrame({"x": np.arange(N_ROWS), "code": [f"c{k % 600}" for k in range(N_ROWS)]})
    assert len(learned_rows(column)) <= 1000 + 7


def test_lists_are_left_to_the_encoder_to_reject():
    assert len(learned_rows(pd.DataFrame({"x": [[1, 2]] * N_ROWS}))) == 2000
