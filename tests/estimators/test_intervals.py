"""Intervals around any regressor: the promise by repetition, known values, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from domaincover import InputError, PromisedIntervalRegressor, TableEncoder, load, save
from domaincover.predictors.interval_predictor import IntervalPredictor
from domaincover.promises.certificates import certify
from domaincover.saving.models import load_to_predict


def schools(n_domains, n_rows=60, seed=0, effect=1.0, noise="normal"):
    """Return pupils of schools that differ in level and in noise."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_rows)
    x = rng.normal(size=(len(domains), 2))
    errors = rng.standard_t(2, len(domains)) if noise == "heavy" else rng.normal(size=len(domains))
    y = (
        2 * x[:, 0]
        + rng.normal(0, effect, n_domains)[domains]
        + np.exp(rng.normal(0, 0.2, n_domains))[domains] * errors
    )
    if noise == "ties":
        y = np.round(y)
    return x, y, np.array([f"{seed}-{d}" for d in domains])


def share_at_target(model, x, y, domains):
    return model.domain_report(x, y, domains).at_target().mean()


@pytest.mark.parametrize("noise", ["normal", "heavy", "ties"])
def test_the_promise_holds_over_repetitions(noise):
    """Held-out domains: each draw's one new domain is at target with probability 0.8 or more."""
    n_draws, hits = 120, 0
    for seed in range(n_draws):
        x, y, domains = schools(20, 30, seed, noise=noise)
        known = np.isin(domains, np.unique(domains)[:19])
        model = PromisedIntervalRegressor(
            LinearRegression(), domain_confidence=0.8, score="absolute", calibration="held-out-domains",
            calibration_domains=9 / 19, few_labels=(), random_state=seed,
        ).fit(x[known], y[known], domains=domains[known])  # fmt: skip
        assert len(model.calibration_domains_) == 9
        hits += bool(share_at_target(model, x[~known], y[~known], domains[~known]))
    assert hits >= binom.ppf(1e-4, n_draws, 0.8)
    assert hits < n_draws  # the intervals are not simply wide


def test_true_coverage_is_wider_and_holds_in_large_new_domains_when_calibrated_on_small_ones():
    small = schools(150, 40, seed=1)
    settings = {"score": "absolute", "few_labels": (), "random_state": 0}
    counted = PromisedIntervalRegressor(LinearRegression(), **settings).fit(*small[:2], domains=small[2])
    true = PromisedIntervalRegressor(LinearRegression(), coverage="true", **settings).fit(*small[:2], domains=small[2])
    assert true.reach_ > counted.reach_
    assert "truly at least 0.9, whatever its number of rows" in true.promise_
    large = schools(200, 1000, seed=2)
    assert share_at_target(true, *large) >= 0.9 - 3 * np.sqrt(0.09 / 200)


@pytest.mark.parametrize("score", ["scaled", "absolute", "quantile"])
def test_every_score_covers_new_domains(score):
    x, y, domains = schools(80, seed=3)
    loss = {"loss": "quantile", "quantile": 0.5} if score == "quantile" else {}
    trees = make_pipeline(TableEncoder(scale=False), HistGradientBoostingRegressor(max_iter=15, **loss))
    known = np.isin(domains, np.unique(domains)[:40])
    frame = pd.DataFrame(x, columns=["hours", "age"])
    model = PromisedIntervalRegressor(trees, score=score, random_state=0).fit(
        frame[known], y[known], domains=domains[known]
    )
    report = model.domain_report(frame[~known], y[~known], domains[~known])
    assert report.at_target().mean() >= 0.9 - 3 * np.sqrt(0.09 / 40)
    assert report.summary().set_size < np.median(report.own_width)
    intervals = model.predict_interval(frame)
    assert np.allclose(intervals.mean(axis=1), model.predict(frame))


def test_known_values_of_a_domain_narrow_its_intervals_and_keep_the_promise():
    x, y, domains = schools(120, 80, seed=4, effect=3.0)
    known = np.isin(domains, np.unique(domains)[:60])
    model = PromisedIntervalRegressor(LinearRegression(), score="absolute", random_state=0)
    model.fit(x[known], y[known], domains=domains[known])
    assert list(model.label_gain.index) == [0, 10, 30]
    hits, widths = [], []
    for name in np.unique(domains[~known]):
        rows = domains == name
        partly = np.where(np.arange(rows.sum()) < 30, y[rows], np.nan)
        adapted = model.adapt(x[rows], partly)
        intervals, later = adapted.predict_interval(x[rows]), np.arange(rows.sum()) >= 30
        inside = (intervals[:, 0] <= y[rows]) & (y[rows] <= intervals[:, 1])
        hits.append(inside[later].mean() >= 0.9)
        widths.append(np.diff(intervals).mean())
    assert np.mean(hits) >= 0.9 - 3 * np.sqrt(0.09 / 60)
    assert np.mean(widths) < 0.7 * np.diff(model.predict_interval(x)).mean()
    assert adapted.adapted_ == {"rows": 80, "labels": 30, "level": 30}


