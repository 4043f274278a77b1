"""New tables beside the training rows: a note for the worst column, rows seen before, and --strict."""

import json

import numpy as np
import pandas as pd
import pytest


def patients(n_wards=12, n_rows=60, first=0):
    rng = np.random.default_rng(first)
    ward = np.repeat(np.arange(n_wards), n_rows) + first
    ill = rng.integers(2, size=len(ward))
    sex = rng.choice(["f", "m"], len(ward))
    return pd.DataFrame(
        {"dose": rng.normal(10 + ill, 2), "sex": sex, "outcome": np.where(ill, "ill", "well"), "ward": ward}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("input-checks")


@pytest.fixture
def fitted(folder, here):
    """The folder of a model, fitted once."""
    if not (folder / "model").exists():
        patients().to_csv(folder / "train.csv", index=False)
        options = ["--method", "erm", "--base", "linear", "--epochs", "1", "--hold-out-domains", "0"]
        roles = ["--label", "outcome", "--domain", "ward"]
        for name, more in {"model": [], "private": ["--no-fingerprints"]}.items():
            code, _, told = here("fit", folder / "train.csv", *roles, *options, *more, "--out", folder / name)
            assert code == 0, told
    return folder


@pytest.fixture
def table(tmp_path):
    def write(**changes):
        patients(6, first=100).assign(**changes).to_csv(tmp_path / "new.csv", index=False)
        return tmp_path / "new.csv"

    return write


def commands(fitted, table, out):
    return {
        "predict": ["predict", fitted / "model", table, "--out", out],
        "evaluate": ["evaluate", fitted / "model", table],
    }


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_an_empty_column_is_told_in_a_line_and_refused_if_strict(fitted, table, tmp_path, here, command):
    new = table(dose=np.nan)
    code, _, told = here(*commands(fitted, new, tmp_path / "sets.csv")[command])
    assert code == 0
    assert "Note: column 'dose' is missing in 100 % of the rows.\n" in told
    code, _, told = here(*commands(fitted, new, tmp_path / "strict.csv")[command], "--strict")
    assert code == 2
    assert told.endswith("new.csv is unlike the training rows: column 'dose' is missing in 100 % of the rows.\n")
    assert not (tmp_path / "strict.csv").exists()


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_clean_new_wards_pass(fitted, table, tmp_path, here, command):
    code, _, told = here(*commands(fitted, table(), tmp_path / "sets.csv")[command], "--strict")
    assert code == 0
    assert "column" not in told
    assert "were in training" not in told


def test_rows_of_training_are_told_unless_fingerprints_are_left_out(fitted, here, tmp_path):
    code, _, told = here("predict", fitted / "model", fitted / "train.csv", "--out", tmp_path / "sets.csv")
    assert code == 0
    assert "720 of 720 rows were in training" in told
    code, _, told = here("predict", fitted / "private", fitted / "train.csv", "--out", tmp_path / "sets.csv")
    assert code == 0
    assert "were in training" not in told


def test_check_lists_all_that_differs_from_a_models_training(fitted, table, here):
    new = table(dose=10_000.0, sex="x")
    code, printed, _ = here("check", new, "--model", fitted / "model")
    assert code == 0
    lines = printed.splitlines()
    assert {line.split("'")[1] for line in lines} == {"dose", "sex"}
    code, printed, _ = here("check", new, "--model", fitted / "model", "--format", "json")
    found = json.loads(printed)
    assert [each["domain"] for each in found["differences"]] == ["all domains"] * 2
    code, printed, _ = here("check", table(), "--model", fitted / "model")
    assert printed == "No column differs from training more than its own domains do.\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [([], "give --label and --domain, or a model"), (["--model", "x", "--label", "outcome"], "leave out --label")],
)
def test_check_says_what_it_takes(table, here, options, message):
    code, _, told = here("check", table(), *options)
    assert code == 2
    assert message in told
    assert told.count("\n") == 1
