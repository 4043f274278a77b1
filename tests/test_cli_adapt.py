"""Thresholds that adapt to a domain: `predict --domain`, `adapt`, `evaluate`, `certify`, and the default of `fit`."""

import json

import numpy as np
import pandas as pd
import pytest

from domaincover import PromisedSetClassifier, load
from domaincover.data import tables
from domaincover.report.domain_reports import sizes_in_words
from domaincover.saving.models import load_extra
from tests.wards import EXTRA, FEATURES, LABELS, ROLES, arrivals, patients, written

FLAGS = [f"in_set[{label}]" for label in LABELS]
FIXED = "Thresholds are fixed. With --domain COLUMN each domain's rows set its own: same promise, often smaller sets."


@pytest.fixture
def model(promised_model):
    return promised_model


@pytest.fixture
def unpromised(unpromised_model):
    return unpromised_model


def grouped():
    return arrivals().sort_values("ward", kind="stable", ignore_index=True)


def sets_in(path):
    return pd.read_csv(path)[FLAGS].to_numpy(dtype=bool)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 90)


# Predict


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("table", [arrivals, grouped])
def test_predict_by_domain_gives_the_sets_of_python(model, promised, tmp_path, here, small_blocks, table, ending):  # noqa: ARG001
    new = table()
    path = written(new, tmp_path / f"new.{ending}")
    out = tmp_path / "sets.csv"
    code, printed, _ = here("predict", model, path, "--domain", "ward", "--id", "visit", "--out", out)
    assert (code, printed) == (0, "")
    assert pd.read_csv(out)["visit"].tolist() == new["visit"].tolist()
    expected = promised.predict_set(new[FEATURES], domains=new["ward"])
    assert np.array_equal(sets_in(out), expected)
    assert expected.sum() < promised.predict_set(new[FEATURES]).sum()


def test_without_domains_thresholds_are_fixed_and_the_option_is_named(model, unpromised, promised, tmp_path, here):
    new = arrivals()
    path, out = written(new, tmp_path / "new.csv"), tmp_path / "sets.csv"
    told = here("predict", model, path, "--out", out)[2].splitlines()
    assert told[0] == f"1,600 sets are in {out}."
    assert told[1:] == [sizes_in_words(np.bincount(promised.predict_set(new[FEATURES]).sum(axis=1))), FIXED]
    assert np.array_equal(sets_in(out), promised.predict_set(new[FEATURES]))
    assert FIXED not in here("predict", unpromised, path, "--out", out)[2]


def test_unusual_domains_are_named_with_what_chance_would_give(model, promised, tmp_path, here):
    strange = arrivals()
    strange.loc[strange["ward"] == "ward 103", ["age", "pressure"]] += 200
    path = written(strange, tmp_path / "new.csv")
    p_values = promised.familiarity(strange[FEATURES], strange["ward"])
    assert p_values["ward 103"] == p_values.min() <= 0.05
    for command, where in ((["predict", "--out", tmp_path / "sets.csv"], 2), (["evaluate"], 1), (["certify"], 2)):
        name, *options = command
        told = here(name, model, path, "--domain", "ward", *options)[where]
        (line,) = [line for line in told.splitlines() if "unlike those that calibrated" in line]
        assert f"of 8 domains {'is' if (p_values <= 0.05).sum() == 1 else 'are'} unlike" in line
        assert "(p ≤ 0.05; 5 % are so by chance): ward 103 (p = 0.038)" in line


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--domain": "wrad"}, "has no column 'wrad' (--domain); did you mean 'ward'?"),
        ({"ward": None}, "column 'ward' (--domain) is empty in 3 of 1,600 rows, first in row 6"),
    ],
)
def test_domains_that_cannot_be_read_are_refused(model, tmp_path, refused, changed, message):
    new = arrivals()
    if "ward" in changed:
        new.loc[5:7, "ward"] = None
    path = written(new, tmp_path / "new.csv")
    domain = changed.get("--domain", "ward")
    refused(message, "predict", model, path, "--domain", domain, "--out", tmp_path / "sets.csv")


def test_a_model_that_cannot_adapt_refuses_to(unpromised, model, tmp_path, refused, here):
    path = written(arrivals(), tmp_path / "new.csv")
    ward = written(grouped().head(100), tmp_path / "ward.csv")
    assert here("adapt", model, ward, "--out", tmp_path / "adapted")[0] == 0
    for folder, message in (
        (unpromised, "cannot adapt to domains; predict without --domain. A promise takes nine domains or more"),
        (tmp_path / "adapted", "the model is adapted to one domain already; use the model that it came from."),
    ):
        refused(message, "predict", folder, path, "--domain", "ward", "--out", tmp_path / "sets.csv")
        refused(message, "evaluate", folder, path, "--thresholds", "adapted")
        refused(message, "adapt", folder, ward, "--out", tmp_path / "again")


