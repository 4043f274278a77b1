import datetime
import decimal
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domaincover import InputError
from domaincover.data.tables import open_table, write_table

ENDINGS = (".csv", ".csv.gz", ".parquet", ".pq")


def csv_file(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def parquet_file(folder: Path, columns: dict, **options) -> Path:
    path = folder / "t.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


def blocks_of(table, *args, **options):
    return [block for block, _ in table.blocks(*args, **options)]


def people(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 99, n),
            "dose": rng.standard_normal(n),
            "hospital": rng.choice(["St. Mary's", "Łódź, 2", "x\ny"], n),
            "smokes": rng.random(n) < 0.5,
        }
    )


# Reading CSV, and what CSV and Parquet have in common


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read_again(tmp_path, ending):
    table = people(50)
    assert write_table(tmp_path / f"t{ending}", [table[:20], table[20:]]) == 50
    pd.testing.assert_frame_equal(open_table(tmp_path / f"t{ending}").read(), table)


@pytest.mark.parametrize("ending", ENDINGS)
def test_blocks_are_short_and_together_they_are_the_table(tmp_path, ending):
    table = people(100)
    write_table(tmp_path / f"t{ending}", [table[:37], table[37:60], table[60:]])  # three row groups
    blocks = blocks_of(open_table(tmp_path / f"t{ending}"), rows_at_once=16)
    assert max(map(len, blocks)) == 16
    pd.testing.assert_frame_equal(pd.concat(blocks, ignore_index=True), table)


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_come_in_the_order_asked_for(tmp_path, ending):
    write_table(tmp_path / f"t{ending}", [people(10)])
    table = open_table(tmp_path / f"t{ending}")
    assert table.columns == ("age", "dose", "hospital", "smokes")
    assert list(table.read(["dose", "age"])) == ["dose", "age"]
    blocks = blocks_of(table, 5, ["dose", "age"])
    assert [list(block) for block in blocks] == [["dose", "age"]] * 2
    assert all(block.index.equals(pd.RangeIndex(5)) for block in blocks)


@pytest.mark.parametrize("ending", [".CSV", ".Csv.Gz", ".PQ"])
def test_endings_may_be_in_capitals(tmp_path, ending):
    write_table(tmp_path / f"t{ending}", [people(3)])
    assert len(open_table(tmp_path / f"t{ending}").read()) == 3


def test_text_columns_keep_their_leading_zeros_and_are_text_in_every_block(tmp_path):
    table = open_table(csv_file(tmp_path, "zip,dose\n007,1\n1,2\n"))
    assert blocks_of(table, text_columns={"zip", "not there"})[0]["zip"].tolist() == ["007", "1"]
    assert table.read(text_columns=["zip"])["zip"].tolist() == ["007", "1"]
    table = open_table(csv_file(tmp_path, "ward\n1\n2\nA\n\nB\n"))
    assert [block["ward"].tolist() for block in blocks_of(table, 2, text_columns=["ward"])] == [["1", "2"], ["A", "B"]]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_found(tmp_path, separator):
    text = 'name,of;it\ttoo,long\n"a,b;c\td",2\n'.replace(",of;it\ttoo,", f"{separator}").replace(
        '",2', f'"{separator}2'
    )
    assert open_table(csv_file(tmp_path, text)).read().to_dict("list") == {"name": ["a,b;c\td"], "long": [2]}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("note, or none;y\nold, frail;1\nyoung;0\n", {"note, or none": ["old, frail", "young"], "y": [1, 0]}),
        ("y\n1\n2\n", {"y": [1, 2]}),
        ("x;y\n1,5;a\n-2,25;b\n3;c\n", {"x": [1.5, -2.25, 3.0], "y": ["a", "b", "c"]}),
        ("x;y\n1.5;a\n2.25;1,5\n", {"x": [1.5, 2.25], "y": ["a", "1,5"]}),
        ('\ufeff\r\n"a",b\r\n\r\n1,"x\r\ny"\r\n2,é', {"a": [1, 2], "b": ["x\r\ny", "é"]}),
        ("a,b\r1,2\r3,4\r", {"a": [1, 3], "b": [2, 4]}),
        ("a,b\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
    ],
    ids=[
        "commas in texts do not hide semicolons",
        "a single column needs no separator",
        "decimal commas go with semicolons",
        "decimal points may go with semicolons",
        "marks, blank lines and line ends of other systems are no obstacle",
        "lines may end in carriage returns only",
        "separators at the end of every row do no harm",
    ],
)
def test_text_is_read_as_it_is_meant(tmp_path, text, columns):
    assert open_table(csv_file(tmp_path, text)).read().to_dict("list") == columns


