"""Domains and identifiers, however they are written: none that was seen is certified, and no identifier changes.

A model's domains are those that `fit` reads from one table; another table has some of them, written in another way.
"""

import copy
import datetime as dt
import decimal
import re
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domaincover import ERMClassifier, InputError, PromisedSetClassifier
from domaincover.cli.adapt import _only_domain
from domaincover.cli.apply import CountSets, WriteSets, reports_of
from domaincover.cli.evaluate import certificate_if_unseen
from domaincover.cli.inputs import read_training
from domaincover.cli.part_runs import PartRuns
from domaincover.cli.part_scores import NumberedPart, adapted_table, meant_for_another_domain
from domaincover.data.tables import open_table
from domaincover.data.tables.table import MISSING
from domaincover.promises.certificates import certify, seen_among
from tests.deep import IS_DEEP

EXAMPLES = 3_500 if IS_DEEP else 60  # about three names of domains, or six identifiers, in each: 10,000 in a deep run
N_ROWS = 6  # of each domain
PER_MODEL = 12
DAY = dt.date(2026, 1, 1)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=30 * PER_MODEL)})
    y = np.where(X["x"] + rng.normal(size=len(X)) > 0, "ill", "well")
    model = PromisedSetClassifier(
        ERMClassifier(epochs=1, network="linear", random_state=0), folds=2, min_cell_size=1, random_state=0
    )
    return model.fit(X, y, domains=np.repeat(np.arange(PER_MODEL), 30))


def in_parquet(kind, change=lambda value: value):
    return lambda values: pa.array([change(value) for value in values], kind)


def as_categories(values):
    return pa.array(list(map(str, values))).dictionary_encode()


