from multiprocessing.reduction import ForkingPickler

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from domaincover import (
    ConformalSetClassifier,
    DiskTable,
    ERMClassifier,
    InputError,
    PromisedSetClassifier,
    SetCoverClassifier,
    TableEncoder,
    assess,
)
from domaincover.data import encoding
from domaincover.data.tables import open_table
from domaincover.training import batches

N_ROWS = 1500


def visits(n_rows=N_ROWS):
    """Return rows with columns of every kind, some of them with missing values only in some parts."""
    rng = np.random.default_rng(0)
    ill = rng.integers(2, size=n_rows)
    dose = pd.Series(rng.normal(size=n_rows) + ill)
    return pd.DataFrame(
        {
            "dose": dose.where(rng.random(n_rows) > 0.05),
            "age": pd.Series(rng.integers(20, 90, n_rows)).where(np.arange(n_rows) < 1200),
            "single": rng.normal(size=n_rows).astype(np.float32),
            "smoker": pd.Series(rng.random(n_rows) > 0.5).astype(object).where(np.arange(n_rows) > 300),
            "day": pd.Timestamp("2026-01-31") + pd.to_timedelta(rng.integers(0, 300, n_rows), "D"),
            "drug": rng.choice(["a", "b", "ć"], n_rows),
            "group": pd.Categorical(rng.choice(["x", "y"], n_rows)),
            "price": [f"${price:,.2f}" for price in rng.uniform(900, 1100, n_rows)],
            "ill": np.array(["no", "yes"])[ill],
            "ward": rng.integers(0, 12, n_rows),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The visits as three parts, the second of them of several row groups, with different categories."""
    folder, table = tmp_path_factory.mktemp("visits"), visits()
    for k, rows in enumerate((slice(0, 400), slice(400, 1400), slice(1400, None))):
        part = table[rows].assign(group=table["group"][rows].cat.set_categories([["x", "y"], ["y", "x"]][k % 2]))
        part.to_parquet(folder / f"part-{k}.parquet", row_group_size=300, index=False)
    return folder


@pytest.fixture
def table(folder, tmp_path):
    return DiskTable(folder, scratch=tmp_path / "scratch")


@pytest.fixture
def features(table):
    return table.drop(columns=["ill", "ward"])


def test_rows_and_columns_are_selected_as_of_a_pandas_table(table):
    whole, some = visits(), np.sort(np.random.default_rng(1).permutation(N_ROWS)[:700])
    assert table.shape == whole.shape
    assert table.columns == list(whole)
    assert table["ward"].tolist() == whole["ward"].tolist()
    chosen = ["drug", "dose"]
    for rows in (slice(290, 310), some, whole["ill"] == "yes", [4, 5]):
        expected = whole[chosen][rows] if isinstance(rows, slice | pd.Series) else whole[chosen].iloc[rows]
        pd.testing.assert_frame_equal(table[chosen][rows].read(), expected, check_index_type=False)
    pd.testing.assert_frame_equal(table[some][10:20][chosen].read(), whole[chosen].iloc[some[10:20]])
    assert table.drop(columns=["dose"]).columns == list(whole.drop(columns="dose"))


@pytest.mark.parametrize(
    "rows",
    [7, 1.5, np.ones(3, dtype=bool), [N_ROWS], ([0], [1]), ["dose", 1], pd.Series([None]), [5, 4], slice(9, 0, -1)],
)
def test_rows_that_cannot_be_selected_are_refused_in_one_line(table, rows):
    with pytest.raises(InputError, match="rows are selected by a slice, or by an array"):
        table[rows]


def test_a_table_can_be_sent_to_another_process(table):
    again = ForkingPickler.loads(ForkingPickler.dumps(table[["drug"]][[3, 5]]))
    pd.testing.assert_frame_equal(again.read(), visits()[["drug"]].iloc[[3, 5]])


@pytest.mark.parametrize("plain", [False, True])
def test_types_of_which_arrow_cannot_select_values_are_read(tmp_path, plain):
    texts = pa.array(np.array(["a", "bb"])[np.arange(200) % 2])
    numbers = pc.run_end_encode(pa.array([1, 1, 2, 3] * 50))
    columns = {"x": texts if plain else texts.cast(pa.string_view()), "n": numbers}
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_file(file, pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns), max_chunksize=70)
    assert DiskTable(tmp_path / "t.arrow")[[2, 3]].read().to_numpy().tolist() == [["a", 2], ["bb", 3]]


def test_its_name_tells_what_it_is(folder):
    assert repr(DiskTable(folder)[["dose"]][:1200]) == f"DiskTable({str(folder)!r}: 1,200 rows × 1 columns)"


def test_blocks_are_all_rows_with_their_places(table):
    whole, some = visits()[["drug", "dose"]], np.sort(np.random.default_rng(1).permutation(N_ROWS)[:700])
    for rows in (np.arange(N_ROWS), some):
        blocks = list(table[["drug", "dose"]][rows].blocks())
        assert len(blocks) > 1
        assert [places.start for places, _ in blocks] == np.cumsum([0, *map(len, (b for _, b in blocks))])[:-1].tolist()
        found = pd.concat([block for _, block in blocks])
        pd.testing.assert_frame_equal(found, whole.iloc[rows], check_dtype=False, check_index_type=False)


def test_nothing_is_left_on_the_disk(table, tmp_path):
    matrix = table[["dose"]].mapped(lambda block: block.to_numpy(np.float32), 1)
    assert np.array_equal(matrix[:, 0], visits()["dose"].to_numpy(np.float32), equal_nan=True)
    assert not matrix.flags.owndata
    assert list((tmp_path / "scratch").iterdir()) == []


def weights_of(model):
    return [value for layer in zip(model.layers_.weights, model.layers_.biases, strict=True) for value in layer]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(weights_of(one), weights_of(other), strict=True))


def test_a_network_learns_and_predicts_in_every_bit_what_it_does_in_memory(table, features):
    X, model = visits().drop(columns=["ill", "ward"]), SetCoverClassifier(epochs=2, random_state=0)
    in_memory = model.fit(X, visits()["ill"], domains=visits()["ward"])
    on_disk = SetCoverClassifier(epochs=2, random_state=0).fit(features, table["ill"], domains=table["ward"])
    assert in_memory.encoder_.kinds_ == on_disk.encoder_.kinds_
    assert same(in_memory, on_disk)
    assert np.array_equal(in_memory.thresholds_, on_disk.thresholds_)
    some = np.arange(N_ROWS) % 3 == 1
    assert np.array_equal(in_memory.predict_set(X[some]), on_disk.predict_set(features[some]))


def test_a_table_of_several_blocks_and_a_sample_gives_the_same_too(table, features, monkeypatch):
    monkeypatch.setattr(encoding, "LEARNED_VALUES", 4000)
    monkeypatch.setattr(encoding, "LEARNED_ROWS", 100)
    monkeypatch.setattr(batches.shuffled, "__defaults__", (256, 16_384))
    X, model = visits().drop(columns=["ill", "ward"]), ERMClassifier(epochs=2, random_state=0)
    in_memory = model.fit(X, visits()["ill"], domains=visits()["ward"])
    on_disk = ERMClassifier(epochs=2, random_state=0).fit(features, table["ill"], domains=table["ward"])
    assert same(in_memory, on_disk)
    monkeypatch.undo()
    assert not same(on_disk, ERMClassifier(epochs=2, random_state=0).fit(X, visits()["ill"], domains=visits()["ward"]))


def test_an_assessment_with_a_promise_is_the_same(table, features):
    X, y, wards = visits().drop(columns=["ill", "ward"]), visits()["ill"], visits()["ward"]
    model = PromisedSetClassifier(
        ERMClassifier(epochs=1, random_state=0), domain_confidence=0.6, folds=2, random_state=0
    )
    in_memory, on_disk = (assess(model, each, y, wards, random_state=0) for each in (X, features))
    assert in_memory.to_dict() == on_disk.to_dict()
    assert table.shape == (N_ROWS, 10)


@pytest.mark.parametrize("scorer", [LogisticRegression(), make_pipeline(TableEncoder(), LogisticRegression())])
def test_other_classifiers_say_that_they_need_the_table_in_memory(table, features, scorer):
    with pytest.raises(InputError, match=r"the table is on disk.*read it with X\.read\(\)"):
        ConformalSetClassifier(scorer).fit(features, table["ill"], domains=table["ward"])


def test_values_that_cannot_be_read_are_named_by_their_row(tmp_path):
    table = visits()
    table.loc[700, "dose"] = np.inf
    table.to_parquet(tmp_path / "visits.parquet", row_group_size=300)
    on_disk = DiskTable(tmp_path / "visits.parquet")
    with pytest.raises(InputError, match="column 'dose' holds an infinite value at row 700"):
        ERMClassifier(epochs=1).fit(on_disk[["dose", "age"]], on_disk["ill"], domains=on_disk["ward"])


def test_an_arrow_file_stays_on_disk_too(tmp_path):
    feather.write_feather(visits(), tmp_path / "visits.arrow", chunksize=400)
    whole = open_table(tmp_path / "visits.arrow").read()
    pd.testing.assert_frame_equal(DiskTable(tmp_path / "visits.arrow").read(), whole, check_index_type=False)


def test_text_tables_and_unknown_columns_are_refused(folder, tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    with pytest.raises(InputError, match=r"not Parquet or Arrow.*write Parquet first"):
        DiskTable(tmp_path / "visits.csv")
    with pytest.raises(InputError, match=r"no column 'dosis'.*did you mean 'dose'"):
        DiskTable(folder, columns=["dosis"])
    with pytest.raises(InputError, match=r"no column 'dosis'; did you mean 'dose'\?"):
        DiskTable(folder)["dosis"]
    with pytest.raises(InputError, match=r"no column 'weight'; its columns are dose, age, .*, price, … and 1 more"):
        DiskTable(folder, columns=[*visits()][:9])["weight"]
    with pytest.raises(InputError, match="no column 'dosis'"):
        DiskTable(folder).drop(columns=["dosis"])


def test_a_damaged_part_is_named_and_nothing_is_left(folder, tmp_path):
    (tmp_path / "parts").mkdir()
    for path in folder.iterdir():
        (tmp_path / "parts" / path.name).write_bytes(path.read_bytes())
    content = bytearray((folder / "part-2.parquet").read_bytes())
    content[100:2000] = bytes(1900)
    (tmp_path / "parts" / "part-2.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"part-2\.parquet"):
        DiskTable(tmp_path / "parts", scratch=tmp_path / "scratch").mapped(lambda block: np.zeros((len(block), 1)), 1)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_single_file_of_one_column_and_row_is_a_table(tmp_path):
    pq.write_table(pa.table({"x": [1.5]}), tmp_path / "one.parquet")
    assert DiskTable(tmp_path / "one.parquet").read().to_dict("list") == {"x": [1.5]}