def test_beside_decimal_commas_points_may_part_thousands_and_are_not_read_as_decimals(tmp_path):
    table = open_table(csv_file(tmp_path, "x;y\n1,5;2.000\n2,25;900\n"))
    assert table.decimal == ","
    assert table.read().to_dict("list") == {"x": [1.5, 2.25], "y": ["2.000", "900"]}


def test_row_numbers_without_a_name_are_no_column(tmp_path):
    people(3).to_csv(tmp_path / "t.csv")
    assert open_table(tmp_path / "t.csv").columns == ("age", "dose", "hospital", "smokes")
    pd.testing.assert_frame_equal(open_table(tmp_path / "t.csv").read(), people(3))


def test_short_rows_end_in_missing_values(tmp_path):
    assert open_table(csv_file(tmp_path, "a,b\n1\n2,3\n")).read()["b"].isna().tolist() == [True, False]


def test_a_header_may_be_longer_than_what_tells_the_separator(tmp_path):
    names = [f"gene_{k:020}" for k in range(10_000)]
    path = csv_file(tmp_path, ";".join(names) + "\n" + ";".join("1" * 10_000) + "\n")
    assert open_table(path).columns == tuple(names)


def test_a_text_may_be_long(tmp_path):
    assert len(open_table(csv_file(tmp_path, f"a,b\n1,{'x' * 300_000}\n")).read()["b"][0]) == 300_000


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """A table with columns that show their type late: after more rows than are read at once."""
    n = 70_000
    path = tmp_path_factory.mktemp("late") / "t.csv"
    table = pd.DataFrame(
        {
            "fraction": [*["1"] * n, "0.5"],
            "code": [*["007"] * n, "B7"],
            "gap": [*[""] * n, "text"],
            "flag": [*["True"] * n, ""],
            "rare_flag": [*[""] * n, "False"],
        }
    )
    table.to_csv(path, index=False)
    return open_table(path).read().iloc[[0, -1]]


@pytest.mark.parametrize(
    ("column", "first", "last"),
    [
        ("fraction", 1.0, 0.5),
        ("code", "007", "B7"),
        ("gap", None, "text"),
        ("flag", True, None),
        ("rare_flag", None, False),
    ],
)
def test_a_column_has_one_type_though_its_last_row_tells_it(late, column, first, last):
    found = [None if pd.isna(value) else value for value in late[column]]
    assert found == [first, last]
    assert [type(value) for value in found] == [type(first), type(last)]


# Reading Parquet


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    columns = {
        "text": ["a", None],
        "category": pa.array(["low", "high"]).dictionary_encode(),
        "number_category": pa.array([7, 8]).dictionary_encode(),
        "day": pa.array([datetime.date(2024, 1, 2), None]),
        "money": pa.array([decimal.Decimal("1.25"), None]),
        "count": pa.array([1, None]),
        "small": pa.array([1, 2], pa.int8()),
        "flag": pa.array([True, None]),
        "nothing": pa.nulls(2),
        "list": [[1, 2], []],
        "struct": [{"x": 1}, {"x": 2}],
        "struct.x": [8, 9],
    }
    return open_table(parquet_file(tmp_path_factory.mktemp("typed"), columns))


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ("text", pd.Series(["a", None]).dtype),
        ("category", "category"),
        ("number_category", int),  # Parquet files do not tell them from numbers
        ("day", "datetime64[ms]"),
        ("money", float),
        ("count", float),
        ("small", "int8"),
        ("flag", object),
        ("nothing", float),
        ("list", object),
        ("struct", object),
        ("struct.x", int),
    ],
)
def test_parquet_types_become_types_to_compute_with(typed, column, dtype):
    assert typed.read()[column].dtype == dtype
    assert typed.read([column])[column].dtype == dtype
    assert blocks_of(typed, columns=[column])[0].dtypes.to_dict() == {column: dtype}


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ("text", ["a", None]),
        ("number_category", ["7", "8"]),
        ("count", ["1", None]),
        ("flag", ["True", None]),
        ("day", ["2024-01-02", None]),
        ("nothing", [None, None]),
    ],
)
def test_text_columns_of_parquet_become_text(typed, column, texts):
    found = typed.read([column], text_columns=[column])[column]
    assert [None if pd.isna(value) else value for value in found] == texts


def test_what_cannot_be_text_is_told(typed):
    with pytest.raises(InputError, match=r"column 'list' contains lists or other objects"):
        typed.read(text_columns=["list"])


