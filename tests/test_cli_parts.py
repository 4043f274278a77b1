"""Tables in parts: every command reads them, `predict` writes them, and nothing depends on where they were cut."""

import json
import shutil
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domaincover import load
from domaincover.cli import apply, part_scores
from domaincover.cli.apply import listed_sets
from domaincover.data.tables import metadata_of, open_table
from domaincover.files import only_writer
from tests.faults.processes import contents
from tests.wards import QUICK, ROLES, arrivals


@pytest.fixture
def model(promised_model):
    return promised_model


def in_parts(folder, table=None, ends=(400, 1100)):
    table = arrivals() if table is None else table
    folder.mkdir()
    for k, rows in enumerate(np.split(np.arange(len(table)), ends)):
        table.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False)
    return folder


def in_hive(folder):
    table = pa.Table.from_pandas(arrivals(), preserve_index=False)
    pq.write_to_dataset(table, folder, partition_cols=["ward"], basename_template="rows-{i}.parquet")
    return folder


@pytest.fixture
def tiny_buckets(monkeypatch):
    """Let domains fall into several buckets."""
    monkeypatch.setattr(part_scores, "NUMBERS_AT_ONCE", 700)


def sets_of(path, order="visit"):
    return open_table(path).read().sort_values(order, ignore_index=True)


# What the commands read


@pytest.mark.parametrize("layout", [in_parts, in_hive])
def test_a_fit_on_parts_is_the_fit_on_the_table_that_they_are(tmp_path, here, layout):
    parts = layout(tmp_path / "parts")
    open_table(parts).read().to_parquet(tmp_path / "whole.parquet")
    for table, out in ((parts, "a"), (tmp_path / "whole.parquet", "b")):
        assert here("fit", table, *QUICK, "--drop", "visit", "--out", tmp_path / out)[0] == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_check_reads_parts(tmp_path, here):
    code, printed, _ = here("check", in_hive(tmp_path / "parts"), *ROLES, "--format", "json")
    assert code == 0
    arrivals().to_parquet(tmp_path / "whole.parquet")
    whole = json.loads(here("check", tmp_path / "whole.parquet", *ROLES, "--format", "json")[1])
    assert json.loads(printed)["n_rows"] == whole["n_rows"] == 1600


@pytest.mark.parametrize("layout", [in_parts, in_hive])
@pytest.mark.parametrize("command", [["evaluate"], ["certify", "--thresholds", "fixed"]])
def test_reports_of_parts_are_those_of_one_table(tmp_path, here, model, tiny_buckets, layout, command):  # noqa: ARG001
    arrivals().to_parquet(tmp_path / "whole.parquet")
    whole = here(*command, model, tmp_path / "whole.parquet", "--format", "json")
    parts = here(*command, model, layout(tmp_path / "parts"), "--format", "json")
    assert (parts[0], parts[1]) == (0, whole[1])


def test_a_model_that_cannot_adapt_is_evaluated_in_parts_too(tmp_path, here, unpromised_model):
    arrivals().to_parquet(tmp_path / "whole.parquet")
    whole = here("evaluate", unpromised_model, tmp_path / "whole.parquet", "--format", "json")
    assert here("evaluate", unpromised_model, in_parts(tmp_path / "parts"), "--format", "json") == whole


def test_adapt_to_parts_is_adapt_to_the_table(tmp_path, here, model):
    one = arrivals()[arrivals()["ward"] == "ward 101"].reset_index(drop=True)
    one.to_parquet(tmp_path / "whole.parquet")
    parts = in_parts(tmp_path / "parts", one, ends=(50, 90))
    for table, out in ((parts, "a"), (tmp_path / "whole.parquet", "b")):
        assert here("adapt", model, table, "--label", "outcome", "--out", tmp_path / out)[0] == 0
    assert load(tmp_path / "a").thresholds_.tolist() == load(tmp_path / "b").thresholds_.tolist()
    assert load(tmp_path / "a").adapted_ == load(tmp_path / "b").adapted_


# What predict writes


