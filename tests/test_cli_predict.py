"""What `predict` writes, `check` prints, and adapted models say, on a small model; the commands run in this process."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from domaincover import TableEncoder, load
from domaincover.report.domain_reports import sizes_in_words
from tests.wards import ROLES, save_promised_regression

LABELS = ["ill, badly", 'so "so"', "well"]


def visits(n_wards=14, seed=0, first=0):
    rng = np.random.default_rng(seed)
    n = 60 * n_wards
    label, ward = rng.integers(3, size=n), np.repeat(np.arange(n_wards), 60)
    X = np.array([[0, 0], [2, 0], [0, 2]])[label] + rng.normal(0, 1.2, (n_wards, 2))[ward] + rng.normal(size=(n, 2))
    return pd.DataFrame(
        {"id": np.arange(n), "a": X[:, 0], "b": X[:, 1], "ward": [f"w{k + first}" for k in ward]}
    ).assign(outcome=np.array(LABELS)[label])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_promised_regression(visits(), ["a", "b"], tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def new(tmp_path):
    visits(3, seed=1, first=50).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def predicted(here, model, table, out, *options):
    status, _, said = here("predict", model, table, "--out", out, *options)
    assert status == 0, said
    return said


# Fitting


def test_a_verbose_fit_prints_epochs_fits_and_why_it_stopped(here, tmp_path):
    visits(6).to_csv(tmp_path / "t.csv", index=False)
    options = [*ROLES, "--hold-out-domains", "0", "--out", tmp_path / "model"]
    status, _, said = here(
        "fit", tmp_path / "t.csv", *options, "--base", "linear", "--method", "erm", "--epochs", "3", "--verbose"
    )
    assert status == 0, said
    assert "ERMClassifier: epoch 2 of 3, loss " in said
    assert "ERMClassifier: trained for 3 epochs" in said
    quiet = here("fit", tmp_path / "t.csv", *options, "--base", "boosting", "--method", "robust")[2]
    assert "HistGradientBoosting" not in quiet
    assert f"Note: {tmp_path / 'model'} holds a model, which this one will replace." in quiet
    loud = here("fit", tmp_path / "t.csv", *options, "--base", "boosting", "--method", "robust", "--verbose")[2]
    assert ": fit 1 of 1, on " in loud


# What predict writes


def test_a_set_is_a_list_that_keeps_labels_with_commas_and_quotes_apart(here, model, new, tmp_path):
    for name in ("sets.csv", "sets.tsv", "sets.parquet"):
        predicted(here, model, new, tmp_path / name)
    sets = load(model).predict_set(pd.read_csv(new)[["a", "b"]])
    expected = [[name for name, held in zip(sorted(LABELS), row, strict=True) if held] for row in sets]
    as_text = pd.read_csv(tmp_path / "sets.csv")
    assert [json.loads(text) for text in as_text["set"]] == expected
    assert as_text["set"].tolist() == pd.read_csv(tmp_path / "sets.tsv", sep="\t")["set"].tolist()
    assert [list(held) for held in pd.read_parquet(tmp_path / "sets.parquet")["set"]] == expected


def test_the_closing_line_counts_sets_by_size(here, model, new, tmp_path):
    said = predicted(here, model, new, tmp_path / "sets.parquet").splitlines()
    sizes = np.bincount(pd.read_parquet(tmp_path / "sets.parquet")["set_size"])
    assert said[:2] == [f"180 sets are in {tmp_path / 'sets.parquet'}.", sizes_in_words(sizes)]


def test_top_and_scores_are_the_models(here, model, new, tmp_path):
    predicted(here, model, new, tmp_path / "s.parquet", "--top", "--scores", "--id", "id")
    written, fitted, X = pd.read_parquet(tmp_path / "s.parquet"), load(model), pd.read_csv(new)[["a", "b"]]
    assert written["top"].tolist() == fitted.predict(X).tolist()
    scores = written[[f"score[{name}]" for name in fitted.classes_]].to_numpy()
    np.testing.assert_allclose(scores, fitted.label_scores(X))
    assert ((scores >= fitted.thresholds_) == fitted.predict_set(X)).all()


@pytest.mark.parametrize("options", [[], ["--domain", "ward"], ["--top", "--scores", "--id", "id"]])
def test_an_empty_table_gives_an_empty_result_with_the_same_columns(here, model, new, tmp_path, options):
    pd.read_csv(new)[:0].to_csv(tmp_path / "none.csv", index=False)
    said = predicted(here, model, tmp_path / "none.csv", tmp_path / "none.parquet", *options)
    predicted(here, model, new, tmp_path / "some.parquet", *options)
    none, some = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("none", "some"))
    assert len(none) == 0
    assert none.columns.tolist() == some.columns.tolist()
    assert "none.parquet.\nThe table has no rows.\n" in said


def test_standard_input_and_output_take_the_place_of_files(here, model, new, tmp_path, monkeypatch):
    predicted(here, model, new, tmp_path / "sets.csv")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(new.read_bytes()), encoding="utf-8"))
    status, printed, said = here("predict", model, "-", "--out", "-")
    assert (status, printed) == (0, (tmp_path / "sets.csv").read_text(encoding="utf-8"))
    assert "180 sets are on standard output" in said


# Adapted models


@pytest.fixture(scope="module")
def ward_50(tmp_path_factory):
    table = visits(3, seed=1, first=50)
    path = tmp_path_factory.mktemp("ward") / "w50.csv"
    table[table["ward"] == "w50"].to_csv(path, index=False)
    return path


@pytest.fixture
def adapted(here, model, ward_50, tmp_path):
    status, _, said = here("adapt", model, ward_50, "--out", tmp_path / "adapted")
    assert status == 0, said
    return tmp_path / "adapted"


def test_an_adapted_model_says_if_rows_are_of_other_domains(here, adapted, new, ward_50, tmp_path):
    line = "The model is adapted to domain w50, and the table has rows of other domains: w51, w52."
    assert line in predicted(here, adapted, new, tmp_path / "s.csv")
    assert line in here("evaluate", adapted, new)[1]
    assert "adapted to" not in predicted(here, adapted, ward_50, tmp_path / "s.csv")
    assert "The model is adapted" not in here("evaluate", adapted, ward_50)[1]


def test_the_report_of_an_adapted_model_is_called_adapted(here, adapted, ward_50):
    assert json.loads(here("evaluate", adapted, ward_50, "--format", "json")[1])["thresholds"] == "adapted"


def test_a_report_on_several_domains_by_an_adapted_model_warns(model):
    table = visits(3, seed=1, first=50)
    own = table[table["ward"] == "w50"]
    fitted = load(model).adapt(own[["a", "b"]])
    with pytest.warns(UserWarning, match="adapted to one domain, and these are rows of 3"):
        fitted.domain_report(table[["a", "b"]], table["outcome"], table["ward"])


# Checking


def test_check_prints_findings_and_the_fit_that_follows_from_them(here, tmp_path):
    visits().assign(copy=lambda t: t["outcome"].str.upper()).to_csv(tmp_path / "t.csv", index=False)
    status, printed, said = here("check", tmp_path / "t.csv", *ROLES)
    assert status == 0
    assert "copy gives outcome away" in printed
    assert "--drop id --drop copy" in said or "--drop copy --drop id" in said
    assert said.splitlines()[-1].startswith("Next: domaincover fit")


@pytest.fixture(scope="module")
def unscaled(tmp_path_factory):
    """A model whose classifier is given missing values, which it rejects."""
    folder = tmp_path_factory.mktemp("models") / "unscaled"
    return save_promised_regression(visits(), ["a", "b"], folder, scale=False)


@pytest.mark.parametrize("command", ["predict", "evaluate", "adapt"])
def test_rows_that_a_classifier_rejects_are_not_blamed_on_the_model(unscaled, tmp_path, refused, command):
    visits(1).assign(a=np.nan).to_csv(tmp_path / "new.csv", index=False)
    options = [*ROLES] if command == "evaluate" else ["--out", tmp_path / "out.csv"]
    message = "unscaled cannot predict these rows (ValueError: Input X contains NaN. LogisticRegression does not accept"
    refused(message, command, unscaled, tmp_path / "new.csv", *options)


@pytest.mark.parametrize("fault", [ValueError, IndexError])
def test_a_fault_of_our_own_while_scoring_keeps_its_traceback(here, model, new, tmp_path, monkeypatch, fault):
    def encode(*_):
        raise fault("of our own")

    monkeypatch.setattr(TableEncoder, "encode", encode)
    with pytest.raises(fault, match="of our own"):
        here("predict", model, new, "--out", tmp_path / "out.csv")