def test_categories_that_differ_between_row_groups_are_joined(tmp_path):
    schema = pa.schema([("c", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(tmp_path / "t.parquet", schema) as writer:
        for values in (["a", "b"], ["c", "a"]):
            writer.write_table(pa.table({"c": pa.array(values).dictionary_encode()}))
    table = open_table(tmp_path / "t.parquet")
    assert table.read()["c"].tolist() == ["a", "b", "c", "a"]
    assert [value for block in blocks_of(table, 3) for value in block["c"]] == ["a", "b", "c", "a"]


def test_an_index_of_pandas_is_a_column_only_if_it_has_a_name(tmp_path):
    people(6)[2:5].to_parquet(tmp_path / "t.parquet", index=True)
    people(6).set_index("hospital").to_parquet(tmp_path / "named.parquet")
    table = open_table(tmp_path / "t.parquet")
    assert table.columns == ("age", "dose", "hospital", "smokes")
    pd.testing.assert_frame_equal(table.read(), people(6)[2:5].reset_index(drop=True))
    assert set(open_table(tmp_path / "named.parquet").read()) == set(people(1))


# What is wrong with a file


def damaged_parquet(folder: Path) -> Path:
    path = parquet_file(folder, {"a": np.random.default_rng(0).standard_normal(5000), "b": ["x"] * 5000})
    content = bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(content)
    return path


def cut(path: Path, n_bytes: int) -> Path:
    path.write_bytes(path.read_bytes()[:-n_bytes])
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: d / "no.csv", "no.csv does not exist"),
        (lambda d: d / "no.parquet", "no.parquet does not exist"),
        (lambda _: "http://localhost/t.csv", "t.csv is an address; .* download it first"),
        (lambda _: "https://localhost/t.csv.gz", "t.csv.gz is an address; .* download it first"),
        (lambda _: "s3://bucket/t.parquet", "t.parquet is an address; .* download it first"),
        (lambda d: d, "contains no images; images belong in folders domain/label"),
        (lambda d: csv_file(d, "a\n1\n") / "t.csv", "cannot read .*t.csv: Not a directory"),
        (lambda d: csv_file(d, "a,b\n1,2\n", "t.xlsx"), "cannot read .*t.xlsx: .* save a spreadsheet as CSV"),
        (lambda d: csv_file(d, ""), "t.csv is empty"),
        (lambda d: csv_file(d, "", "t.parquet"), "t.parquet is empty"),
        (lambda d: csv_file(d, "", "t.csv.gz"), "t.csv.gz is empty"),
        (lambda d: csv_file(d, "\n \n\n"), "t.csv is empty"),
        (lambda d: csv_file(d, "a,b\n\n"), "t.csv has columns but no rows"),
        (lambda d: parquet_file(d, {"a": pa.array([], pa.int8())}), "t.parquet has columns but no rows"),
        (lambda d: parquet_file(d, {}), "t.parquet has no columns"),
        (lambda d: csv_file(d, "a,b,a\n1,2,3\n"), "2 columns named 'a'"),
        (lambda d: csv_file(d, "a,,c\n1,2,3\n"), "column without a name, number 2"),
        (lambda d: csv_file(d, ",a,\n1,2,3\n"), "column without a name, number 3"),
        (lambda d: csv_file(d, "a,b\n1,2\n", "t.parquet"), "t.parquet is not a Parquet file"),
        (lambda d: cut(parquet_file(d, {"a": [1, 2]}), 9), "t.parquet is corrupt or truncated"),
        (lambda d: csv_file(d, gzip.compress(b"a\n1\n")), "t.csv contains gzip data"),
        (lambda d: csv_file(d, b"PAR1xxxx"), "t.csv contains a Parquet file"),
        (lambda d: csv_file(d, b"PAR1xxxx", "t.csv.gz"), "t.csv.gz contains a Parquet file"),
        (lambda d: csv_file(d, b"PK\x03\x04xxxx"), "t.csv contains a zip archive or a spreadsheet"),
        (lambda d: csv_file(d, b"a,b\n1,\0\n"), "t.csv contains binary data"),
        (lambda d: csv_file(d, b"caf\xe9,b\n1,2\n"), "not UTF-8 text, at byte 4;"),
        (lambda d: csv_file(d, '"' + "x" * 200_000), "t.csv cannot be read as CSV: field larger than"),
        (lambda d: csv_file(d, b"a,b\n1,2\n").rename(d / "t.csv.gz"), "t.csv.gz is corrupt or not gzip data"),
        (lambda d: cut(csv_file(d, "a,b\n1,2\n", "t.csv.gz"), 9), "t.csv.gz is truncated"),
    ],
)
def test_a_file_that_is_no_table_is_refused_when_it_is_opened(tmp_path, make, message):
    with pytest.raises(InputError, match=message) as caught:
        open_table(make(tmp_path))
    assert "\n" not in str(caught.value)


