"""A number to predict on the command line: intervals from a fit to a certificate, and what is only for sets."""

import json

import numpy as np
import pandas as pd
import pytest

from domaincover import PromisedIntervalRegressor, assess, load
from domaincover.data.dataset import n_held_out


def pupils(seed=0, n_schools=40, first=0):
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(first, first + n_schools), 60)
    effect = rng.normal(size=n_schools)[school - first]
    ses = rng.normal(size=len(school))
    score = 10 + 2 * ses + 2 * effect + rng.normal(size=len(school))
    return pd.DataFrame({"ses": ses, "kind": np.where(ses > 0, "a", "b"), "score": score, "school": school})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("pupils") / "pupils.csv"
    pupils().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def folder(table):
    from domaincover.cli.app import app

    out = table.parent / "model"
    arguments = ["fit", str(table), "--target", "score", "--domain", "school", "--no-final-fit", "--out", str(out)]
    app(arguments, standalone_mode=False)
    return out


def test_intervals_from_a_fit_to_a_certificate(here, table, folder, tmp_path):
    assert isinstance(load(folder), PromisedIntervalRegressor)
    out = tmp_path / "intervals.parquet"
    assert here("predict", folder, table, "--id", "school", "--out", out)[0] == 0
    found, model = pd.read_parquet(out), load(folder)
    expected = model.predict_interval(pupils()[["ses", "kind"]])
    assert np.allclose(found[["low", "high"]], expected)
    assert np.allclose(found["width"], expected[:, 1] - expected[:, 0])
    new = tmp_path / "new.csv"
    pupils(1, 12, 100).to_csv(new, index=False)
    judged = json.loads(here("evaluate", folder, new, "--format", "json")[1])
    assert judged["verdict"]["domains"] == 12
    assert judged["summary"]["share_at_target"] >= 0.5  # promised 0.9: below it once in 30,000 draws
    assert [each["domain"] for each in judged["domains"]] == [str(k) for k in range(100, 112)]
    printed = here("evaluate", folder, new)[1]
    assert printed.startswith("Promised 0.9, seen ")
    assert "Intervals are " in printed
    assert "12 new domains" in here("certify", folder, new)[1].replace("\n", " ")


def test_known_values_of_a_school_move_its_intervals(here, folder, tmp_path):
    one = pupils(2, 1, 200)
    partly = one.assign(score=one["score"].where(np.arange(60) < 30))
    partly.to_csv(tmp_path / "school.csv", index=False)
    code, said, _ = here("adapt", folder, tmp_path / "school.csv", "--label", "score", "--out", tmp_path / "adapted")
    assert (code, said) == (0, "Intervals have learned from 30 known values of one domain.\n")
    adapted = load(folder).adapt(partly[["ses", "kind"]], partly["score"])
    again = load(tmp_path / "adapted").predict_interval(one[["ses", "kind"]])
    assert np.allclose(again, adapted.predict_interval(one[["ses", "kind"]]))


def test_what_is_printed_is_what_assess_says():
    rows = pupils()
    from sklearn.linear_model import LinearRegression

    model = PromisedIntervalRegressor(LinearRegression(), random_state=0)
    found = assess(model, rows[["ses"]], rows["score"], rows["school"], random_state=0)
    assert len(found.unseen.domain_names) == n_held_out(40, 0.25)
    assert not set(found.unseen.domain_names) & set(found.model.domains_.tolist())
    assert str(found).startswith(str(found.verdict))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "kind"], "column 'kind' (--target): holds "),
        (["--target", "nowhere"], "nowhere"),
        (["--target", "score", "--label", "kind"], "--label is for sets, and fit --target makes intervals"),
        (["--target", "score", "--base", "boosting"], "--base is for sets"),
        (["--target", "score", "--calibration", "jackknife-minmax"], "not by jackknife-minmax"),
        (["--target", "score", "--domain-confidence", "none"], "intervals promise the coverage of new domains"),
    ],
)
def test_what_is_not_for_intervals_is_refused(refused, table, tmp_path, options, said):
    refused(said, "fit", table, "--domain", "school", *options, "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_options_of_sets_are_refused_for_intervals(refused, table, folder, tmp_path):
    refused("--top is for sets", "predict", folder, table, "--top", "--out", tmp_path / "i.csv")
    refused("--by is for sets", "evaluate", folder, table, "--by", "kind")
    refused("were seen in training", "certify", folder, table)
    refused("several domains", "adapt", folder, table, "--label", "score", "--out", tmp_path / "one")
    refused("--target for a number", "fit", table, "--label", "score", "--domain", "school", "--out", tmp_path / "m")
