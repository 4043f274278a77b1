"""`record`, `recalibrate`, and what `evaluate` says of a promise and of groups of rows."""

import json

import pandas as pd
import pytest

from domaincover import load
from domaincover.saving.models import model_checksum
from tests.wards import FEATURES, LABELS, patients, save_promised_regression, written


@pytest.fixture
def model(tmp_path):
    return save_promised_regression(patients(1500, 14), FEATURES, tmp_path / "model")


def table_of(path, seed, n_wards=2, first_ward=100, wrong=False):
    table = patients(150 * n_wards, n_wards, seed, first_ward)
    if wrong:
        table["outcome"] = table["outcome"].map(dict(zip(LABELS, LABELS[::-1], strict=True)))
    return written(table.assign(sex=["f", "m", "m"] * (50 * n_wards)), path)


def test_a_record_grows_by_each_table_and_says_what_the_domains_say_of_the_promise(model, tmp_path, here):
    before = model_checksum(model)
    first = table_of(tmp_path / "first.csv", 1)
    code, printed, told = here("record", model, first)
    assert (code, told) == (0, "")
    assert "ward 100" in printed
    assert " of 2 so far." in printed
    assert "Promised 0.9, seen " in printed
    page = tmp_path / "record.html"
    code, printed, told = here("record", model, table_of(tmp_path / "second.csv", 2, 3, 200), "--html", page)
    assert code == 0
    assert "ward 100" not in printed
    assert " of 5 so far." in printed
    assert "record.html" in told
    assert model_checksum(model) == before
    table = pd.read_csv(first)
    report = load(model).domain_report(table[FEATURES], table["outcome"], table["ward"])
    recorded = load(model).record_report().to_frame()
    assert recorded.loc[list(report.domain_names), "min_recall"].tolist() == pytest.approx(report.min_recall.tolist())
    text = page.read_text()
    assert "<script" not in text
    assert [text.index(f">ward {k}<") > 0 for k in (100, 101, 200, 201, 202)]


def test_a_domain_that_was_recorded_or_seen_changes_nothing(model, tmp_path, here):
    new = table_of(tmp_path / "new.csv", 1)
    assert here("record", model, new)[0] == 0
    kept = (model / "record.json").read_bytes()
    code, printed, told = here("record", model, new)
    assert (code, printed) == (2, "")
    assert "in the record already, where a domain counts once; nothing was recorded." in told
    assert len(told.splitlines()) == 1
    code, _, told = here("record", model, table_of(tmp_path / "old.csv", 1, first_ward=3))
    assert code == 2
    assert "seen in training" in told
    assert (model / "record.json").read_bytes() == kept
    assert not list(model.glob(".*"))


def test_a_model_without_a_promise_keeps_no_record(tmp_path, here):
    from domaincover import ERMClassifier, save

    table = patients(600, 3)
    save(ERMClassifier(epochs=1, random_state=0).fit(table[FEATURES], table["outcome"]), tmp_path / "plain")
    code, _, told = here("record", tmp_path / "plain", table_of(tmp_path / "new.csv", 1), "--label", "outcome")
    assert code == 2
    assert "no promise that a record could be about" in told


def test_the_domains_of_a_record_calibrate_a_model_of_their_own(model, tmp_path, here):
    code, _, told = here("recalibrate", model, "--out", tmp_path / "model-2")
    assert (code, "nothing is recorded yet" in told) == (2, True)
    assert here("record", model, table_of(tmp_path / "new.csv", 1, 6))[0] == 0
    code, _, told = here("recalibrate", model, "--out", model)
    assert (code, "would overwrite the model" in told) == (2, True)
    code, printed, told = here("recalibrate", model, "--out", tmp_path / "model-2")
    assert code == 0
    assert printed.startswith("6 domains of the record joined the calibration; fixed thresholds moved: ill ")
    assert "drawn like the 20 that calibrated" in " ".join(printed.split())
    assert "model-2" in told
    assert not (tmp_path / "model-2" / "record.json").exists()
    code, _, told = here("record", tmp_path / "model-2", tmp_path / "new.csv")
    assert (code, "seen in training" in told) == (2, True)
    assert here("predict", tmp_path / "model-2", tmp_path / "new.csv", "--out", tmp_path / "sets.csv")[0] == 0


def test_an_evaluation_and_a_certificate_begin_with_the_verdict(model, tmp_path, here):
    drift, pages = table_of(tmp_path / "drift.csv", 1, 14, wrong=True), [tmp_path / "e.html", tmp_path / "c.html"]
    for command, page in zip(("evaluate", "certify"), pages, strict=True):
        found = json.loads(here(command, model, drift, "--format", "json")[1])
        assert next(iter(found)) == "verdict"
        verdict = found["verdict"]
        assert list(verdict) == ["promised", "domains", "at_target", "e_value", "interval", "about", "says"]
        assert (verdict["domains"], verdict["says"], verdict["about"]) == (14, "contradicted", "model")
        printed = here(command, model, drift, "--html", page)[1]
        assert printed.startswith(f"Promised 0.9, seen {verdict['at_target']} of 14: contradicted here (this model's ")
        assert "contradicted here" in page.read_text().split('id="results"')[0]
    printed = " ".join(here("evaluate", model, drift)[1].split())
    assert "domains missed, by " in printed
    assert "that a domain is not flagged does not make it safe." in printed
    assert "<h1>Certificate of a contradicted promise</h1>" in pages[1].read_text()


def test_another_target_than_that_of_the_promise_has_no_verdict(model, tmp_path, here):
    new = table_of(tmp_path / "new.csv", 1, 4)
    found = json.loads(here("certify", model, new, "--target-recall", "0.5", "--format", "json")[1])
    assert found["verdict"] is None


def test_groups_of_rows_are_reported_with_the_sets_of_whole_domains(model, tmp_path, here):
    new, page = table_of(tmp_path / "new.csv", 1, 4), tmp_path / "page.html"
    code, printed, _ = here("evaluate", model, new, "--by", "sex", "--html", page)
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines() if line.startswith(("sex", "f  ", "m  "))] == [
        "sex",
        "f",
        "m",
    ]
    assert "By sex: the same over the rows of each group alone" in page.read_text()
    found = json.loads(here("evaluate", model, new, "--by", "sex", "--format", "json")[1])["by"]["sex"]
    table, fitted = pd.read_csv(new), load(model)
    sets = fitted.predict_set(table[FEATURES], domains=table["ward"])
    for group in ("f", "m"):
        rows = (table["sex"] == group).to_numpy()
        expected = fitted.report_on_sets(sets[rows], table["outcome"][rows], table["ward"][rows], min_cell_size=5)
        assert found[group]["domains"] == expected.records()
        assert found[group]["summary"] == expected.summary(0.9).to_dict()


def test_an_unknown_column_of_groups_is_told_in_one_line(model, tmp_path, here):
    code, _, told = here("evaluate", model, table_of(tmp_path / "new.csv", 1), "--by", "sx")
    assert (code, told.strip().endswith("did you mean 'sex'?")) == (2, True)
