"""`fit --criterion` and targets by label, and what `evaluate` and `certify` make of them."""

import json

import numpy as np
import pandas as pd
import pytest

from domaincover import load
from domaincover.saving.models import load_extra
from tests.wards import ROLES, patients, written

TARGETS = ["--target-recall", "ill=0.9", "--target-recall", "well=0.6"]
COVERAGE = ["--criterion", "coverage", "--target-recall", "0.8"]
BASE = [*ROLES, "--base", "linear", "--hold-out-domains", "0"]


@pytest.fixture
def train(tmp_path):
    return written(patients(1500, 12), tmp_path / "train.csv")


@pytest.fixture
def new(tmp_path):
    return written(patients(1500, 10, seed=1, first_ward=100), tmp_path / "new.csv")


@pytest.mark.parametrize("method", [["--method", "robust"], ["--method", "set-cover", "--epochs", "3"]])
def test_fit_keeps_targets_by_label_and_evaluate_counts_by_them(method, train, new, here, tmp_path):
    folder = tmp_path / "model"
    assert here("fit", train, *BASE, *method, "--domain-confidence", "none", *TARGETS, "--out", folder)[0] == 0
    model = load(folder)
    assert model.target_recall == load_extra(folder)["settings"]["target_recall"] == {"ill": 0.9, "well": 0.6}
    table = pd.read_csv(new)
    code, printed, _ = here("evaluate", folder, new, "--format", "json")
    assert code == 0
    found = json.loads(printed)
    recall = [row["recall"] for row in found["domains"]]
    literal = np.mean([each["ill"] >= 0.9 and each["well"] >= 0.6 for each in recall])
    assert found["summary"]["share_at_target"] == literal
    assert len(recall) == table["ward"].nunique()


def test_fit_evaluate_and_certify_name_coverage(train, new, here, tmp_path):
    folder, page = tmp_path / "model", tmp_path / "page.html"
    code, printed, _ = here("fit", train, *ROLES, "--base", "linear", "--method", "robust", *COVERAGE, "--out", folder)
    assert code == 0
    assert "the coverage is at least 80 %" in " ".join(printed.split())
    found = json.loads(here("evaluate", folder, new, "--format", "json")[1])
    assert found["criterion"] == "coverage"
    report = load(folder).domain_report(pd.read_csv(new).drop(columns=["ward", "outcome"]), *labels_and_wards(new))
    assert [row["min_recall"] for row in found["domains"]] == report.coverage.tolist()
    code, printed, _ = here("certify", folder, new, "--html", page)
    assert code == 0
    assert "had the labels of all examples together caught at least 80 % of the time" in " ".join(printed.split())
    assert "domains the coverage is at least 80 %" in page.read_text("utf-8")


def labels_and_wards(path):
    table = pd.read_csv(path)
    return table["outcome"], table["ward"]


def test_a_promise_of_coverage_is_made_by_default_where_there_are_domains_enough(here, tmp_path):
    train = written(patients(1500, 12), tmp_path / "train.csv")
    told = here("fit", train, *BASE, "--method", "erm", "--epochs", "3", *COVERAGE, "--out", tmp_path / "model")[2]
    assert "Promising that the coverage of a new domain is at target with probability 0.9" in told
    assert "the share of rows whose set holds their label" in load(tmp_path / "model").promise_


def test_certify_takes_targets_of_some_labels(train, new, here, tmp_path):
    folder = tmp_path / "model"
    assert here("fit", train, *BASE, "--method", "robust", "--out", folder)[0] == 0
    code, printed, _ = here("certify", folder, new, "--target-recall", "ill=0.7", "--format", "json")
    assert code == 0
    found = json.loads(printed)
    assert found["target_recall"] == {"ill": 0.7}
    assert list(found["labels"]) == ["ill"]
    assert found["domains"]["n_at_target"] == found["labels"]["ill"]["n_at_target"]


def test_certify_names_the_domains_that_have_too_few_rows_of_a_label_with_a_target(train, new, here, tmp_path):
    folder, table = tmp_path / "model", pd.read_csv(new)
    assert here("fit", train, *BASE, "--method", "robust", "--out", folder)[0] == 0
    ward = table["ward"].iloc[0]
    few = table[(table["ward"] != ward) | (table["outcome"] != "ill")]
    few.to_csv(tmp_path / "few.csv", index=False)
    code, printed, told = here(
        "certify", folder, tmp_path / "few.csv", "--target-recall", "ill=0.7", "--min-cell-size", 1
    )
    assert code == 0
    assert printed.startswith(f"From {table['ward'].nunique() - 1} domains")
    assert f"Not counted, for want of a row of a label with a target in a domain: domain {ward}." in told
    assert "Left out" not in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target-recall", "most"], "'most' is neither a number such as 0.9 nor LABEL=NUMBER"),
        (["--target-recall", "ill=much"], "'ill=much' is neither a number such as 0.9 nor LABEL=NUMBER"),
        (["--target-recall", "0.9", "--target-recall", "0.8"], "there are several numbers"),
        (["--target-recall", "0.9", "--target-recall", "ill=0.8"], "give one number, or LABEL=NUMBER once for each"),
        (["--target-recall", "ill=9"], "target recall must lie between 0 and 1, got 9"),
        (["--target-recall", "dead=0.9"], "target recall names 'dead', which is none of the labels"),
        (["--criterion", "coverage", *TARGETS], "counts all labels together and has one target"),
    ],
)
def test_targets_that_cannot_be_are_refused(options, message, train, here, tmp_path):
    code, _, told = here("fit", train, *BASE, "--method", "robust", *options, "--out", tmp_path / "model")
    assert code != 0
    assert message in " ".join(told.replace("│", " ").split())
    assert not (tmp_path / "model").exists()