@pytest.mark.parametrize("options", [[], ["--domain", "ward"], ["--domain", "ward", "--top", "--scores"]])
@pytest.mark.parametrize("layout", [in_parts, in_hive])
def test_sets_in_parts_are_those_of_one_table(tmp_path, here, model, tiny_buckets, layout, options):  # noqa: ARG001
    arrivals().to_parquet(tmp_path / "whole.parquet")
    parts, told = layout(tmp_path / "parts"), []
    for table, out in ((tmp_path / "whole.parquet", "sets.parquet"), (parts, "sets")):
        ids = ["--id", "visit", "--id", "ward"]
        code, _, said = here("predict", model, table, *ids, *options, "--out", tmp_path / out)
        assert code == 0, said
        told.append(said.replace(str(tmp_path / out), "").splitlines())
    assert told[0] == told[1]
    whole, found = sets_of(tmp_path / "sets.parquet"), sets_of(tmp_path / "sets")
    pd.testing.assert_frame_equal(found[whole.columns], whole)
    names = [path.relative_to(parts) for path in sorted(parts.rglob("*.parquet"))]
    assert [path.relative_to(tmp_path / "sets") for path in sorted((tmp_path / "sets").rglob("*.parquet"))] == names
    summary = json.loads((tmp_path / "sets" / "_sets.json").read_text())
    assert (summary["rows"], summary["parts"]) == (1600, len(names))
    assert not list((tmp_path / "sets").rglob(".*"))


def test_a_folder_of_parts_can_become_one_file(tmp_path, here, model):
    parts = in_parts(tmp_path / "parts")
    assert here("predict", model, parts, "--id", "visit", "--out", tmp_path / "sets.csv")[0] == 0
    assert pd.read_csv(tmp_path / "sets.csv")["visit"].tolist() == arrivals()["visit"].tolist()


def test_parts_without_rows_get_parts_without_rows(tmp_path, here, model):
    parts = in_parts(tmp_path / "parts", ends=(0, 700))
    for domain in ([], ["--domain", "ward"]):
        assert here("predict", model, parts, "--id", "visit", *domain, "--out", tmp_path / "sets")[0] == 0
        assert len(open_table(tmp_path / "sets").read()) == 1600
        assert pq.read_metadata(tmp_path / "sets" / "part-0.parquet").num_rows == 0
    assert here("evaluate", model, parts)[0] == 0


