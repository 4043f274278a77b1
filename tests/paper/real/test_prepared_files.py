import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE

IMAGES = {"X": np.zeros((3, 4, 4), np.uint8), "label": np.arange(3), "domain": np.array(["a", "b", "a"])}
ROWS = pd.DataFrame({"x": [1.0, 2.0], "kind": ["p", "q"], "label": ["low", "high"], "domain": [1, 2]})


def save(path, arrays):
    np.savez(path, **arrays)
    return path


def test_arrays_are_read(tmp_path):
    X, y, domains = CATALOGUE["malaria"].read(save(tmp_path / "malaria.npz", IMAGES))
    assert X.shape == (3, 4, 4)
    assert [y.tolist(), domains.tolist()] == [[0, 1, 2], ["a", "b", "a"]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": IMAGES["X"], "label": IMAGES["label"]}, "has no array 'domain'; it needs X, label, domain"),
        (IMAGES | {"label": np.arange(2)}, r"a row per example, but they are X \(3, 4, 4\), label \(2,\)"),
        (IMAGES | {"X": np.zeros((3, 4, 4))}, "X must be bytes of shape"),
        (IMAGES | {"X": np.zeros((3, 4), np.uint8)}, "X must be bytes of shape"),
        (IMAGES | {"label": np.array([{}, 1, 2], dtype=object)}, "not an .npz file of plain arrays"),
    ],
)
def test_faulty_arrays_are_rejected(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        CATALOGUE["malaria"].read(save(tmp_path / "malaria.npz", arrays))


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_rejected(tmp_path, content):
    path = tmp_path / "audiomnist.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"audiomnist\.npz is (corrupt|truncated)"):
        CATALOGUE["audiomnist"].read(path)


def test_rows_are_read_without_other_groupings_as_features(tmp_path):
    path = tmp_path / "wisdm51_watch.parquet"
    ROWS.assign(activity="a", alt_domain=1, station="s").to_parquet(path)
    X, y, domains = CATALOGUE["wisdm"].read(path)
    assert [*X.columns] == ["x", "kind"]
    assert [[*y], [*domains]] == [["low", "high"], [1, 2]]


def test_texts_are_an_array_of_strings(tmp_path):
    path = tmp_path / "fdu_mtl.parquet"
    ROWS.assign(text=["one", "two"]).to_parquet(path)
    X = CATALOGUE["reviews"].read(path).X
    assert X.dtype == object
    assert X.tolist() == ["one", "two"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.drop(columns="domain"), "has no column 'domain'; it has x, kind, label"),
        (ROWS.assign(label=["low", None]), "column 'label' is empty in row 2"),
    ],
)
def test_faulty_rows_are_rejected(tmp_path, rows, message):
    path = tmp_path / "wisdm51_watch.parquet"
    rows.to_parquet(path)
    with pytest.raises(InputError, match=message):
        CATALOGUE["wisdm"].read(path)


def test_a_table_that_is_no_parquet_is_rejected(tmp_path):
    path = tmp_path / "cps_states.parquet"
    path.write_text("age,label\n")
    with pytest.raises(InputError, match=r"cps_states\.parquet is corrupt or truncated"):
        CATALOGUE["wages"].read(path)
