"""Tables in every format that people have: CSV with its kinds, standard input."""

import io

import numpy as np
import pandas as pd
import pytest

from domaincover import InputError
from domaincover.data.tables import open_table

TABLE = pd.DataFrame({"name": ["a, b", 'say "no"', "ä"], "number": [1.5, np.nan, -3.0], "day": ["x", "y", "z"]})


def as_csv(**options):
    return TABLE.to_csv(index=False, **options)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", as_csv().encode()),
        ("t.csv", as_csv().encode("utf-8-sig")),
        ("t.tsv", as_csv(sep="\t").encode()),
        ("t.csv", as_csv(sep=";", decimal=",").encode()),
    ],
)
def test_text_comes_back_whatever_its_encoding_and_separator(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    pd.testing.assert_frame_equal(open_table(tmp_path / name).read(), TABLE, check_dtype=False)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_with_what_to_do(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes("a,b\n1,2\n".encode(encoding))
    with pytest.raises(InputError, match="contains binary data or UTF-16 text; save it as CSV in UTF-8"):
        open_table(tmp_path / "t.csv").read()


@pytest.mark.parametrize("name", ["t.xls", "t.xlsx", "t.zip"])
def test_spreadsheets_and_archives_are_refused_with_what_to_do(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=rf"{name}: .*; save a spreadsheet as CSV or Parquet, and unpack an archive"):
        open_table(tmp_path / name)


# Standard input


@pytest.mark.parametrize("form", ["csv", "parquet", "gz"])
def test_standard_input_is_told_by_its_content(monkeypatch, form):
    content = io.BytesIO()
    if form == "parquet":
        TABLE.to_parquet(content)
    else:
        TABLE.to_csv(content, index=False, compression="gzip" if form == "gz" else None)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.getvalue()), encoding="utf-8"))
    pd.testing.assert_frame_equal(open_table("-").read(), TABLE, check_dtype=False)


def test_a_spreadsheet_on_standard_input_is_named(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"PK\x03\x04..."), encoding="utf-8"))
    with pytest.raises(InputError, match="contains a zip archive or a spreadsheet"):
        open_table("-")
