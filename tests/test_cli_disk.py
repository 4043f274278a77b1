"""`fit --on-disk`: the model that a fit in memory gives, of a table that is never read as a whole."""

import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domaincover import load
from tests.faults.processes import contents
from tests.wards import ROLES, patients

QUICK = ["--epochs", "2", "--batch-size", "200"]


@pytest.fixture(scope="module")
def hive(tmp_path_factory):
    """Patients of 14 wards, a folder for each."""
    folder = tmp_path_factory.mktemp("hive")
    table = pa.Table.from_pandas(patients(2000, 14), preserve_index=False)
    pq.write_to_dataset(table, folder, partition_cols=["ward"], basename_template="rows-{i}.parquet")
    return folder


@pytest.mark.parametrize("options", [["--method", "set-cover"], ["--method", "erm", "--domain-confidence", "0.9"]])
def test_the_model_is_that_of_memory_in_every_byte(here, hive, tmp_path, monkeypatch, options):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    for out, where in (("memory", []), ("disk", ["--on-disk"])):
        code, _, told = here("fit", hive, *ROLES, *QUICK, *options, *where, "--out", tmp_path / out)
        assert code == 0, told
    assert contents(tmp_path / "memory") == contents(tmp_path / "disk")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_promise_by_default_is_that_of_a_network(here, hive, tmp_path):
    options = [*QUICK, "--hold-out-domains", 0, "--on-disk", "--out", tmp_path / "model"]
    code, _, told = here("fit", hive, *ROLES, *options)
    assert code == 0, told
    assert "labels are scored by a network, since boosting needs the table in memory." in told
    assert load(tmp_path / "model").promise is not None


def test_a_scorer_that_was_asked_for_needs_no_reason(here, hive, tmp_path):
    chosen = ["--method", "erm", "--base", "linear", "--hold-out-domains", 0, "--on-disk", "--out", tmp_path / "model"]
    code, _, told = here("fit", hive, *ROLES, *QUICK, *chosen)
    assert code == 0, told
    assert "Promising" in told
    assert "boosting" not in told


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on-disk", "--base", "boosting"], "--base boosting needs the table in memory; --on-disk goes with mlp"),
        (["--on-disk", "--text-column", "colour"], "--on-disk is for tables"),
    ],
)
def test_options_that_do_not_go_together_are_refused(here, hive, tmp_path, options, said):
    code, _, told = here("fit", hive, *ROLES, *options, "--out", tmp_path / "model")
    assert code == 2
    assert said in told
    assert list(tmp_path.iterdir()) == []


def test_a_csv_file_is_written_as_parquet_first(here, tmp_path):
    patients(300, 5).to_csv(tmp_path / "rows.csv", index=False)
    code, _, told = here("fit", tmp_path / "rows.csv", *ROLES, "--on-disk", "--out", tmp_path / "model")
    assert code == 2
    assert "rows.csv is not Parquet or Arrow, whose rows can stay on disk; write Parquet first." in told


def test_messages_count_rows_as_in_memory(here, tmp_path):
    table = patients(300, 5)
    table.loc[41, "age"] = np.inf
    table.to_parquet(tmp_path / "rows.parquet")
    told = []
    for where in ([], ["--on-disk"]):
        code, _, line = here("fit", tmp_path / "rows.parquet", *ROLES, *QUICK, *where, "--out", tmp_path / "model")
        assert code == 2
        told.append(line.splitlines()[-1])
    assert told[0] == told[1]
    assert "column 'age' holds an infinite value at row 42" in told[0]
