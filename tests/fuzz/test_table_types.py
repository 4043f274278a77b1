"""Columns of every type that Parquet has, as features, labels and domains: read, or refused in one line."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domaincover.cli.inputs import ModelColumns, read_training
from domaincover.data.encoding import TableEncoder
from domaincover.data.tables import open_table
from domaincover.errors import InputError
from tests.fuzz.answers import answer, is_refused

N_ROWS = 24
DAY, LATER = dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 3, 4, 5)


def in_rows(*values):
    return [values[row % len(values)] for row in range(N_ROWS)]


COLUMNS = {
    "decimal": pa.array(in_rows(decimal.Decimal("1.5"), decimal.Decimal(2))),
    "decimal of 76 digits": pa.array(in_rows(decimal.Decimal(10) ** 60, None), pa.decimal256(76, 0)),
    "bytes": pa.array(in_rows(b"a", b"b")),
    "bytes that are no text": pa.array(in_rows(b"\xff", b"b")),
    "bytes of one length": pa.array(in_rows(b"ab", b"cd"), pa.binary(2)),
    "dictionary of bytes": pa.array(in_rows(b"ab", b"cd")).dictionary_encode(),
    "dictionary": pa.array(in_rows("low", "high", None)).dictionary_encode(),
    "time": pa.array(in_rows(dt.time(1), dt.time(2, 3)), pa.time32("s")),
    "duration": pa.array(in_rows(dt.timedelta(1), dt.timedelta(seconds=5))),
    "day": pa.array(in_rows(dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "moment": pa.array(in_rows(DAY, LATER), pa.timestamp("ms")),
    "moment in a zone": pa.array(in_rows(DAY, LATER), pa.timestamp("us", "Europe/Berlin")),
    "moment in no zone": pa.array(in_rows(DAY, LATER), pa.timestamp("us", "Nowhere/Land")),
    "nothing": pa.nulls(N_ROWS),
    "largest integers": pa.array(in_rows(2**64 - 1, 2**64 - 2), pa.uint64()),
    "booleans with gaps": pa.array(in_rows(True, False, None)),
    "lists": pa.array(in_rows([1], [2, 3])),
    "no lists": pa.array(in_rows([], None), pa.list_(pa.int8())),
    "structures": pa.array(in_rows({"a": 1}, {"a": 2})),
    "maps": pa.array(in_rows([("a", 1)]), pa.map_(pa.string(), pa.int64())),
    "infinite": pa.array(in_rows(np.inf, 1.0)),
    "nan": pa.array(in_rows(np.nan, 1.0)),
    "huge": pa.array(in_rows(1e308, -1e308, 1e307)),
    "tiny": pa.array(in_rows(5e-324, 0.0)),
    "half precision": pa.array(np.array(in_rows(1, 2), dtype=np.float16)),
    "text views": pa.array(in_rows("u", "v"), pa.string_view()),
    "empty text": pa.array(in_rows("", "v")),
    "text with NUL": pa.array(in_rows("a\0", "a")),
}


@pytest.fixture
def with_column(tmp_path):
    def write(role, column):
        columns = {"x": np.arange(N_ROWS, dtype=float), "y": in_rows("p", "q"), "d": in_rows("k", "l", "m")}
        pq.write_table(pa.table({**columns, role: column}), tmp_path / "t.parquet")
        return open_table(tmp_path / "t.parquet")

    return write


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_any_type_is_learned_from_or_refused(with_column, kind, scale, door):
    door("table types")
    table = with_column("z", COLUMNS[kind])
    frame = answer(table.read, ["x", "z"])
    encoder = frame if is_refused(frame) else answer(TableEncoder(scale=scale).fit, frame)
    if is_refused(encoder):
        return
    matrix = encoder.transform(frame)
    assert not np.isinf(matrix).any()
    assert np.isfinite(matrix).all() or not scale
    categories = [name for name, found in encoder.kinds_.items() if found == "category"]
    blocks = (block for block, _ in table.blocks(5, ["x", "z"], categories))
    again = np.concatenate([encoder.transform(block) for block in blocks])
    np.testing.assert_array_equal(again, matrix)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("role", ["y", "d"])
def test_a_column_of_any_type_names_labels_and_domains_or_is_refused(with_column, role, kind, door):
    door("table types")
    table = with_column(role, COLUMNS[kind])
    training = answer(read_training, table, ["x"], "y", "d", 2)
    if is_refused(training):
        return
    classes = sorted(set(training.labels))
    again = ModelColumns(["x"], ["x"], [], [], [], [], {}).read_labels(table, "y", "d", classes)
    assert again.labels.tolist() == training.labels.tolist()
    assert again.domains.tolist() == list(map(str, training.domains))


def test_midnight_is_spelled_the_same_whatever_else_is_in_the_column(with_column):
    midnights = with_column("d", pa.array(in_rows(DAY), pa.timestamp("us")))
    moments = with_column("d", pa.array(in_rows(DAY, LATER), pa.timestamp("us")))
    spelled = [table.read(["d"], text_columns=["d"])["d"].tolist()[0] for table in (midnights, moments)]
    assert spelled == ["2026-01-02", "2026-01-02"]


@pytest.mark.parametrize("scale", [True, False])
def test_whole_numbers_of_hundreds_of_digits_are_infinite(scale):
    frame = pd.DataFrame({"z": [10**400, 1, -(10**400)]}, dtype=object)
    with pytest.raises(InputError, match="holds an infinite value at row 0"):
        TableEncoder(scale=scale).fit(frame)
