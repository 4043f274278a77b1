"""The record of a model against literal definitions, and what is promised after it calibrates again, by repetition."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from domaincover import ERMClassifier, GaussianDomains, InputError, PromisedSetClassifier, load, save
from domaincover.calibration.rules import order_ranks
from domaincover.criteria import criterion_for
from domaincover.predictors.calibrated_predictors import Scored
from domaincover.predictors.domain_record import AdaptedDomains, calibration_residuals, judged_report, unusual_domains
from domaincover.predictors.promised_predictor import PromisedPredictor
from domaincover.promises.verdict import HeldOut, judged
from domaincover.report.domain_reports import worst_first, worst_order
from domaincover.report.domain_table import domain_columns
from domaincover.saving import values
from domaincover.saving.models import load_to_predict, model_checksum, write_record
from tests.report.made_up_domains import report

SOURCE = GaussianDomains.of_paper(n_features=10)


def drawn(n_domains, seed, n=200):
    data = SOURCE.sample(n_domains, n, np.random.default_rng(seed))
    return data.examples, data.labels, np.array([f"{seed}: {k}" for k in range(n_domains)], dtype=object)[data.domains]


@pytest.fixture(scope="module", params=["held-out-domains", "cross-fit", "jackknife-minmax"])
def fitted(request):
    X, y, domains = drawn(16, 0)
    options = {"calibration_domains": 0.6} if request.param == "held-out-domains" else {}
    model = PromisedSetClassifier(LogisticRegression(), calibration=request.param, random_state=0, **options)
    return model.fit(X, y, domains=domains)


def fresh(model, folder):
    """Return a model that is as it was fitted, whatever was recorded with it."""
    save(model, folder / "model")
    return load(folder / "model")


def thresholds_by_domain(model, X, domains, kind):
    if kind == "adapted":
        return model.domain_thresholds(X, domains).loc[list(dict.fromkeys(domains))].to_numpy()
    return np.broadcast_to(model.thresholds_, (len(set(domains)), len(model.classes_)))


def test_a_residual_is_by_how_much_thresholds_may_be_raised(fitted, tmp_path):
    model, (X, y, domains) = fresh(fitted, tmp_path), drawn(4, 1)
    kinds = ("adapted", "fixed") if model.can_adapt else ("fixed",)
    record, scores = model.record(X, y, domains).record_, model.label_scores(X)
    for place, kind in enumerate(kinds):
        own = thresholds_by_domain(model, X, domains, kind)
        for row, name in enumerate(record.names):
            for label in range(2):
                cell = np.sort(scores[(domains == name) & (y == label), label])
                highest = cell[len(cell) - int(np.ceil(0.9 * len(cell) - 1e-9))]
                assert record.residuals[row, place, label] == pytest.approx(highest - own[row, label], abs=1e-9)


def test_a_report_of_the_record_is_that_of_the_rows_in_the_order_in_which_they_came(fitted, tmp_path):
    model, parts = fresh(fitted, tmp_path), [drawn(12, 1), drawn(3, 2)]
    for part in parts:
        order = np.argsort(-np.unique(part[2], return_inverse=True)[1], kind="stable")  # the last name comes first
        model.record(*(each[order] for each in part))
    whole = [np.concatenate(each) for each in zip(*parts, strict=True)]
    expected, found = model.domain_report(*whole).to_frame(), model.record_report().to_frame()
    assert found.loc[expected.index].equals(expected)
    names = model.record_report().domain_names
    assert names[:12] == tuple(sorted(set(parts[0][2]), reverse=True))
    assert names[12:] == ("2: 2", "2: 1", "2: 0")


def test_a_verdict_of_the_record_counts_its_domains(fitted, tmp_path):
    model = fresh(fitted, tmp_path).record(*drawn(12, 1))
    found, report = model.verdict(), model.record_report()
    assert (found.domains, found.at_target) == (12, int(report.at_target().sum()))
    assert (found.promised, found.says) == (0.9, "not contradicted")
    assert model.verdict(report).interval == found.interval


def test_domains_of_another_kind_contradict_the_promise(fitted, tmp_path):
    X, y, domains = drawn(12, 1)
    found = fresh(fitted, tmp_path).record(X, 1 - y, domains).verdict()
    about = "promise" if fitted.calibration == "held-out-domains" else "model"
    assert (found.at_target, found.says, found.about) == (0, "contradicted", about)


def test_a_verdict_is_about_new_domains_at_the_target_and_cells_of_the_promise(fitted):
    (X, y, domains), (X0, y0, old) = drawn(6, 1), drawn(16, 0)
    report = fitted.domain_report(np.r_[X, X0], np.r_[y, y0], np.r_[domains, old], thresholds="fixed")
    assert fitted.verdict(report).domains == 6
    assert fitted.verdict(report.under(0.8)) is None
    assert fitted.verdict(fitted.domain_report(X, y, domains, min_cell_size=5)) is None
    assert fitted.verdict(fitted.domain_report(X, y, domains, min_cell_size=50)).domains == 6
    assert fitted.verdict(fitted.domain_report(X0, y0, old)) is None


def test_a_model_without_a_promise_has_no_verdict():
    X, y, domains = drawn(4, 0)
    model = ERMClassifier(epochs=1, random_state=0).fit(X, y, domains=domains)
    assert model.verdict(model.domain_report(*drawn(2, 1))) is None


def test_labels_that_are_promised_apart_do_not_count_in_the_verdict():
    X, y, domains = drawn(12, 0)
    y = y + 2 * ((domains == "0: 3") & (y == 1))  # a third label in one domain only
    model = PromisedSetClassifier(LogisticRegression(), random_state=0)
    with pytest.warns(UserWarning, match="not promised with the others"):
        model.fit(X, y, domains=domains)
    X, y, new = drawn(5, 1)
    y = y + 2 * ((np.arange(len(y)) % 3 == 0) & (y == 1))
    report = model.domain_report(X, y, new)
    judged_by = judged_report(model, report).judged_by
    assert np.isnan(judged_by.targets).tolist() == [False, False, True]
    assert model.verdict(report).at_target == int((report.recall[:, :2] >= 0.9).all(axis=1).sum())
    model.record(X, y, new).recalibrated().predict_set(X)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (lambda new: np.where(new == "1: 0", "0: 3", new), "domain 0: 3: seen in training, .* nothing was recorded"),
        (lambda new: np.where(new == "1: 0", "2: 1", new), "domain 2: 1: in the record already, where a domain counts"),
    ],
)
def test_a_domain_counts_once_and_only_where_it_is_new(fitted, tmp_path, names, message):
    model = fresh(fitted, tmp_path).record(*drawn(2, 2))
    X, y, new = drawn(2, 1)
    with pytest.raises(InputError, match=message):
        model.record(X, y, names(new))
    assert len(model.record_report().domain_names) == 2


def test_a_domain_that_is_too_small_to_count_is_rejected(fitted, tmp_path):
    X, y, new = drawn(2, 1)
    rows = np.flatnonzero(new == "1: 0")[10:]
    kept = np.setdiff1d(np.arange(len(y)), rows)
    with pytest.raises(InputError, match="1: 0: no label has 20 rows there"):
        fresh(fitted, tmp_path).record(X[kept], y[kept], new[kept])


def test_without_a_record_there_is_nothing_to_report_or_to_calibrate_with(fitted, tmp_path):
    model = fresh(fitted, tmp_path)
    for call in (model.record_report, model.recalibrated, model.verdict):
        with pytest.raises(InputError, match="nothing is recorded yet"):
            call()


def test_a_model_of_one_domain_keeps_no_record():
    X, y, domains = drawn(12, 0)
    model = PromisedSetClassifier(LogisticRegression(), random_state=0).fit(X, y, domains=domains)
    adapted = model.record(*drawn(2, 1)).adapt(drawn(1, 2)[0])
    with pytest.raises(InputError, match="adapted to one domain; the record is that of the model that it came from"):
        adapted.record(*drawn(1, 3))
    assert not hasattr(adapted, "record_")


# Calibrated again


def test_thresholds_move_by_the_order_statistic_of_all_residuals(fitted, tmp_path):
    model = fresh(fitted, tmp_path).record(*drawn(14, 1))
    new = model.recalibrated()
    for place, kind in enumerate(("adapted", "fixed") if model.can_adapt else ("fixed",)):
        both = np.concatenate([model.calibration_residuals_, model.record_.residuals])[:, place]
        lowest = np.sort(both.min(axis=1))
        moved = lowest[int(order_ranks(len(lowest), 0.9)) - 1]
        X, _, domains = drawn(5, 4)
        before, after = (thresholds_by_domain(each, X, domains, kind) for each in (model, new))
        assert after - before == pytest.approx(moved, abs=1e-9)
        assert new.calibration_residuals_[:, place] == pytest.approx(both - moved)


def test_the_domains_of_the_record_are_seen_and_calibrate_and_the_record_begins_anew(fitted, tmp_path):
    model = fresh(fitted, tmp_path).record(*drawn(10, 1))
    new = model.recalibrated()
    assert f"drawn like the {len(model.calibration_domains_) + 10} that calibrated" in new.promise
    assert "10 came after the fit, from the record" in new.promise
    with pytest.raises(InputError, match="seen in training"):
        new.record(*drawn(10, 1))
    again = new.record(*drawn(3, 2)).recalibrated()
    assert "13 came after the fit" in again.promise
    assert len(model.record_report().domain_names) == 10  # as before


def with_scores(rng, n_domains, n=60):
    """Return scores of rows that all have the first label, of domains whose scores lie about their own middle."""
    middle = rng.normal(size=n_domains)
    domains = np.repeat(np.arange(n_domains), n)
    own = middle[domains] + rng.normal(size=len(domains))
    return Scored(np.column_stack([own, own]), np.full((len(own), 2), 0.5)), np.zeros(len(own), np.int64), domains


def recalibrated_by_score(rng, m, n_recorded):
    """Return a model of fixed thresholds that m held-out domains calibrate, and then as many of its record."""
    model = PromisedPredictor()
    model.target_recall, model.criterion, model.domain_confidence = {"a": 0.9}, "min-recall", 0.9
    model.calibration, model.min_cell_size, model.classes_ = "held-out-domains", 20, np.array(["a", "b"])
    model.domain_order = None
    model.domains_ = model.calibration_domains_ = np.array([f"old {k}" for k in range(m)], dtype=object)
    model.domains_by_label_ = np.array([m, 0])
    model.thresholds_, model.promise_ = np.array([rng.normal(), -np.inf]), ""
    assert criterion_for(model.target_recall, ("a", "b")).constrained.tolist() == [True, False]
    model.calibration_residuals_ = calibration_residuals(model, *with_scores(rng, m))
    scored, labels, domains = with_scores(rng, n_recorded)
    names = np.array([f"recorded {k}" for k in range(n_recorded)], dtype=object)[domains]
    return model.record(scored, np.array(["a", "b"])[labels], names).recalibrated()


@pytest.mark.parametrize(("m", "n_recorded"), [(9, 10), (9, 30)])
def test_a_new_domain_is_at_target_as_often_as_promised_after_a_record_of_a_fixed_size(m, n_recorded):
    rng, n_runs, n_new = np.random.default_rng(0), 300, 40
    shares = []
    for _ in range(n_runs):
        model = recalibrated_by_score(rng, m, n_recorded)
        scored, _, domains = with_scores(rng, n_new)
        hits = np.bincount(domains, scored.scores[:, 0] >= model.thresholds_[0])
        shares.append(np.mean(hits >= 0.9 * 60))
    rank, m = int(order_ranks(m + n_recorded, 0.9)), m + n_recorded
    expected = (m + 1 - rank) / (m + 1)
    assert np.mean(shares) == pytest.approx(expected, abs=4 * np.std(shares) / np.sqrt(n_runs))
    assert expected >= 0.9


# Saved


@pytest.mark.parametrize("most_in_json", [values.MOST_IN_JSON, 3])
def test_a_record_is_saved_beside_the_model_which_stays_as_it_was(fitted, tmp_path, most_in_json, monkeypatch):
    model = fresh(fitted, tmp_path)
    monkeypatch.setattr(values, "MOST_IN_JSON", most_in_json)
    before = model_checksum(tmp_path / "model")
    write_record(tmp_path / "model", model.record(*drawn(5, 1)))
    assert model_checksum(tmp_path / "model") == before
    for read in (load, load_to_predict):
        found = read(tmp_path / "model")
        assert found.record_report().to_frame().equals(model.record_report().to_frame())
        assert str(found.verdict()) == str(model.verdict())
        assert np.array_equal(found.recalibrated().thresholds_, model.recalibrated().thresholds_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[: len(content) // 2], "record.json is corrupt; copy it again, or remove it"),
        (lambda content: content.replace(b'"1: 0"', b'"9: 9"'), "record.json is corrupt"),
        (lambda _: b"[]", "record.json is corrupt"),
    ],
)
def test_a_damaged_record_is_told_in_one_line(fitted, tmp_path, change, message):
    save(fresh(fitted, tmp_path).record(*drawn(2, 1)), tmp_path / "model")
    path = tmp_path / "model" / "record.json"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        load(tmp_path / "model")


def test_the_record_of_another_model_is_rejected(fitted, tmp_path):
    model = fresh(fitted, tmp_path).record(*drawn(2, 1))
    save(model, tmp_path / "model")
    save(model.recalibrated(), tmp_path / "other")
    (tmp_path / "other" / "record.json").write_bytes((tmp_path / "model" / "record.json").read_bytes())
    with pytest.raises(InputError, match="is the record of another model"):
        load(tmp_path / "other")


def test_what_calibrated_is_told_to_the_test_of_the_promise(fitted):
    report = fitted.domain_report(*drawn(9, 5))
    m = len(fitted.calibration_domains_)
    held_out = HeldOut(m, int(order_ranks(m, 0.9))) if fitted.calibration == "held-out-domains" else None
    assert fitted.verdict(report) == judged(report.at_target(), 0.9, held_out=held_out)


FIXED = np.array([-1.0, -np.inf, 0.5])


def adaptation(n_domains, level=0.05):
    """Return thresholds that are told apart by their domain; the second label is in every set."""
    moved = np.arange(n_domains)[:, None] * 0.1
    return AdaptedDomains(FIXED + moved, (np.arange(n_domains) + 1) / 100, FIXED, level)


def test_a_label_in_every_set_has_no_shift_and_does_not_count_in_the_mean():
    moved = adaptation(3)
    assert np.isnan(moved.shift[:, 1]).all()
    assert moved.mean_shift == pytest.approx([0, 0.1, 0.2])
    record = moved.records(["cat", "dog", "owl"])[2]
    assert record["threshold_shift_by_label"] == pytest.approx({"cat": 0.2, "dog": None, "owl": 0.2})
    json.dumps(record, allow_nan=False)


def test_the_table_of_the_page_has_every_domain_s_own_p_value():
    reports = {"model": report([[0.99] * 3, [0.8] * 3, [0.9] * 3], ["a", "b", "c"])}
    moved = adaptation(3, level=0.02).subset(worst_order(reports["model"], 0.9))
    columns = {column.head: column.cells for column in domain_columns(worst_first(reports, 0.9), moved)}
    assert [cell.text for cell in columns["Domain"]] == ["b", "c", "a"]
    assert [cell.text for cell in columns["p-value"]] == ["0.02", "0.03", "0.01"]
    assert [cell.below for cell in columns["p-value"]] == [True, False, True]
    assert [cell.text for cell in columns["Thresholds moved by"]] == ["+0.10", "+0.20", "+0.00"]


def test_the_warning_names_the_most_unusual_domains_and_counts_the_others():
    names, p_values = [f"ward {k}" for k in range(10)], np.arange(1, 11) / 100
    found = unusual_domains(names, p_values[::-1], 0.07)
    assert found.startswith(
        "7 of 10 domains are unlike those that calibrated (p ≤ 0.07; 7 % are so by chance): ward 9 ("
    )
    assert "ward 5 (p = 0.05), … and 2 more. The promise" in found
    assert unusual_domains(names, p_values + 0.07, 0.07) is None
    assert unusual_domains(["a\nb"], np.array([0.01]), 0.05).startswith("1 of 1 domain is unlike")
    assert "\n" not in unusual_domains(["a\nb"], np.array([0.01]), 0.05)


def test_a_percent_sign_in_a_name_stays_as_it_is():
    assert "50% ward (p" in unusual_domains(["50% ward"], np.array([0.01]), 0.05)