def test_fewer_known_values_than_calibrated_change_nothing_and_say_so():
    x, y, domains = schools(40, 80, effect=3.0)
    model = PromisedIntervalRegressor(LinearRegression(), score="absolute", random_state=0).fit(x, y, domains=domains)
    with pytest.warns(UserWarning, match="3 values are known, which changes nothing: it takes 10 or more"):
        adapted = model.adapt(x[:5], [1.0, 2.0, 3.0, None, np.nan])
    assert np.array_equal(adapted.predict_interval(x), model.predict_interval(x))
    with pytest.raises(InputError, match="adapted to one domain already"):
        adapted.adapt(x[:5], y[:5])


def test_too_few_domains_give_infinite_intervals_and_one_line():
    x, y, domains = schools(8)
    with pytest.warns(
        UserWarning, match="infinite: a domain confidence of 0.9 takes 9 calibration domains .* there are 8"
    ):
        model = PromisedIntervalRegressor(LinearRegression(), few_labels=(), random_state=0).fit(x, y, domains=domains)
    assert np.isinf(model.predict_interval(x)).all()


def test_a_report_on_intervals_is_certified_as_one_on_sets():
    x, y, domains = schools(80, seed=5)
    known = np.isin(domains, np.unique(domains)[:40])
    model = PromisedIntervalRegressor(LinearRegression(), random_state=0).fit(
        x[known], y[known], domains=domains[known]
    )
    report = model.domain_report(x[~known], y[~known], domains[~known])
    frame = report.to_frame()
    assert list(frame.columns[:6]) == ["n", "coverage", "width", "own_width", "below", "above"]
    assert np.allclose(frame["coverage"] + frame["below"] + frame["above"], 1)
    assert certify(report, 0.9).domains.n_domains == 40


def test_the_same_seed_gives_the_same_intervals():
    x, y, domains = schools(40)
    one, other = (
        PromisedIntervalRegressor(LinearRegression(), random_state=3).fit(x, y, domains=domains) for _ in range(2)
    )
    assert np.array_equal(one.predict_interval(x), other.predict_interval(x))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["low"] * 60, "y holds 'low', which is not a number; classes take PromisedSetClassifier"),
        ([np.inf] + [1.0] * 59, "y holds inf in row 1"),
        ([1.0] * 60, "y is 1 in all rows; there is nothing to predict"),
        (np.datetime64("2026-01-01") + np.arange(60), "y holds dates or times"),
        ([1.0] * 59, "60"),
    ],
)
def test_values_that_are_no_numbers_are_refused_in_one_line(values, message):
    x, domains = np.random.default_rng(0).normal(size=(60, 1)), np.arange(60) % 10
    with pytest.raises(InputError, match=message) as refused:
        PromisedIntervalRegressor(LinearRegression()).fit(x, values, domains=domains)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("estimator", "settings", "message"),
    [
        (LogisticRegression(), {}, "LogisticRegression is a classifier; PromisedSetClassifier predicts sets"),
        (LinearRegression(), {"score": "quantile"}, "needs a regressor with the parameter quantile"),
        (LinearRegression(), {"calibration": "prefit"}, "calibration='prefit' fits nothing"),
        (LinearRegression(), {"target_coverage": 90}, "between 0 and 1, got 90"),
        (LinearRegression(), {"score": "scale"}, "score"),
        (LinearRegression(), {"min_domain_size": 500}, "no domain has 500 rows or more"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(estimator, settings, message):
    x, y, domains = schools(12)
    with pytest.raises(InputError, match=message):
        PromisedIntervalRegressor(estimator, **settings).fit(x, y, domains=domains)
    if settings == {}:
        with pytest.raises(InputError, match="needs the domain of each row"):
            PromisedIntervalRegressor(LinearRegression()).fit(x, y)


@pytest.mark.parametrize("trees", [HistGradientBoostingRegressor(max_iter=5), RandomForestRegressor(5, random_state=0)])
def test_a_saved_model_predicts_the_same_without_scikit_learn(trees, tmp_path):
    x, y, domains = schools(30, 60, effect=3.0)
    frame = pd.DataFrame(x, columns=["hours", "age"])
    pipeline = make_pipeline(TableEncoder(scale=False), trees)
    model = PromisedIntervalRegressor(pipeline, random_state=0).fit(frame, y, domains=domains)
    for kept in (model, model.adapt(frame[:40], y[:40])):
        save(kept, tmp_path / "model")
        assert not list((tmp_path / "model").glob("*.skops"))
        for loaded in (load(tmp_path / "model"), load_to_predict(tmp_path / "model")):
            assert np.array_equal(loaded.predict_interval(frame), kept.predict_interval(frame))
    assert type(load_to_predict(tmp_path / "model")) is IntervalPredictor


def test_a_loss_whose_output_is_no_number_cannot_be_saved(tmp_path):
    x, y, domains = schools(30)
    trees = HistGradientBoostingRegressor(loss="poisson", max_iter=2)
    model = PromisedIntervalRegressor(trees, score="absolute", random_state=0).fit(x, np.abs(y), domains=domains)
    with pytest.raises(InputError, match="with the loss 'poisson' cannot be saved"):
        save(model, tmp_path / "model")
