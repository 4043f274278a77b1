import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domaincover import InputError
from domaincover.data.tables import open_table
from domaincover.data.tables.arrow_tables import PartsTable


def wards(n_rows=100):
    rng = np.random.default_rng(0)
    names = np.array(["ward 1", "Łódź/2", "a=b"])
    columns = {"dose": rng.standard_normal(n_rows), "visit": np.arange(n_rows), "ward": names[np.arange(n_rows) % 3]}
    return pd.DataFrame(columns)


def parts(folder, tables):
    for name, columns in tables.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / name)
    return folder


def test_a_folder_of_parts_is_read_as_the_table_that_was_split(tmp_path):
    table = wards()
    for k, rows in enumerate((slice(0, 30), slice(30, 31), slice(31, 31), slice(31, 100))):
        table[rows].to_parquet(tmp_path / f"part-{k}.parquet")
    opened = open_table(tmp_path)
    assert opened.columns == ("dose", "visit", "ward")
    pd.testing.assert_frame_equal(opened.read(), table)
    blocks = [block for block, _ in opened.blocks(40)]
    assert [len(block) for block in blocks] == [30, 1, 40, 29]
    pd.testing.assert_frame_equal(pd.concat(blocks, ignore_index=True), table)
    pd.testing.assert_frame_equal(opened.read(["ward", "dose"]), table[["ward", "dose"]])


def test_folder_names_give_a_column_as_the_libraries_that_write_them_mean_it(tmp_path):
    table = wards()
    pq.write_to_dataset(pa.Table.from_pandas(table), tmp_path, partition_cols=["ward"])
    read = open_table(tmp_path).read(["dose", "visit", "ward"])
    expected = table.sort_values("visit").reset_index(drop=True)
    pd.testing.assert_frame_equal(read.sort_values("visit").reset_index(drop=True), expected)


def test_a_column_that_only_the_folder_names_give_can_be_read_alone(tmp_path):
    folder = parts(tmp_path, {"ward=7/a.parquet": {"x": [1.0, 2.0]}, "ward=12/b.parquet": {"x": [3.0]}})
    assert open_table(folder).read(["ward"])["ward"].tolist() == [12, 7, 7]
    assert open_table(folder).read(["ward"], text_columns=["ward"])["ward"].tolist() == ["12", "7", "7"]


@pytest.mark.parametrize("name", ["007", "a", "1.5", "99999999999999999999"])
def test_folder_names_that_are_not_all_whole_numbers_are_text(tmp_path, name):
    folder = parts(tmp_path, {"ward=3/a.parquet": {"x": [1]}, f"ward={name}/b.parquet": {"x": [2]}})
    assert set(open_table(folder).read()["ward"]) == {"3", name}


def test_a_missing_value_in_a_folder_name_is_missing(tmp_path):
    folder = parts(tmp_path, {"ward=__HIVE_DEFAULT_PARTITION__/a.parquet": {"x": [1]}, "ward=3/a.parquet": {"x": [2]}})
    assert open_table(folder).read()["ward"].isna().tolist() == [False, True]


def test_hidden_files_and_those_with_an_underscore_are_not_parts(tmp_path):
    folder = parts(tmp_path, {name: {"x": [1]} for name in ("a.parquet", "_b.parquet", ".c.parquet", "_d/e.parquet")})
    assert [part.name for part in open_table(folder).parts] == ["a.parquet"]


def test_types_of_parts_that_differ_become_one_that_holds_both(tmp_path):
    folder = parts(
        tmp_path,
        {"a.parquet": {"x": pa.array([1, 2]), "y": pa.nulls(2)}, "b.parquet": {"x": [0.5], "y": ["text"]}},
    )
    blocks = [block for block, _ in open_table(folder).blocks()]
    assert [block["x"].dtype for block in blocks] == [float, float]
    assert open_table(folder).read()["y"].tolist()[2:] == ["text"]


def test_a_part_can_be_read_by_itself_with_the_types_of_all(tmp_path):
    folder = parts(tmp_path, {"w=1/a.parquet": {"x": [1]}, "w=b/b.parquet": {"x": [0.5]}})
    first, _ = open_table(folder).parts
    assert first.read().to_dict("list") == {"x": [1.0], "w": ["1"]}
    assert (first.name, first.base) == ("w=1/a.parquet", tmp_path)


def test_parts_without_any_rows_are_refused_as_a_table_without_rows_is(tmp_path):
    folder = parts(tmp_path, {"a.parquet": {"x": pa.array([], pa.int64())}})
    with pytest.raises(InputError, match="has columns but no rows"):
        open_table(folder)
    assert isinstance(open_table(folder, allow_empty=True), PartsTable)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"x": [1]}, "b.parquet has no column 'y', which .*a.parquet has"),
        ({"x": [1], "y": [2], "z": [3]}, "a.parquet has no column 'z', which .*b.parquet has"),
        ({"x": ["text"], "y": [2]}, "b.parquet: column 'x' is string, but int64 in parts before it"),
    ],
)
def test_a_part_unlike_the_others_is_named(tmp_path, other, message):
    with pytest.raises(InputError, match=message):
        open_table(parts(tmp_path, {"a.parquet": {"x": [1], "y": [2]}, "b.parquet": other}))


def test_a_column_that_file_and_folder_give_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.parquet has the column 'x', and so has its folder's name"):
        open_table(parts(tmp_path, {"x=1/a.parquet": {"x": [1], "y": [2]}}))


def test_parts_in_folders_of_other_columns_are_refused(tmp_path):
    with pytest.raises(InputError, match="has no column 'ward'"):
        open_table(parts(tmp_path, {"a.parquet": {"x": [1]}, "ward=1/a.parquet": {"x": [1]}}))


@pytest.mark.parametrize("content", [b"", b"PAR1 but no more", b"text"])
def test_a_damaged_part_is_named(tmp_path, content):
    folder = parts(tmp_path, {"a.parquet": {"x": [1]}})
    (folder / "b.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"b\.parquet is corrupt or truncated"):
        open_table(folder)


def test_a_number_that_the_common_type_cannot_hold_is_named(tmp_path):
    folder = parts(tmp_path, {"a.parquet": {"x": [2**60 + 1]}, "b.parquet": {"x": [0.5]}})
    with pytest.raises(InputError, match=r"a\.parquet: column 'x' is not double, as in other parts"):
        open_table(folder).read()


def test_a_folder_of_other_tables_is_not_told_about_images(tmp_path):
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"is a folder with a\.csv; only Parquet files are read as parts of one table"):
        open_table(tmp_path)


def test_a_stray_part_among_images_is_named_and_a_picture_beside_parts_is_not(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "plot.png").write_bytes(b"")
    assert open_table(tmp_path).columns == ("a",)
    image = tmp_path / "hospital-1" / "ill" / "1.png"
    image.parent.mkdir(parents=True)
    image.write_bytes(b"")
    with pytest.raises(InputError, match=r"holds Parquet parts \(a\.parquet\) and images \(hospital-1/ill/1\.png\)"):
        open_table(tmp_path)