def test_small_and_strange_domains_are_predicted(model, promised, tmp_path, here):
    """One row, rows without values, the same row many times, colours never seen."""
    new = arrivals().head(300).assign(ward="usual")
    new.loc[0, "ward"] = "one row"
    new.loc[1:60, "ward"] = "empty rows"
    new.loc[1:60, FEATURES] = None
    new.loc[61:120, "ward"] = "same"
    new.loc[61:120, FEATURES] = new.loc[[200] * 60, FEATURES].to_numpy()
    new.loc[121:180, "ward"] = "mauve"
    new.loc[121:180, "colour"] = "mauve"
    path = written(new, tmp_path / "new.csv")
    code, _, told = here("predict", model, path, "--domain", "ward", "--out", tmp_path / "sets.csv")
    assert code == 0, told
    typed = new[FEATURES].astype({"age": float, "pressure": float})
    assert np.array_equal(sets_in(tmp_path / "sets.csv"), promised.predict_set(typed, domains=new["ward"]))
    assert np.array_equal(sets_in(tmp_path / "sets.csv")[0], promised.predict_set(typed.head(1))[0])


# Adapt


@pytest.fixture
def ward(tmp_path):
    table = grouped()
    return written(table[table["ward"] == "ward 101"], tmp_path / "ward.csv")


def test_adapt_writes_the_model_that_python_adapts(model, promised, ward, tmp_path, here):
    table = pd.read_csv(ward)
    code, printed, told = here("adapt", model, ward, "--out", tmp_path / "ward")
    adapted, expected = load(tmp_path / "ward"), promised.adapt(table[FEATURES])
    where = tmp_path / "ward"
    told_next = f"The model is in {where}. Next: domaincover predict {where} TABLE --out sets.parquet\n"
    assert (code, told) == (0, told_next)
    assert np.array_equal(adapted.thresholds_, expected.thresholds_)
    shift = expected.thresholds_ - promised.thresholds_
    by_label = ", ".join(f"{name} {moved:+.2f}" for name, moved in zip(LABELS, shift, strict=True))
    assert printed.splitlines() == [
        f"Thresholds set by {len(table)} rows.",
        f"p-value of the domain: {expected.adapted_['p_value']:.2g}.",
        f"Thresholds moved by {shift.mean():+.2f} on average (log-odds): {by_label}.",
    ]
    name = table["ward"].iloc[0]
    assert load_extra(tmp_path / "ward") == {**EXTRA, "settings": {**EXTRA["settings"], "adapted_to": name}}


def test_labels_that_nothing_is_learned_from_are_told_and_leave_the_thresholds(model, promised, ward, tmp_path, here):
    table = pd.read_csv(ward)
    table.loc[table.index >= 20, "outcome"] = None
    some = written(table, tmp_path / "some.csv")
    told = here("adapt", model, some, "--label", "outcome", "--out", tmp_path / "ward")[2]
    assert np.array_equal(load(tmp_path / "ward").thresholds_, promised.adapt(table[FEATURES]).thresholds_)
    assert "20 rows are labelled, which changes nothing" in told


def test_an_adapted_model_predicts_evaluates_and_certifies(model, ward, tmp_path, here):
    assert here("adapt", model, ward, "--out", tmp_path / "ward")[0] == 0
    adapted = load(tmp_path / "ward")
    new = arrivals()
    path = written(new, tmp_path / "new.csv")
    told = here("predict", tmp_path / "ward", path, "--out", tmp_path / "sets.csv")[2].splitlines()
    assert len(told) == 3
    assert told[2].startswith("Note: The model is adapted to domain")
    assert np.array_equal(sets_in(tmp_path / "sets.csv"), adapted.predict_set(new[FEATURES]))
    for command in ("evaluate", "certify"):
        code, printed, _ = here(command, tmp_path / "ward", path, "--format", "json")
        assert code == 0
        assert json.loads(printed)["thresholds"] == "adapted"