@pytest.mark.parametrize("domain", [[], ["--domain", "ward"]])
def test_a_second_call_writes_what_is_missing_and_what_has_changed(tmp_path, here, model, domain):
    parts, out = in_parts(tmp_path / "parts"), tmp_path / "sets"
    predict = ["predict", model, parts, "--id", "visit", *domain, "--out", out]
    first = here(*predict)
    before, times = contents(out), {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    (out / "part-1.parquet").unlink()
    assert here(*predict) == first
    assert contents(out) == before
    new = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert [name for name in times if new[name] != times[name]] == ["part-1.parquet"]
    arrivals()[:10].to_parquet(parts / "part-0.parquet", index=False)
    assert here(*predict)[0] == 0
    assert len(open_table(out).read()) == 1210
    assert here(*predict, "--top")[0] == 0
    assert "top" in open_table(out).columns


@pytest.mark.parametrize("domain", [[], ["--domain", "ward"]])
def test_another_version_writes_all_parts_anew(tmp_path, here, model, monkeypatch, domain):
    predict = ["predict", model, in_parts(tmp_path / "parts"), *domain, "--out", tmp_path / "sets"]
    origins = []
    for version in ("1", "2"):
        monkeypatch.setattr(part_scores, "VERSION", version)
        assert here(*predict)[0] == 0
        origins.append({metadata_of(path)[apply.ORIGIN] for path in (tmp_path / "sets").glob("*.parquet")})
    assert not origins[0] & origins[1]


def test_another_model_writes_all_parts_anew(tmp_path, here, model, unpromised_model):
    parts, out = in_parts(tmp_path / "parts"), tmp_path / "sets"
    for which in (model, unpromised_model):
        assert here("predict", which, parts, "--out", out)[0] == 0
    here("predict", unpromised_model, parts, "--out", tmp_path / "alone")
    assert contents(out) == contents(tmp_path / "alone")


def test_a_damaged_part_is_named_and_the_others_are_written(tmp_path, here, model):
    parts, out = in_parts(tmp_path / "parts"), tmp_path / "sets"
    whole = (parts / "part-1.parquet").read_bytes()
    pq.write_table(pq.read_table(parts / "part-1.parquet"), parts / "part-1.parquet", write_page_checksum=True)
    age = pq.read_metadata(parts / "part-1.parquet").row_group(0).column(1)
    content = bytearray((parts / "part-1.parquet").read_bytes())
    content[age.data_page_offset + 100 : age.data_page_offset + 200] = bytes(100)
    (parts / "part-1.parquet").write_bytes(content)
    code, _, told = here("predict", model, parts, "--out", out)
    assert code == 2
    assert f"{parts}/part-1.parquet is corrupt or truncated" in told
    assert "2 of 3 are finished; the same command goes on with the others." in told
    assert sorted(path.name for path in out.iterdir()) == ["part-0.parquet", "part-2.parquet"]
    (parts / "part-1.parquet").write_bytes(whole)
    assert here("predict", model, parts, "--out", out)[0] == 0


def test_a_missing_domain_is_told_with_its_part_and_row(tmp_path, refused, model):
    table = arrivals()
    table.loc[1102, "ward"] = None
    parts = in_parts(tmp_path / "parts", table)
    message = f"{parts}/part-2.parquet: column 'ward' (--domain) is empty in 1 of 500 rows, first in row 3"
    refused(message, "evaluate", model, parts)


def test_a_failed_evaluation_leaves_nothing_and_can_be_repeated(tmp_path, here, model, monkeypatch):
    parts, scratch = in_parts(tmp_path / "parts"), tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    evaluate = ["evaluate", model, parts, "--format", "json"]
    expected = here(*evaluate)
    table = pq.read_table(parts / "part-2.parquet")
    unknown = pa.array(["well", "?"] * 250)
    spoiled = table.set_column(table.schema.get_field_index("outcome"), "outcome", unknown)
    pq.write_table(spoiled, parts / "part-2.parquet")
    assert "holds '?' in row 2" in here(*evaluate)[2]
    assert list(scratch.iterdir()) == []
    pq.write_table(table, parts / "part-2.parquet")
    assert here(*evaluate) == expected
    assert list(scratch.iterdir()) == []


# What is refused


def test_a_second_command_in_the_same_folder_is_refused(tmp_path, refused, model):
    parts = in_parts(tmp_path / "parts")
    with only_writer(tmp_path / "sets"):
        refused("another command is writing to", "predict", model, parts, "--out", tmp_path / "sets")


@pytest.mark.parametrize("as_lists", [True, False])
def test_sets_of_many_labels_are_listed_as_those_of_few(as_lists):
    sets = np.random.default_rng(0).random((50, 70)) < np.arange(70) / 70
    for n_labels in (1, 3, 70):
        found = listed_sets(sets[:, :n_labels], np.arange(n_labels), as_json=not as_lists)
        listed = [list(held) if as_lists else json.loads(held) for held in found]
        assert listed == [np.flatnonzero(row).tolist() for row in sets[:, :n_labels]]


def test_workers_are_for_parts(tmp_path, refused, model):
    arrivals().to_parquet(tmp_path / "whole.parquet")
    parts = in_parts(tmp_path / "parts")
    whole = ["evaluate", model, tmp_path / "whole.parquet"]
    refused("--workers is for the parts of a folder, and", *whole, "--workers", 2)
    refused("--out must be a folder", "predict", model, parts, "--out", tmp_path / "sets.csv", "--workers", 2)


def test_an_output_folder_that_would_mix_files_up_is_refused(tmp_path, refused, model):
    parts = in_parts(tmp_path / "parts")
    other = in_parts(tmp_path / "other", ends=(10, 20, 30))
    predict = ["predict", model, parts, "--out"]
    refused("lie within each other", *predict, parts)
    refused("lie within each other", *predict, parts / "sets")
    refused("lie within each other", *predict, tmp_path)
    refused(f"{other}/part-3.parquet is no part of {parts}", *predict, other)
    shutil.copytree(model, tmp_path / "model")
    refused("mix the sets with the model", "predict", tmp_path / "model", parts, "--out", tmp_path / "model")
    (tmp_path / "file").touch()
    refused("it is a file; name a folder", *predict, tmp_path / "file")
    refused("the extension must be", *predict, tmp_path / "sets.xlsx")
