"""Labels of a new domain on the command line: what they gain, which rows to label, and what is learned from them."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from domaincover import ERMClassifier, PromisedSetClassifier, load, save
from domaincover.cli.adapt import ROW
from tests.wards import EXTRA, FEATURES, LABELS, ROLES, patients, written


def visits(n_rows, n_wards, seed=0, first_ward=1):
    """Return patients of wards that move each outcome's numbers its own way, which only labels tell."""
    table = patients(n_rows, n_wards, seed, first_ward)
    ward = table["ward"].str.removeprefix("ward ").astype(int) - first_ward
    outcome = table["outcome"].map(LABELS.index)
    for name, moved in zip(
        ("age", "pressure"), np.random.default_rng(seed).normal(0, 12, (2, n_wards, 3)), strict=True
    ):
        table[name] += moved[ward, outcome]
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that learns from labels, fitted to patients of 25 wards."""
    table, path = visits(6000, 25), tmp_path_factory.mktemp("labels") / "model"
    scorer = ERMClassifier(epochs=5, network="linear", random_state=0)
    model = PromisedSetClassifier(scorer, folds=2, few_labels=(60,), random_state=0)
    save(model.fit(table[FEATURES], table["outcome"], domains=table["ward"]), path, extra=EXTRA)
    return path


@pytest.fixture
def ward(tmp_path):
    return written(visits(300, 1, seed=5, first_ward=77), tmp_path / "ward-77.csv")


def chosen(folder, ward, tmp_path, here, n_rows=60):
    """Return the file of rows to label, labelled, and what was said."""
    path = tmp_path / "to-label.csv"
    code, printed, told = here("adapt", folder, ward, "--choose", n_rows, "--out", path)
    assert (code, printed) == (0, ""), told
    return path, told


def test_fit_says_what_labels_gain_and_its_page_draws_it(tmp_path, here):
    table = written(visits(6000, 25).drop(columns=["visit", "admitted", "smoker"]), tmp_path / "visits.csv")
    quick = ["--method", "erm", "--base", "linear", "--epochs", "5"]
    told = here("fit", table, *ROLES, *quick, "--out", tmp_path / "model", "--html", tmp_path / "fit.html")[2]
    (line,) = [line for line in told.splitlines() if line.startswith("Labels per set")]
    gain = load(tmp_path / "model").label_gain["set_size"]
    assert line.startswith(
        f"Labels per set, in domains treated as new: {gain[0]:.2f} without labels, {gain.iloc[1]:.2f} "
    )
    assert f"{gain.iloc[1]:.2f} with {gain.index[1]} labels of a new ward" in line
    assert "What labels of a domain gain" in (tmp_path / "fit.html").read_text()


def test_rows_are_chosen_labelled_and_learned_from(folder, ward, tmp_path, here):
    path, told = chosen(folder, ward, tmp_path, here)
    assert "60 rows to label, in order, are in" in told
    table, to_label = pd.read_csv(ward), pd.read_csv(path)
    model = load(folder)
    places = model.choose_rows(table[FEATURES], 60)
    assert (to_label[ROW] == places + 1).all()
    assert to_label["visit"].tolist() == table["visit"].iloc[places].tolist()
    code, printed, told = here("adapt", folder, path, "--label", "outcome", "--rows", ward, "--out", tmp_path / "own")
    assert code == 0, told
    order = np.r_[places, np.delete(np.arange(300), places)]  # those with labels first, none twice
    known = table["outcome"].iloc[order].where(np.arange(300) < 60, None)
    expected = model.adapt(table[FEATURES].iloc[order], known)
    adapted = load(tmp_path / "own")
    assert np.array_equal(adapted.label_scores(table[FEATURES]), expected.label_scores(table[FEATURES]))
    assert adapted.adapted_ == expected.adapted_
    size, before = expected.adapted_["set_size"], expected.adapted_["set_size_before"]
    assert printed.splitlines()[0] == (
        f"The scorer has learned from the labels of 60 of 300 rows, with {size:.2f} labels per set in the others "
        f"instead of {before:.2f}."
    )
    assert here("predict", tmp_path / "own", ward, "--out", tmp_path / "sets.parquet")[0] == 0
    sets = pd.read_parquet(tmp_path / "sets.parquet")
    assert sets.filter(like="in_set").to_numpy().sum() == adapted.predict_set(table[FEATURES]).sum()


def test_labels_without_further_rows_are_learned_from(folder, ward, tmp_path, here):
    path, _ = chosen(folder, ward, tmp_path, here)
    assert here("adapt", folder, path, "--label", "outcome", "--out", tmp_path / "own")[0] == 0
    assert load(tmp_path / "own").adapted_["labels"] == 60


def test_evaluate_says_what_labels_would_have_done(folder, tmp_path, here):
    new = visits(2400, 8, seed=1, first_ward=100)
    path = written(new, tmp_path / "new.csv")
    code, printed, told = here("evaluate", folder, path, "--few-labels", "60,20", "--html", tmp_path / "page.html")
    assert code == 0, told
    lines = [line for line in printed.splitlines() if "labels of each domain" in line]
    medians = [float(re.search(r"([\d.]+) labels per set", line)[1]) for line in lines]
    assert [line.split(":")[0] for line in lines] == [f"With {n} labels of each domain" for n in (0, 20, 60)]
    assert medians[2] < medians[0]
    assert "What labels of a domain gain" in (tmp_path / "page.html").read_text()
    records = json.loads(here("evaluate", folder, path, "--few-labels", "60", "--format", "json")[1])["few_labels"]
    assert [record["labels"] for record in records] == [0, 60]
    assert records[1]["set_size"] == pytest.approx(medians[2], abs=0.005)


def test_what_cannot_be_is_refused(folder, ward, tmp_path, refused, here):
    path, _ = chosen(folder, ward, tmp_path, here, 30)
    own = ["--out", tmp_path / "own"]
    refused("--rows are beside rows with labels", "adapt", folder, path, "--rows", ward, *own)
    refused("--label and --rows come afterwards", "adapt", folder, ward, "--choose", 9, "--label", "outcome", *own)
    refused("a name that ends in .csv", "adapt", folder, ward, "--choose", 9, *own)
    refused("--out would overwrite the input table", "adapt", folder, ward, "--choose", 9, "--out", ward)
    refused("--few-labels takes numbers such as 30,100, got 'many'", "evaluate", folder, ward, "--few-labels", "many")
    other = written(patients(50, 1, seed=2, first_ward=8), tmp_path / "other.csv")
    refused("of different domains: ward 77, ward 8", "adapt", folder, path, "--label", "outcome", "--rows", other, *own)
    short = written(pd.read_csv(ward).head(20), tmp_path / "short.csv")
    wrong = f"column {ROW!r} of {path} does not number rows of --rows, which has 20"
    refused(wrong, "adapt", folder, path, "--label", "outcome", "--rows", short, *own)
