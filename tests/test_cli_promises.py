"""`certify` and `plan`, and the certificates that `fit` and `evaluate` show, on made-up patients of several wards."""

import datetime
import html
import json
import platform
import re
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from domaincover import ConformalSetClassifier, ERMClassifier, PromisedSetClassifier, TableEncoder, certify, load, save
from domaincover.saving.models import load_extra
from tests.wards import ROLES, patients, written

QUICK = [*ROLES, "--method", "robust", "--base", "linear"]
FEATURES = ["age", "pressure"]


EXTRA = {"settings": {"label": "outcome", "domain": "ward", "method": "robust", "target_recall": 0.8}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that has seen wards 1 to 8."""
    folder = tmp_path_factory.mktemp("model")
    table = patients(1200, 8)
    encoded = make_pipeline(TableEncoder(), LogisticRegression())
    fitted = ConformalSetClassifier(encoded, random_state=0)
    save(fitted.fit(table[FEATURES], table["outcome"], domains=table["ward"]), folder / "model", extra=EXTRA)
    return folder / "model"


@pytest.fixture
def new(tmp_path):
    return written(patients(1500, 10, seed=1, first_ward=100), tmp_path / "new.csv")


@pytest.fixture
def mixed(tmp_path):
    """Wards 6, 7 and 8, which the model has seen, and 9 to 12, which it has not."""
    return written(patients(900, 7, seed=2, first_ward=6), tmp_path / "mixed.csv")


def as_json(printed):
    return json.loads(printed, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


# Certify


def test_certify_says_what_python_says(model, new, here):
    table, fitted = pd.read_csv(new), load(model)
    report = fitted.domain_report(table[FEATURES], table["outcome"], table["ward"])
    expected = certify(report, 0.8, seen_domains=fitted.domains_)
    code, printed, told = here("certify", model, new, "--format", "json")
    assert (code, told) == (0, "")
    found = as_json(printed)
    assert found == expected.to_dict() | {
        "model_sha256": json.loads((model / "model.json").read_text())["checksum"],
        "min_cell_size": 20,
        "thresholds": "fixed",
        "sets_by_size": report.sets_by_size.tolist(),
        "adapted": None,
        "fixed": report.summary(0.8).to_dict(),
    }
    assert " ".join(expected.text().split()) == " ".join(here("certify", model, new)[1].split())


def test_target_confidence_and_smallest_cell_are_those_asked_for(model, new, here):
    options = ["--target-recall", 0.7, "--confidence", 0.8, "--min-cell-size", 45, "--format", "json"]
    found = as_json(here("certify", model, new, *options)[1])
    assert (found["target_recall"], found["confidence"], found["row_error"]) == (0.7, 0.8, pytest.approx(0.2))
    assert found["smallest_cell"] >= 45


def test_certify_writes_a_certificate_that_names_the_model_and_the_table(model, new, tmp_path, here):
    before = datetime.date.today()
    code, printed, told = here("certify", model, new, "--html", tmp_path / "page.html")
    after = datetime.date.today()  # which is another one at midnight
    page = (tmp_path / "page.html").read_text()
    assert code == 0
    checksum = json.loads((model / "model.json").read_text())["checksum"]
    assert told.splitlines() == [
        f"The page is {(tmp_path / 'page.html').as_uri()}",
        f"SHA-256 of the model: {checksum}",
    ]
    assert "<h1>Certificate</h1>" in page
    listed = listed_in(tmp_path / "page.html")
    assert (listed["Model"], listed["sha256"]) == (model.name, checksum)
    assert before <= datetime.date.fromisoformat(listed["Date"]) <= after
    assert listed["Table"] == f"{new.name}: 10 domains counted, with {len(pd.read_csv(new)):,} rows"
    assert printed.startswith("From 10 domains that the model has not seen")


def test_seen_domains_are_refused_by_name_with_a_way_out(model, mixed, refused):
    refused("3 of 7 domains were seen in training: ward 6, ward 7, ward 8; a certificate", "certify", model, mixed)
    refused("--unseen-only certifies on the other 4", "certify", model, mixed)


def test_unseen_only_leaves_the_seen_ones_out_and_says_so(model, mixed, here):
    code, printed, told = here("certify", model, mixed, "--unseen-only", "--format", "json")
    assert (code, told) == (0, "Left out because the model was trained on them: 3 of 7 domains.\n")
    assert as_json(printed)["domains"]["n_domains"] == 4


def test_a_domain_left_out_for_want_of_a_label_is_not_said_to_be_seen(model, tmp_path, here):
    table = patients(900, 7, seed=2, first_ward=6)
    few_ill = (table["ward"] == "ward 10") & (table["outcome"] == "ill")
    mixed = written(table[~few_ill], tmp_path / "few-ill.csv")
    code, _, told = here("certify", model, mixed, "--unseen-only", "--target-recall", "ill=0.9")
    assert code == 0, told
    assert "Left out because the model was trained on them: 3 of 7 domains.\n" in told
    assert "Not counted, for want of 20 rows of a label with a target in a domain: domain ward 10.\n" in told


def test_unseen_only_is_silent_where_none_was_seen(model, new, here):
    assert here("certify", model, new, "--unseen-only") == here("certify", model, new)


def test_where_all_or_all_but_one_were_seen_there_is_no_way_out(model, tmp_path, refused):
    seen = written(patients(200, 3), tmp_path / "seen.csv")
    refused("3 of 3 domains were seen in training: ward 1, ", "certify", model, seen, "--unseen-only")
    refused("ward 1, ward 2, ward 3; a certificate is about new domains; fit --no-final-fit", "certify", model, seen)
    one_new = written(patients(200, 3, first_ward=7), tmp_path / "one-new.csv")
    refused("ward 7, ward 8; a certificate is about new domains; fit --no-final-fit", "certify", model, one_new)
    refused("the report has one domain, ward 9", "certify", model, one_new, "--unseen-only")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--confidence", "0"], "--confidence must lie between 0 and 1, got 0"),
        (["--confidence", "1"], "--confidence must lie between 0 and 1, got 1"),
        (["--confidence", "95"], "--confidence must lie between 0 and 1, got 95; write 95 % as 0.95"),
        (["--target-recall", "90"], "target recall must lie between 0 and 1, got 90; write 90 % as 0.9"),
        (["--min-cell-size", "100000"], "no label has 100,000 examples in a domain"),
        (["--label", "outcom"], "has no column 'outcom' (--label); did you mean 'outcome'?"),
        (["--format", "xml"], "'xml' is not one of 'text', 'json'"),
        (["--html", "/dev/null/page.html"], "cannot write the page /dev/null/page.html"),
    ],
)
def test_what_certify_cannot_do_is_refused(model, new, refused, arguments, message):
    refused(message, "certify", model, new, *arguments)


def test_a_pipeline_is_certified_by_the_domains_of_its_last_step(tmp_path, new, mixed, here, refused):
    table = patients(400, 8)
    pipeline = make_pipeline(TableEncoder(), ERMClassifier(epochs=1, random_state=0))
    pipeline.fit(table[FEATURES], table["outcome"], ermclassifier__domains=table["ward"])
    save(pipeline, tmp_path / "pipeline", extra=EXTRA)
    assert here("certify", tmp_path / "pipeline", new)[0] == 0
    refused("3 of 7 domains were seen in training", "certify", tmp_path / "pipeline", mixed)


def test_a_model_fitted_without_domains_cannot_be_certified_here(tmp_path, new, here, refused):
    table = patients(200, 4)
    fitted = ERMClassifier(epochs=1, random_state=0).fit(table[FEATURES], table["outcome"])
    save(fitted, tmp_path / "model", extra=EXTRA)
    refused("the model does not record the domains that it was trained on", "certify", tmp_path / "model", new)
    assert "confidence" not in here("evaluate", tmp_path / "model", new)[1]


def test_domains_behind_a_calibrated_model_count_as_seen_or_are_unknown():
    table = patients(400, 8)
    X, y, wards = table[FEATURES].fillna(0), table["outcome"], table["ward"]
    early, late = wards.isin(["ward 1", "ward 2"]), wards.isin(["ward 3", "ward 4"])
    ours = ERMClassifier(epochs=1, random_state=0).fit(X[early], y[early], domains=wards[early])
    plain = make_pipeline(FunctionTransformer(), LogisticRegression()).fit(X[early], y[early])
    calibrated = [
        ConformalSetClassifier(inner, calibration="prefit", min_cell_size=1).fit(X[late], y[late], domains=wards[late])
        for inner in (ours, plain)
    ]
    assert set(calibrated[0].seen_domains_) == {"ward 1", "ward 2", "ward 3", "ward 4"}
    assert calibrated[1].seen_domains_ is None


# Fit and evaluate


def test_evaluate_tells_the_certificate_in_a_line_and_on_the_page(model, new, tmp_path, here):
    printed = here("evaluate", model, new, "--html", tmp_path / "page.html")[1]
    (line,) = [line for line in printed.splitlines() if line.startswith("With 95 % confidence, the next domain")]
    found = as_json(here("certify", model, new, "--format", "json")[1])["domains"]
    counted, truly = (np.floor(100 * found[name]) / 100 for name in ("next_at_least", "next_truly_at_least"))
    assert f"will be at target with a probability of at least {counted:.2f}" in line
    assert f"true recalls are all at target with a probability of at least {truly:.2f}" in line
    assert "What this shows about the next domain" in (tmp_path / "page.html").read_text()


def test_evaluate_certifies_nothing_where_a_domain_was_seen_or_is_alone(model, mixed, tmp_path, here):
    alone = written(patients(100, 1, first_ward=50), tmp_path / "alone.csv")
    for table in (mixed, alone):
        code, printed, _ = here("evaluate", model, table, "--html", tmp_path / "page.html")
        assert code == 0
        assert "confidence" not in printed
        assert "about the next domain" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("final_fit", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_the_page_of_a_fit_certifies_the_model_that_was_judged(final_fit, tmp_path, here):
    table = written(patients(600, 8), tmp_path / "train.csv")
    options = ["--out", tmp_path / "model", "--html", tmp_path / "page.html"]
    code, _, told = here("fit", table, *QUICK, *options, "--final-fit" if final_fit else "--no-final-fit")
    assert code == 0, told
    page = (tmp_path / "page.html").read_text()
    assert "of 2 unseen domains every label" in html.unescape(page)
    assert ("it is not itself the one certified here" in page) == final_fit


# Plan


def test_plan_prints_both_routes_and_what_the_domains_allow(here):
    code, printed, told = here("plan", "--domains", 40)
    text = " ".join(printed.split())
    assert (code, told) == (0, "")
    assert "9 domains if it is enough that the promise holds on average" in text
    assert "29 domains and --domain-confidence 0.96 for 95 % certainty" in text
    assert "With 40 domains: - 0.97 of new domains at target is the most" in text


def test_plan_is_json_on_request(here):
    options = ["--epsilon", 0.05, "--delta", 0.1, "--target-recall", 0.8, "--format", "json"]
    found = as_json(here("plan", *options)[1])
    assert (found["n_domains_marginal"], found["target_recall"], found["with_domains"]) == (19, 0.8, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "0"], "epsilon, the share of new domains that may miss, must lie between 0 and 1, got 0"),
        (["--epsilon", "95"], "got 95; write 95 % as 0.95"),
        (["--delta", "1"], "delta, the probability that the promise fails, must lie between 0 and 1, got 1"),
        (["--domains", "many"], "Invalid value for '--domains'"),
        (["--domains", "0"], "the number of domains must be a whole number"),
    ],
)
def test_what_cannot_be_planned_is_refused(refused, arguments, message):
    refused(message, "plan", *arguments)


def test_a_promised_model_is_certified_on_the_cells_that_its_promise_counts(here, tmp_path):
    table = patients(1500, 12)
    scorer = ERMClassifier(epochs=2, network="linear", random_state=0)
    fitted = PromisedSetClassifier(scorer, domain_confidence=0.8, min_cell_size=20, folds=3, random_state=0)
    fitted.fit(table[FEATURES], table["outcome"], domains=table["ward"])
    save(fitted, tmp_path / "promised", extra=EXTRA)
    new = patients(900, 10, seed=1, first_ward=100)
    new = new[(new["ward"] != "ward 100") | (new["outcome"] != "ill") | (new.index < 90)]  # a few ill of ward 100 left
    path = written(new, tmp_path / "new.csv")
    ill = {}
    for options in ([], ["--min-cell-size", "1"]):
        code, printed, told = here("certify", tmp_path / "promised", path, "--format", "json", *options)
        assert code == 0, told
        ill[len(options)] = as_json(printed)["labels"]["ill"]["n_domains"]
    assert ill[2] == 10
    assert ill[0] == sum(new[new["outcome"] == "ill"].groupby("ward").size() >= 20) < 10


# The smallest cell that counts


def test_the_smallest_cell_reaches_promise_reports_and_pages(tmp_path, here):
    train = written(patients(900, 12), tmp_path / "train.csv")
    options = [*ROLES, "--method", "erm", "--base", "linear", "--epochs", 1, "--domain-confidence", 0.7]
    page, folder = tmp_path / "page.html", tmp_path / "model"
    code, _, told = here("fit", train, *options, "--min-cell-size", 7, "--html", page, "--out", folder)
    assert code == 0, told
    assert load(folder).min_cell_size == load_extra(folder)["settings"]["min_cell_size"] == 7
    assert "every label with at least 7 examples there" in told
    assert listed_in(page)["min_cell_size"] == "7"
    new = written(patients(900, 6, seed=1, first_ward=100), tmp_path / "new.csv")
    for command in ("evaluate", "certify"):
        for asked, size in (([], 7), (["--min-cell-size", 3], 3)):
            code, printed, told = here(command, folder, new, *asked, "--format", "json", "--html", page)
            assert code == 0, told
            assert as_json(printed)["min_cell_size"] == size
            assert listed_in(page)["min_cell_size"] == str(size)


def listed_in(page):
    """Return what a page lists as settings and versions."""
    return dict(re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", page.read_text()))


def test_pages_list_versions(model, new, tmp_path, here):
    page = tmp_path / "page.html"
    for command in ("evaluate", "certify"):
        assert here(command, model, new, "--html", page)[0] == 0
        listed = listed_in(page)
        for package in ("domaincover", "numpy", "scikit-learn", "torch"):
            assert listed[package] == version(package)
        assert listed["python"] == platform.python_version()


def test_a_promise_that_cells_are_too_small_for_names_the_options(tmp_path, here):
    train = written(patients(900, 12), tmp_path / "train.csv")
    options = [*ROLES, "--method", "erm", "--base", "linear", "--domain-confidence", 0.7, "--out", tmp_path / "model"]
    message = "ask for less, lower --min-cell-size, or use --on-infeasible widen, which puts"
    code, _, told = here("fit", train, *options, "--min-cell-size", 30)
    assert code == 2
    assert message in told.splitlines()[-1]
