"""Domains, labels and identifiers mean the same in every file, command and in Python, however they are written."""

import decimal
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domaincover import ERMClassifier, InputError, PromisedSetClassifier, certify, load, save
from domaincover.checks.table_check import check_table
from domaincover.cli.inputs import domains_in
from domaincover.data.tables import open_table
from domaincover.promises.certificates import seen_among
from tests.test_cli_adapt import sets_in
from tests.wards import QUICK, ROLES, patients, written

FEATURES = ["age", "pressure"]
PADDED = [f"{number:03d}" for number in range(1, 13)]


def visits(wards, seed=0, n_rows=1200):
    """Return patients of wards with these names."""
    table = patients(n_rows, len(wards), seed)[[*FEATURES, "ward", "outcome"]]
    names = np.fromiter(wards, dtype=object, count=len(wards))
    return table.assign(ward=names[table["ward"].str.removeprefix("ward ").astype(int).to_numpy() - 1])


def model_of(wards, folder, labels=None):
    table = visits(wards, n_rows=2400)
    y = table["outcome"] if labels is None else table["outcome"].map(labels)
    scorer = ERMClassifier(epochs=2, network="linear", random_state=0)
    model = PromisedSetClassifier(scorer, folds=2, random_state=0).fit(table[FEATURES], y, domains=table["ward"])
    save(model, folder, extra={"settings": {"label": "outcome", "domain": "ward"}})
    return model


@pytest.fixture(scope="module")
def padded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("padded") / "model"
    model_of(PADDED, folder)
    return folder


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbered") / "model"
    model_of(range(1, 13), folder)
    return folder


# Domains that were seen


@pytest.mark.parametrize(("learned", "asked"), [("csv", "parquet"), ("parquet", "csv")])
def test_zero_padded_domains_are_the_same_in_csv_and_parquet(here, refused, tmp_path, learned, asked):
    table = written(visits(PADDED), tmp_path / f"train.{learned}")
    assert here("fit", table, *QUICK, "--domain-confidence", "none", "--out", tmp_path / "model")[0] == 0
    assert load(tmp_path / "model").domains_.tolist() == PADDED
    new = written(visits(PADDED, seed=1), tmp_path / f"new.{asked}")
    refused("12 of 12 domains were seen in training: 001, 002, 003", "certify", tmp_path / "model", new)
    assert "12 of 12 domains were in the training data" in here("evaluate", tmp_path / "model", new)[1]


def test_one_domain_of_text_changes_no_other_domain_of_a_file(numbered, refused, tmp_path):
    new = written(visits([*range(1, 12), "A12"], seed=1), tmp_path / "new.csv")
    refused("11 of 12 domains were seen in training: 1, 10, 11", "certify", numbered, new)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("change", [float, str, "{}.0".format, lambda number: decimal.Decimal(number).scaleb(0)])
def test_whole_numbers_are_the_same_domain_however_they_are_stored(numbered, refused, tmp_path, ending, change):
    new = written(visits([change(number) for number in range(1, 13)], seed=1), tmp_path / f"new.{ending}")
    refused("12 of 12 domains were seen in training", "certify", numbered, new)


def test_small_and_large_numbers_are_the_same_domain_in_csv_and_parquet(tmp_path):
    table = pd.DataFrame({"d": [1e-5, 1e-6, 2.5e-7, -1e-300, 0.1, 1e22, 1.5e300]})
    files = [written(table, tmp_path / f"t.{ending}") for ending in ("csv", "parquet")]
    first, second = (domains_in(open_table(file), "d") for file in files)
    assert first == second
    assert all(seen_among(table["d"].tolist(), first))


def test_numbers_with_an_exponent_are_the_same_domain_however_a_program_writes_them():
    spreadsheet, decimals = ["1E+11", "2.5E-07"], [decimal.Decimal("1E+11"), decimal.Decimal("2.5E-7")]
    for written_so in (spreadsheet, decimals, ["100000000000", "0.00000025"]):
        assert seen_among(written_so, [1e11, 2.5e-7]) == [True, True]