LONG = "1,2\n" * 90_000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: csv_file(d, "a,b\n1,2,3\n4,5\n"), "the first row of .*t.csv has more fields than its header"),
        (lambda d: csv_file(d, "a,b\n1,2\n3,4,5\n"), "line 3 of .*t.csv has 3 fields, its header 2"),
        (lambda d: csv_file(d, "a,b\n1,2\n3,4,\n"), "line 3 of .*t.csv has 3 fields, its header 2"),
        (lambda d: csv_file(d, f"a,b\n{LONG}1,2,3\n"), "line 90002 of .*t.csv has 3 fields"),
        (lambda d: csv_file(d, 'a,b\n1,2\n3,"4\n5,6\n'), "t.csv opens a quote in row 2 below the header"),
        (lambda d: csv_file(d, b"a,b\n" + LONG.encode() + b"1,\xff\n"), "not UTF-8 text, at byte 360,007;"),
        (lambda d: csv_file(d, b"a,b\n" + LONG.encode() + b"1,\xff\n", "t.csv.gz"), "at byte 360,007;"),
        (lambda d: cut(csv_file(d, "a,b\n" + LONG, "t.csv.gz"), 20), "t.csv.gz is truncated"),
        (damaged_parquet, "t.parquet is corrupt or truncated"),
    ],
)
@pytest.mark.parametrize("how", ["whole", "blocks", "one column"])
def test_a_fault_further_down_is_told_in_one_line(tmp_path, make, message, how):
    table = open_table(make(tmp_path))
    with pytest.raises(InputError, match=message) as caught:
        _ = table.read() if how == "whole" else list(table.blocks(1000, ["a"] if how == "one column" else None))
    assert "\n" not in str(caught.value)


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    twins = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twins, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="2 columns named 'a'"):
        open_table(tmp_path / "t.parquet")


def test_a_path_that_looks_like_an_address_is_a_local_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("http:/localhost").mkdir(parents=True)
    csv_file(Path("http:/localhost"), "a\n1\n")
    write_table(Path("http://localhost/t.parquet"), [people(2)])
    assert open_table(Path("http://localhost/t.csv")).read()["a"].tolist() == [1]
    assert len(open_table(Path("http://localhost/t.parquet")).read()) == 2


@pytest.fixture
def locked(tmp_path):
    """A folder with a table in it that is closed to all but root, whose rights are dropped for the test."""
    csv_file(tmp_path, "a\n1\n")
    tmp_path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield tmp_path
    os.seteuid(user)
    tmp_path.chmod(0o700)


def test_a_file_that_one_may_not_read_is_told(locked):
    with pytest.raises(InputError, match=r"cannot read .*t.csv: Permission denied\.$"):
        open_table(locked / "t.csv")


def test_a_folder_that_one_may_not_read_is_told(locked):
    with pytest.raises(InputError, match=rf"cannot read {locked}: Permission denied\.$"):
        open_table(locked)


# Names of columns


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hosptial", r"t.csv has no column 'hosptial' \(--domain\); did you mean 'hospital'\?"),
        ("HOSPITAL ", r"did you mean 'hospital'\?"),
        ("y", r"t.csv has no column 'y' \(--domain\); its columns are hospital, age\.$"),
    ],
)
def test_an_unknown_column_is_refused_with_a_suggestion(tmp_path, name, message):
    table = open_table(csv_file(tmp_path, "hospital,age\nA,1\n"))
    table.check_column("hospital", "--domain")
    with pytest.raises(InputError, match=message):
        table.check_column(name, "--domain")


def test_of_many_columns_the_first_are_listed(tmp_path):
    table = open_table(csv_file(tmp_path, ",".join(f"gene{k}" for k in range(20)) + "\n1\n"))
    with pytest.raises(InputError, match=r"columns are gene0, .*, gene7, … and 12 more\.$"):
        table.check_column("y", "--label")


@pytest.mark.parametrize("ending", ENDINGS)
def test_reading_an_unknown_column_is_refused_at_once(tmp_path, ending):
    write_table(tmp_path / f"t{ending}", [people(3)])
    table = open_table(tmp_path / f"t{ending}")
    with pytest.raises(InputError, match=r"has no column 'does'; did you mean 'dose'\?"):
        table.read(["does"])
    with pytest.raises(InputError, match="has no column 'does'"):
        table.blocks(columns=["does"])


# Writing