@pytest.mark.parametrize("n_rows", [1, 20])
def test_a_handful_of_rows_leaves_the_thresholds_where_they_are(model, ward, tmp_path, here, n_rows):
    few = written(pd.read_csv(ward).head(n_rows), tmp_path / "few.csv")
    code, printed, _ = here("adapt", model, few, "--out", tmp_path / "ward")
    assert code == 0
    rows = "1 row" if n_rows == 1 else "20 rows"
    assert printed.splitlines() == [
        f"Thresholds are the fixed ones: {rows} did not move them (it takes 30 rows or more).",
        "No p-value of the domain: the rows are too few to compare it with those that calibrated.",
    ]
    assert np.array_equal(load(tmp_path / "ward").thresholds_, load(model).thresholds_)


def test_one_label_empty_rows_and_equal_rows_can_be_adapted_to(model, ward, tmp_path, here):
    table = pd.read_csv(ward)
    ill = table[table["outcome"] == "ill"]
    for name, rows in (
        ("ill", ill),
        ("empty", table.assign(age=np.nan, pressure=np.nan, colour=np.nan)),
        ("equal", table.iloc[[0] * 100]),
        ("mauve", table.assign(colour="mauve")),
    ):
        path = written(rows, tmp_path / f"{name}.csv")
        code, printed, told = here("adapt", model, path, "--label", "outcome", "--out", tmp_path / name)
        assert code == 0, told
        assert printed.startswith((f"Thresholds set by {len(rows)} rows.", "The scorer has learned"))
        assert np.isfinite(load(tmp_path / name).thresholds_).all()


def test_what_cannot_be_adapted_to_is_refused(model, ward, tmp_path, refused):
    table = pd.read_csv(ward)
    out = ["--out", tmp_path / "adapted"]
    empty = written(table.head(0), tmp_path / "empty.csv")
    refused("has columns but no rows", "adapt", model, empty, *out)
    two = written(arrivals(), tmp_path / "two.csv")
    refused("has rows of 8 domains (column 'ward'): ward 10", "adapt", model, two, *out)
    unknown = written(table.assign(outcome="dead"), tmp_path / "unknown.csv")
    refused("column 'outcome' (--label) holds 'dead' in row 1, a label that", "adapt", model, unknown, *ROLES[:2], *out)
    refused(
        "has no column 'outcom' (--label); did you mean 'outcome'?", "adapt", model, ward, "--label", "outcom", *out
    )
    refused("has no column 'pressure'", "adapt", model, written(table[["age", "ward"]], tmp_path / "thin.csv"), *out)
    refused("--out would overwrite the model", "adapt", model, ward, "--out", model)
    refused("does not exist", "adapt", tmp_path / "none", ward, *out)


# Evaluate and certify


def test_evaluation_has_both_ways_and_what_moved(model, promised, tmp_path, here):
    new = arrivals()
    path = written(new, tmp_path / "new.csv")
    found = {}
    for kind in ("adapted", "fixed"):
        code, printed, _ = here("evaluate", model, path, "--format", "json", "--thresholds", kind)
        assert code == 0
        found[kind] = json.loads(printed)
        assert found[kind]["thresholds"] == kind
        assert found[kind]["summary"] == found[kind][kind]
        report = promised.domain_report(new[FEATURES], new["outcome"], new["ward"], min_cell_size=20, thresholds=kind)
        assert found[kind]["summary"] == report.summary(0.9).to_dict()
    assert found["adapted"]["fixed"] == found["fixed"]["fixed"]
    assert json.loads(here("evaluate", model, path, "--format", "json")[1]) == found["adapted"]
    p_values = promised.familiarity(new[FEATURES], new["ward"])
    shifts = promised.domain_thresholds(new[FEATURES], new["ward"]) - promised.thresholds_
    for record in found["adapted"]["domains"]:
        own = shifts.loc[record["domain"]]
        assert record["p_value"] == p_values[record["domain"]]
        assert record["threshold_shift"] == pytest.approx(own.mean())
        assert record["threshold_shift_by_label"] == own.to_dict()


def test_a_model_without_adaptive_thresholds_is_evaluated_with_fixed_ones(unpromised, tmp_path, here):
    path = written(arrivals(), tmp_path / "new.csv")
    found = json.loads(here("evaluate", unpromised, path, "--format", "json")[1])
    assert (found["thresholds"], found["adapted"], found["fixed"]) == ("fixed", None, found["summary"])
    assert "p_value" not in found["domains"][0]