# How values of a kind are drawn, written in CSV, and stored in Parquet.
WHOLE = (
    st.integers(-(2**31), 2**31 - 1),
    [str, "{}.0".format, "{}.00".format, " {}".format],
    [
        in_parquet(pa.int64()),
        in_parquet(pa.int32()),
        in_parquet(pa.float64(), float),
        in_parquet(pa.decimal128(20, 2), decimal.Decimal),
        in_parquet(pa.string(), str),
        in_parquet(pa.string(), "{}.0".format),
        as_categories,
    ],
)
KEYS = (st.integers(2**53, 2**63 - 1), [str], [in_parquet(pa.int64()), in_parquet(pa.string(), str)])
LARGE_FLOATS = (
    st.integers(2**53, 2**200).map(float),
    [repr, "{:.0f}".format],
    [in_parquet(pa.float64()), in_parquet(pa.string(), repr)],
)
FLOATS = (
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: value % 1 != 0),
    [repr],
    [in_parquet(pa.float64()), in_parquet(pa.string(), repr)],
)
SINGLES = (
    st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda value: value % 1 != 0).map(np.float32),
    [str],
    [in_parquet(pa.float32()), in_parquet(pa.string(), str)],
)
BOOLEANS = (
    st.booleans(),
    [str, lambda value: str(value).lower(), lambda value: str(value).upper()],
    [in_parquet(pa.bool_()), in_parquet(pa.string(), str)],
)
DAYS = (
    st.dates(dt.date(1800, 1, 1), dt.date(2200, 1, 1)),
    [str, "{} 00:00:00".format, "{}T00:00:00".format, "{} 00:00:00.000000000".format],
    [
        in_parquet(pa.date32()),
        in_parquet(pa.timestamp("us"), lambda day: dt.datetime(day.year, day.month, day.day)),
        in_parquet(pa.string(), str),
    ],
)
MOMENTS = (
    st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1)),
    [str, dt.datetime.isoformat, lambda moment: f"{moment:%Y-%m-%d %H:%M:%S.%f}000"],
    [in_parquet(pa.timestamp("us")), in_parquet(pa.string(), str)],
)
TIMES = (
    st.times(),
    [str, lambda time: f"{time:%H:%M:%S.%f}"],
    [in_parquet(pa.time64("us")), in_parquet(pa.string(), str)],
)
NAMES = st.one_of(
    st.from_regex(r"0{0,3}[0-9]{1,3}", fullmatch=True),
    st.from_regex(r"[Hhß]0{0,2}[0-9] ?", fullmatch=True),
    st.sampled_from(
        ["nan", "NA", "None", "null", "inf", "1e5", "1E5", "+7", "7.", "1.50", "1,5", "A12", "é", "é", "٧"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5),
)
TEXTS = (
    NAMES,
    [str],
    [in_parquet(pa.string()), in_parquet(pa.large_string()), in_parquet(pa.binary(), str.encode), as_categories],
)
KINDS = [WHOLE, KEYS, LARGE_FLOATS, FLOATS, SINGLES, BOOLEANS, DAYS, MOMENTS, TIMES, TEXTS]
FORMATS = ["csv", "parquet"]


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def write(path, columns, stored, spelled):
    """Write columns of texts, and those that are stored with a type or are spelled as text."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({**columns, **stored}), path)
    else:
        columns = {**columns, **spelled}
        lines = [
            ",".join(columns),
            *(",".join(quoted(str(v)) for v in row) for row in zip(*columns.values(), strict=True)),
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return open_table(path)


def features(names):
    n = N_ROWS * len(names)
    x = np.linspace(-1, 1, n).tolist()
    return {"x": x, "y": ["ill", "well"] * (n // 2)}


def table_of(path, names, data, kind):
    """Write a table with rows of these domains, in a spelling or a type that is drawn."""
    _, spellings, types = kind
    values = [name for name in names for _ in range(N_ROWS)]
    spelled = [spell(value) for spell, value in zip(data.draw(several(spellings, len(values))), values, strict=True)]
    stored = {"d": data.draw(st.sampled_from(types))(values)} if path.suffix == ".parquet" else {}
    return write(path, features(names), stored, {"d": spelled})


def several(choices, n):
    return st.lists(st.sampled_from(choices), min_size=n, max_size=n)


def names_of(kind):
    """Return distinct names of a kind: texts that are one name in canonical form are not drawn twice."""
    return st.lists(kind[0], min_size=2 if kind is BOOLEANS else 4, max_size=8, unique_by=str)


class InMemory(NamedTuple):
    """A fitted model in place of a saved one."""

    model: object
    folder: str = "model"

    def load(self):
        return self.model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spellings")


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind), names_of(kind))), st.data())
@pytest.mark.filterwarnings("ignore:different")
@pytest.mark.filterwarnings("ignore:no label has 20 examples")
def test_no_seen_domain_is_taken_for_new_however_it_is_written(fitted, folder, kind_and_names, data):
    kind, names = kind_and_names
    learned, given_format = data.draw(several(FORMATS, 2))
    n_new = data.draw(st.integers(0, len(names) - 2))
    seen, asked = names[n_new:], names[:-1] if n_new else names  # at least one of them was seen
    if "csv" in (learned, given_format):
        names = [name for name in names if kind is not TEXTS or name not in MISSING]
        seen, asked = ([name for name in some if name in names] for some in (seen, asked))
    if not seen or not set(map(str, seen)) & set(map(str, asked)):
        return
    training = read_training(table_of(folder / f"learned.{learned}", seen, data, kind), ["x"], "y", "d", 1)
    model = copy.copy(fitted)
    model._learn_targets(training.labels, training.domains, len(training.labels))

    table = table_of(folder / f"asked.{given_format}", asked, data, kind)
    saved, runs, parts = InMemory(model), PartRuns(in_parts=False), [NumberedPart(0, table)]
    found = adapted_table(runs, saved, "d", parts, folder / "scratch")
    reports, _ = zip(*reports_of(runs, CountSets(saved, "y", "d", folder / "scratch"), parts, 1), strict=True)
    wanted = {str(name): str(name) in set(map(str, seen)) for name in asked}
    for report in reports:
        assert certificate_if_unseen(report, 0.9, model) is None
        with pytest.raises(InputError, match=r"were seen in training"):
            certify(report, 0.9, seen_domains=model.seen_domains_)
        assert sum(seen_among(report.domain_names, model.seen_domains_)) >= sum(wanted.values()) - n_merged(asked)
    assert len(found.names) == len(reports[0].domain_names)

    one = data.draw(st.sampled_from([name for name in asked if wanted[str(name)]]))
    own = (table_of(folder / f"own.{ending}", [one], data, kind) for ending in (learned, given_format))
    first, again = (_only_domain(each, "d") for each in own)
    adapted = copy.copy(model)
    adapted.adapted_ = {}
    assert meant_for_another_domain(adapted, first, [again]) is None


def n_merged(names):
    """Return how many names are whole numbers that others are, such as "7" and " 7"."""
    whole = [re.fullmatch(r"\s*(-?(?:0|[1-9][0-9]*))(?:\.0*)?\s*", str(name)) for name in names]
    numbers = [found[1] for found in whole if found]
    return len(numbers) - len(set(numbers))


IDS = [
    (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    (st.integers(0, 2**64 - 1), pa.uint64()),
    (st.integers(-(10**20), 10**20).map(lambda value: decimal.Decimal(value).scaleb(-2)), pa.decimal128(25, 2)),
    (st.floats(allow_nan=False), pa.float64()),
    (st.booleans(), pa.bool_()),
    (st.dates(), pa.date32()),
    (st.datetimes(), pa.timestamp("us")),
    (NAMES, pa.string()),
    (st.binary(max_size=4), pa.binary()),
]


def copied(fitted, table, out, names):
    write = WriteSets(InMemory(fitted), out, tuple(names), top=False, scores=False)
    write(NumberedPart(0, table))


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(IDS), st.data())
def test_identifiers_of_parquet_come_out_as_they_went_in(fitted, folder, kind, data):
    values, kind = kind
    ids = data.draw(st.lists(st.one_of(st.none(), values), min_size=6, max_size=6))
    stored = pa.array(ids, kind)
    table = write(folder / "ids.parquet", {"x": [0.5] * 6}, {"id": stored}, {})
    copied(fitted, table, folder / "sets.parquet", ["id"])
    assert pq.read_table(folder / "sets.parquet")["id"].combine_chunks().equals(stored)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        copied(fitted, table, folder / "sets.csv", ["id"])
        found = pd.read_csv(folder / "sets.csv", dtype=str, keep_default_na=False)["id"].tolist()
        spell = "{:f}".format if pa.types.is_decimal(kind) else str
        assert found == ["" if value is None else spell(value) for value in ids]


@settings(max_examples=EXAMPLES)
@given(st.lists(NAMES | st.just(""), min_size=6, max_size=6), st.booleans())
def test_identifiers_of_csv_come_out_as_they_went_in(fitted, folder, ids, twice):
    table = write(folder / "ids.csv", {"x": [0.5] * 6}, {}, {"id": ids})
    names = ["id", "x"] if twice else ["id"]  # a column that the model reads as numbers is copied as text
    for ending in FORMATS:
        out = folder / f"sets.{ending}"
        copied(fitted, table, out, names)
        is_csv = ending == "csv"
        found = pd.read_csv(out, dtype=str, keep_default_na=False) if is_csv else pd.read_parquet(out)
        assert found["id"].fillna("").tolist() == ids
        assert not twice or found["x"].tolist() == ["0.5"] * 6