def test_a_domain_is_one_in_all_blocks_though_only_one_block_has_text(numbered, here, tmp_path, monkeypatch):
    monkeypatch.setattr("domaincover.data.tables.ROWS_AT_ONCE", 90)
    table = visits([*range(1, 12), "A12"], seed=1)
    model, sets = load(numbered), tmp_path / "sets.csv"
    table = table.sort_values("ward", key=lambda ward: ward.astype(str), ignore_index=True)  # "A12" in late blocks only
    code, _, told = here("predict", numbered, written(table, tmp_path / "t.csv"), "--domain", "ward", "--out", sets)
    assert code == 0
    assert "12 domains" in told
    assert np.array_equal(sets_in(sets), model.predict_set(table[FEATURES], domains=table["ward"].astype(str)))


def test_adapted_to_7_is_the_same_as_7_0(numbered, here, tmp_path):
    ward = visits([7], seed=1, n_rows=200)
    assert here("adapt", numbered, written(ward, tmp_path / "ward.csv"), "--out", tmp_path / "own")[0] == 0
    later = written(ward.assign(ward=7.0), tmp_path / "later.parquet")
    for command in (["predict", "--out", tmp_path / "sets.csv"], ["evaluate"]):
        code, printed, told = here(command[0], tmp_path / "own", later, *command[1:])
        assert code == 0
        assert "rows of other domains" not in printed + told
    other = written(ward.assign(ward="007"), tmp_path / "other.csv")
    assert "rows of other domains: 007" in here("predict", tmp_path / "own", other, "--out", tmp_path / "s.csv")[2]


# What only looks alike


@pytest.mark.parametrize("wards", [list(range(1, 13)), ["north", "south", "east"]])
def test_a_certificate_is_refused_where_no_domain_can_be_compared(padded, refused, tmp_path, wards):
    new = written(visits(wards, seed=1), tmp_path / "new.parquet")
    message = "no domain can be compared with those seen in training, which are written in another way"
    refused(message, "certify", padded, new)
    model, table = load(padded), visits(wards, seed=1)
    with pytest.raises(InputError, match=message):
        model.certify(table[FEATURES], table["outcome"], table["ward"])


def test_a_certificate_says_which_new_domains_look_like_seen_ones(padded, here, tmp_path):
    wards = ["001 ", "1", *range(101, 111)]
    new = written(visits(list(map(str, wards)), seed=1), tmp_path / "new.csv")
    code, printed, told = here("certify", padded, new, "--html", tmp_path / "page.html")
    assert code == 0
    line = "look like domains seen in training: '001 ' looks like '001', '1' looks like '001'; they were taken for new."
    assert line in " ".join(printed.split())
    assert "Note: different domains look alike: '1' looks like '001 '; if they are the same, write them alike." in told
    assert "looks like" in (tmp_path / "page.html").read_text()
    doubt = json.loads(here("certify", padded, new, "--format", "json")[1])["doubt"]
    assert doubt.endswith(line)
    assert "Some domains look like others that were in the training data" in here("evaluate", padded, new)[1]


@pytest.mark.parametrize("known", [[], ["x"]])
def test_seen_domains_with_which_nothing_can_be_compared_are_refused_in_python(padded, known):
    table = visits(["1", "2", "3"], seed=1)
    report = load(padded).domain_report(table[FEATURES], table["outcome"], table["ward"])
    with pytest.raises(InputError, match="no domain can be compared"):
        certify(report, 0.9, seen_domains=known)