def test_domains_with_few_rows_are_said_to_have_the_fixed_thresholds(model, tmp_path, here):
    new = grouped()
    few = written(new.groupby("ward").head(25), tmp_path / "few.csv")
    told = here("predict", model, few, "--domain", "ward", "--out", tmp_path / "few-sets.csv")[2]
    assert "; 8 with too few rows, or rows that say too little, have the fixed ones." in told
    here("predict", model, few, "--out", tmp_path / "fixed-sets.csv")
    assert (tmp_path / "few-sets.csv").read_bytes() == (tmp_path / "fixed-sets.csv").read_bytes()
    one = written(pd.concat([new, new.head(10).assign(ward="small")]), tmp_path / "one.csv")
    told = here("predict", model, one, "--domain", "ward", "--out", tmp_path / "sets.csv")[2]
    assert "8 domains set their own thresholds, 1 with too few rows" in told
    found = json.loads(here("evaluate", model, few, "--format", "json")[1])
    assert (found["thresholds"], found["adapted"], found["summary"]) == ("fixed", None, found["fixed"])
    assert {record["p_value"] for record in found["domains"]} == {None}
    code, printed, told = here("certify", model, few, "--html", tmp_path / "page.html")
    assert (code, "with fixed thresholds" in printed) == (0, True)
    assert "Thresholds are the fixed ones in every domain" in told
    assert here("evaluate", model, few, "--html", tmp_path / "page.html")[0] == 0


def test_text_and_page_show_both_ways(model, tmp_path, here):
    path = written(arrivals(), tmp_path / "new.csv")
    code, printed, _ = here("evaluate", model, path, "--html", tmp_path / "page.html")
    assert code == 0
    names = [line.split("  ")[0] for line in printed.split("\n\n")[1].splitlines()[2:4]]
    assert names == ["ERM, promised, adapted", "ERM, promised, fixed"]
    page = (tmp_path / "page.html").read_text()
    for shown in (*names, "p-value", "Thresholds moved by"):
        assert shown in page


def test_certify_is_about_the_thresholds_asked_for(model, promised, tmp_path, here):
    new = patients(1600, 8, seed=3, first_ward=22)  # wards 22 to 25 calibrated
    path = written(new, tmp_path / "new.csv")
    is_new = ~new["ward"].isin(promised.domains_)
    unseen = new[is_new]
    for kind in ("adapted", "fixed"):
        options = ["--unseen-only", "--format", "json", "--thresholds", kind, "--html", tmp_path / "page.html"]
        code, printed, told = here("certify", model, path, *options)
        assert code == 0, told
        found = json.loads(printed)
        inputs = unseen[FEATURES], unseen["outcome"], unseen["ward"]
        report = promised.domain_report(*inputs, min_cell_size=20, thresholds=kind)
        assert found["thresholds"] == kind
        assert found["domains"]["n_domains"] == 4
        assert found[kind] == report.summary(0.9).to_dict()
        said = {"adapted": "with thresholds adapted to the rows of each domain", "fixed": "with fixed thresholds"}
        assert said[kind] in (tmp_path / "page.html").read_text()
        said = here("certify", model, path, "--unseen-only", "--thresholds", kind)[1]
        line = {"adapted": "with thresholds adapted to the rows of each domain", "fixed": "with fixed thresholds"}[kind]
        assert line in " ".join(said.split())


# Fit


def test_a_promise_is_the_default_only_where_there_are_enough_domains(tmp_path, here):
    options = [*ROLES, "--base", "linear", "--epochs", "1", "--hold-out-domains", "0.1", "--no-final-fit"]
    for n_wards, n_rows, line in (
        (11, 1200, "Promising that all labels of a new domain are at target with probability 0.9"),
        (
            9,
            1000,
            "The sets only aim at the target in new domains: a promise with probability 0.9 takes 9 domains with ",
        ),
        (11, 300, "20 or more rows of a label (--min-cell-size), and there are 0 beside the 1 held out to evaluate."),
    ):
        path = written(patients(n_rows, n_wards), tmp_path / "train.csv")
        code, _, told = here("fit", path, *options, "--method", "erm", "--out", tmp_path / "model")
        assert code == 0, told
        assert line in told
        assert (load(tmp_path / "model").promise is not None) == line.startswith("Promising")


@pytest.mark.parametrize("asked", [["--domain-confidence", "none"], ["--method", "robust"]])
def test_no_promise_is_made_where_none_is_asked_or_the_method_has_none(tmp_path, here, asked):
    path = written(patients(1200, 11), tmp_path / "train.csv")
    options = [*ROLES, "--base", "linear", "--epochs", "1", "--hold-out-domains", "0"]
    code, _, told = here("fit", path, *options, *asked, "--out", tmp_path / "model")
    assert code == 0, told
    assert "Promis" not in told
    assert "only aim" not in told
    assert not isinstance(load(tmp_path / "model"), PromisedSetClassifier)