def broken_off(error):
    yield people(5)
    raise error


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("no"), OSError(5, "tape"), MemoryError()])
def test_work_that_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path, ending, error):
    path = tmp_path / f"t{ending}"
    path.write_text("old")
    with pytest.raises(type(error)) as caught:
        write_table(path, broken_off(error))
    assert caught.value is error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [path.name]


def test_a_full_disk_is_told_in_one_line_and_leaves_nothing(tmp_path):
    program = """
import resource, sys
import numpy as np, pandas as pd
from domaincover.data.tables import write_table
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for path in sys.argv[1:]:
    try:
        write_table(path, [pd.DataFrame({"a": np.random.default_rng(0).random(60_000)})] * 3)
    except ValueError as error:
        print(type(error).__name__, error)
"""
    paths = [str(tmp_path / f"t{ending}") for ending in ENDINGS]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"InputError cannot write {path}: File too large." for path in paths]
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []


def test_a_folder_that_one_may_not_write_to_is_told(locked):
    with pytest.raises(InputError, match=r"cannot write .*t.csv: Permission denied\.$"):
        write_table(locked / "t.csv", broken_off(AssertionError()))


def test_a_directory_is_not_overwritten(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(InputError, match=r"cannot write .*t.csv: it is a directory"):
        write_table(tmp_path / "t.csv", [people(1)])
    assert os.listdir(tmp_path) == ["t.csv"]


def test_an_unknown_ending_is_refused_before_any_work(tmp_path):
    with pytest.raises(
        InputError, match=r"cannot write .*t.xlsx: .* must be .csv, .csv.gz, .tsv, .tsv.gz, .parquet or .pq"
    ):
        write_table(tmp_path / "t.xlsx", broken_off(AssertionError()))


def test_a_path_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*t.csv: (Not a directory|File exists)"):
        write_table(tmp_path / "file" / "t.csv", broken_off(AssertionError()))


def test_missing_folders_are_made(tmp_path):
    write_table(tmp_path / "new" / "folder" / "t.csv", [people(1)])
    assert len(open_table(tmp_path / "new" / "folder" / "t.csv").read()) == 1


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_without_rows_has_its_columns(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    assert write_table(path, [people(0), people(0)]) == 0
    read = pd.read_csv if "csv" in ending else pd.read_parquet
    assert list(read(path)) == ["age", "dose", "hospital", "smokes"]
    with pytest.raises(InputError, match="has columns but no rows"):
        open_table(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_without_blocks_is_an_empty_file(tmp_path, ending):
    assert write_table(tmp_path / f"t{ending}", []) == 0
    with pytest.raises(InputError, match=r"is empty|has no columns"):
        open_table(tmp_path / f"t{ending}")


@pytest.mark.parametrize("ending", ENDINGS)
def test_later_blocks_take_the_order_of_columns_of_the_first(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    write_table(path, [people(3), people(3)[["smokes", "hospital", "dose", "age"]]])
    pd.testing.assert_frame_equal(open_table(path).read(), pd.concat([people(3)] * 2, ignore_index=True))


@pytest.mark.parametrize("ending", ENDINGS)
def test_writing_twice_gives_the_same_bytes(tmp_path, ending):
    for name in "ab":
        write_table(tmp_path / f"{name}{ending}", [people(30)])
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (pd.Categorical(["a", "b"]), pd.Categorical(["c", "a"]), ["a", "b", "c", "a"]),
        ([1, 2], [3.0, 4.0], [1, 2, 3, 4]),
        ([1.5, 2.5], [3, 4], [1.5, 2.5, 3, 4]),
    ],
)
def test_later_blocks_take_the_types_of_the_first(tmp_path, first, second, both):
    write_table(tmp_path / "t.parquet", [pd.DataFrame({"a": first}), pd.DataFrame({"a": second})])
    assert open_table(tmp_path / "t.parquet").read()["a"].tolist() == both


def test_empty_lists_and_missing_texts_may_come_first(tmp_path):
    first = pd.DataFrame({"set": [[]], "note": pd.Series([None], dtype=object)})
    write_table(tmp_path / "t.parquet", [first, pd.DataFrame({"set": [["sick"]], "note": ["old"]})])
    table = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert table == {"set": [[], ["sick"]], "note": [None, "old"]}


def test_a_type_that_cannot_be_kept_is_told_with_its_column(tmp_path):
    blocks = [pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"a": [1], "b": [2.5]})]
    with pytest.raises(InputError, match=r"cannot write .*t.parquet: the types of a column differ \(.*column b .*2.5"):
        write_table(tmp_path / "t.parquet", blocks)
    assert os.listdir(tmp_path) == []