def test_a_model_that_was_fitted_without_domains_certifies_nothing():
    table = visits(PADDED)
    model = ERMClassifier(epochs=1, network="linear", random_state=0).fit(table[FEATURES], table["outcome"])
    with pytest.raises(InputError, match="the model does not record the domains that it was trained on"):
        model.certify(table[FEATURES], table["outcome"], table["ward"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_label_that_looks_like_one_of_the_model_is_refused_with_it(padded, refused, tmp_path, ending):
    table = visits(["x", "y"], seed=1)
    table.loc[3, "outcome"] = "ILL "
    new = written(table, tmp_path / f"new.{ending}")
    row = "holds 'ILL ' in row 4, a label that the model does not know; it knows 'ill', 'mild', 'well'"
    refused(f"{row}; 'ILL ' looks like 'ill'", "evaluate", padded, new)
    with pytest.raises(InputError, match="'ILL ' looks like 'ill'"):
        load(padded).domain_report(table[FEATURES], table["outcome"], table["ward"])


@pytest.mark.parametrize("learned", [{"ill": 1, "mild": 2, "well": 3}, {"ill": "1", "mild": "2", "well": "3"}])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("change", [int, float, str])
def test_labels_of_whole_numbers_are_those_of_the_model(here, tmp_path, learned, ending, change):
    model_of(PADDED, tmp_path / "model", learned)
    table = visits(["x", "y"], seed=1)
    table["outcome"] = table["outcome"].map(learned).map(change).to_numpy()
    new = written(table, tmp_path / f"new.{ending}")
    code, printed, told = here("evaluate", tmp_path / "model", new, "--format", "json")
    assert (code, told) == (0, "")
    assert list(json.loads(printed)["domains"][0]["recall"]) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("domains", "labels", "message"),
    [
        (["001", "1"], ["a", "b"], "different domains look alike: '1' looks like '001'"),
        (["H001", "h001"], ["a", "b"], "different domains look alike: 'h001' looks like 'H001'"),
        (["u", "v"], ["SICK", "sick"], "different labels look alike: 'sick' looks like 'SICK'"),
        (["u", "v"], ["sick", "sick "], "different labels look alike: 'sick ' looks like 'sick'"),
    ],
)
def test_names_that_look_alike_are_told_by_fit_and_check(domains, labels, message, here, tmp_path):
    X = pd.DataFrame({"x": np.arange(80) % 7.0})
    y, d = [labels[row % 2] for row in range(80)], [domains[row // 40] for row in range(80)]
    with pytest.warns(UserWarning, match=re.escape(message)):
        ERMClassifier(epochs=1, network="linear", random_state=0).fit(X, y, domains=d)
    assert any(message in finding.what for finding in check_table(X, y, d).findings)
    table = written(X.assign(outcome=y, ward=d), tmp_path / "t.csv")
    assert message in here("check", table, *ROLES)[1].replace("\n  ", " ")
    code, _, told = here("fit", table, *QUICK, "--method", "erm", "--out", tmp_path / "model")
    assert code == 0
    assert f"Note: {message}" in told


@pytest.mark.parametrize("column", ["outcome", "ward"])
def test_a_fit_cannot_drop_its_labels_or_domains(refused, tmp_path, column):
    table = written(visits(PADDED), tmp_path / "train.csv")
    for command in (["fit", table, *QUICK, "--out", tmp_path / "model"], ["check", table, *ROLES]):
        refused(f"--drop {column!r} is the column of", *command, "--drop", column)


# Identifiers


IDS = {
    "whole numbers with gaps": pa.array([2**53 + 1, None, 2**63 - 1, 7] * 3),
    "decimals": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("12345678901234567.25")] * 4),
    "texts": pa.array(["007", "NA", None, " x"] * 3),
    "ends of lines": pa.array(["a\rb", "c\nd", 'e"f', "g\r\nh"] * 3),
    "bytes": pa.array([b"\xff\x00", None, b"ab"] * 4),
    "days": pa.array([pd.Timestamp("2026-01-02").date(), None] * 6),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("options", [[], ["--domain", "ward"], ["--top", "--scores"]])
def test_ids_of_parquet_keep_type_and_value(padded, here, tmp_path, ids, options):
    table = pa.Table.from_pandas(visits(["x", "y"], n_rows=12)).append_column("id", ids)
    pq.write_table(table, tmp_path / "new.parquet")
    out = tmp_path / "sets.parquet"
    assert here("predict", padded, tmp_path / "new.parquet", "--id", "id", *options, "--out", out)[0] == 0
    assert pq.read_table(out)["id"].combine_chunks().equals(ids)


def test_ids_of_parquet_are_written_to_csv_as_they_are(padded, here, tmp_path):
    names = ["whole numbers with gaps", "decimals", "texts", "ends of lines", "days"]
    table = pa.Table.from_pandas(visits(["x", "y"], n_rows=12))
    for name in names:
        table = table.append_column(name, IDS[name])
    pq.write_table(table, tmp_path / "new.parquet")
    options = [word for name in names for word in ("--id", name)]
    assert here("predict", padded, tmp_path / "new.parquet", *options, "--out", tmp_path / "sets.csv")[0] == 0
    found = pd.read_csv(tmp_path / "sets.csv", dtype=str, keep_default_na=False)
    for name in names:
        assert found[name].tolist() == ["" if value is None else str(value) for value in IDS[name].to_pylist()]


@pytest.mark.parametrize("options", [[], ["--domain", "ward"]])
def test_ids_of_csv_are_copied_as_text_also_where_the_model_reads_numbers(padded, here, tmp_path, options):
    table = visits(["x", "y"], n_rows=12).astype(object)
    table["age"] = ["007", "1.50", "1e5", " 8", "9007199254740993", "-0"] * 2
    table["id"] = ["007", "NA", "", "1.0", "nan", "1e5"] * 2
    words = ["--id", "id", "--id", "age", *options, "--out", tmp_path / "sets.csv"]
    assert here("predict", padded, written(table, tmp_path / "new.csv"), *words)[0] == 0
    found = pd.read_csv(tmp_path / "sets.csv", dtype=str, keep_default_na=False)
    for name in ("id", "age"):
        assert found[name].tolist() == table[name].tolist()


@pytest.mark.parametrize("options", [[], ["--domain", "ward"], ["--domain", "ward", "--top"]])
def test_ids_of_parts_keep_the_types_of_their_part(padded, here, tmp_path, options):
    (tmp_path / "new").mkdir()
    stored = {
        "a": pa.array([2**53 - 1, 7] * 6),
        "b": pa.array([7, None] * 6, pa.int32()),
        "c": pa.array([7.0, None] * 6),
        "d": pa.array([], pa.int64()),
    }
    for name, ids in stored.items():
        part = pa.Table.from_pandas(visits(["x", "y"], n_rows=12), preserve_index=False)[: len(ids)]
        pq.write_table(part.append_column("id", ids), tmp_path / f"new/{name}.parquet")
    out = tmp_path / "sets"
    assert here("predict", padded, tmp_path / "new", "--id", "id", *options, "--out", out)[0] == 0
    for name, ids in stored.items():
        assert pq.read_table(out / f"{name}.parquet")["id"].combine_chunks().equals(ids)


def test_domains_of_parts_are_one_whatever_the_types_of_parts(numbered, here, tmp_path):
    (tmp_path / "new").mkdir()
    table = visits(list(range(1, 13)), seed=1)
    for name, change in (("a", int), ("b", float)):
        written(table.assign(ward=table["ward"].map(change).to_numpy()), tmp_path / f"new/{name}.parquet")
    out = tmp_path / "sets"
    told = here("predict", numbered, tmp_path / "new", "--domain", "ward", "--out", out)[2]
    assert "12 domains" in told
    code, _, told = here("certify", numbered, tmp_path / "new")
    assert code == 2
    assert "12 of 12 domains were seen in training" in told
