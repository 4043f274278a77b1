"""How the classifiers inside others are fitted: weights of rows, and several processes."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    MeanClassifier,
    PromisedSetClassifier,
    SetCoverClassifier,
)
from domaincover.estimators.scorer_fits import fit_on_each

DATA = GaussianDomains.of_paper(4).sample(12, 60, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
WEIGHTS = np.random.default_rng(1).uniform(0.1, 5, len(X))
AROUND = [
    lambda inner: ConformalSetClassifier(inner, "single"),
    lambda inner: MeanClassifier([("a", inner)]),
    lambda inner: ConformalSetClassifier(MeanClassifier([("a", inner)]), "single"),
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("inner", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_weights_of_rows_reach_the_fit_of_the_estimator(inner, around):
    model = around(inner).fit(X, Y, domains=DOMAINS, sample_weight=WEIGHTS)
    is_pipeline = hasattr(inner, "steps")
    alone = inner.fit(X, Y, **{"logisticregression__sample_weight" if is_pipeline else "sample_weight": WEIGHTS})
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X))
    assert not np.allclose(model.predict_proba(X), around(inner).fit(X, Y, domains=DOMAINS).predict_proba(X))


def test_each_fold_has_the_weights_of_its_own_rows():
    model = PromisedSetClassifier(LogisticRegression(), folds=3, random_state=0, min_cell_size=5)
    weighted = model.fit(X, Y, domains=DOMAINS, sample_weight=WEIGHTS).predict_proba(X)
    equal = model.fit(X, Y, domains=DOMAINS, sample_weight=np.ones(len(X))).predict_proba(X)
    plain = model.fit(X, Y, domains=DOMAINS).predict_proba(X)
    np.testing.assert_allclose(equal, plain)
    assert not np.allclose(weighted, plain)


def test_weights_are_routed_where_routing_is_on():
    with config_context(enable_metadata_routing=True):
        inner = make_pipeline(StandardScaler(), LogisticRegression())
        model = ConformalSetClassifier(inner, "single").fit(X, Y, domains=DOMAINS, sample_weight=WEIGHTS)
    alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y, logisticregression__sample_weight=WEIGHTS)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize("inner", [KNeighborsClassifier(), ERMClassifier(epochs=1), SetCoverClassifier(epochs=1)])
@pytest.mark.parametrize("around", [lambda inner: ConformalSetClassifier(inner, "single"), AROUND[1]])
def test_weights_that_an_estimator_would_not_use_are_rejected(inner, around):
    if around is AROUND[1] and not hasattr(inner, "predict_proba"):
        return
    with pytest.raises(InputError, match=rf"{type(inner).__name__}.fit takes no sample_weight"):
        around(inner).fit(X, Y, domains=DOMAINS, sample_weight=WEIGHTS)


def test_weights_of_another_number_of_rows_are_rejected():
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        ConformalSetClassifier(LogisticRegression()).fit(X, Y, domains=DOMAINS, sample_weight=WEIGHTS[:-1])


@pytest.mark.parametrize("calibration", ["cross-fit", "jackknife-minmax"])
def test_two_processes_fit_what_one_does(calibration):
    settings = {"calibration": calibration, "random_state": 0, "min_cell_size": 5, "domain_confidence": 0.5}
    one, two = (
        PromisedSetClassifier(LogisticRegression(), n_jobs=n_jobs, **settings).fit(X, Y, domains=DOMAINS)
        for n_jobs in (None, 2)
    )
    assert np.array_equal(one.label_scores(X), two.label_scores(X))
    assert np.array_equal(one.thresholds_, two.thresholds_)


@pytest.mark.parametrize(
    ("model", "method"),
    [(ERMClassifier(), "predict_set"), (SetCoverClassifier(), "fit"), (PromisedSetClassifier(None), "certify")],
)
def test_an_error_about_a_wrong_argument_names_the_class_that_was_called(model, method):
    with pytest.raises(TypeError, match=rf"{type(model).__name__}\.{method}\(\) got an unexpected keyword"):
        getattr(model, method)(X, Y, wrong=1)


@pytest.mark.parametrize("column", [pd.Timestamp("2026-01-31"), "ward A"])
def test_a_classifier_that_cannot_read_a_column_is_pointed_to_the_encoder(column):
    table = pd.DataFrame({"dose": X[:, 0], "seen": column})
    for inner in (HistGradientBoostingClassifier(max_iter=2), LogisticRegression()):
        name = type(inner).__name__
        message = rf"{name} cannot be fitted on a table whose column 'seen' is not of numbers; encode it first: "
        for around in (PromisedSetClassifier, ConformalSetClassifier):
            with pytest.raises(InputError, match=rf"{message}make_pipeline\(TableEncoder\(\), {name}"):
                around(inner).fit(table, Y, domains=DOMAINS)


def test_categories_that_a_classifier_reads_are_left_to_it():
    table = pd.DataFrame({"dose": X[:, 0], "ward": pd.Categorical(["A", "B"] * (len(X) // 2))})
    model = ConformalSetClassifier(HistGradientBoostingClassifier(max_iter=2)).fit(table, Y, domains=DOMAINS)
    assert model.predict_set(table).shape == (len(X), 2)


def test_fits_on_large_tables_say_how_many_there_are_and_how_long_they_may_take(monkeypatch, caplog):
    monkeypatch.setattr("domaincover.estimators.scorer_fits.LARGE", 100)
    clock = iter([0.0, 0.0, 90.0, 180.0])
    monkeypatch.setattr("domaincover.estimators.scorer_fits.time", SimpleNamespace(monotonic=lambda: next(clock)))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    with caplog.at_level("INFO", "domaincover"):
        fit_on_each(pipeline, X, Y, DOMAINS, [np.arange(120), np.arange(240), np.arange(480)])
    assert [each.getMessage() for each in caplog.records] == [
        "LogisticRegression: fit 1 of 3, on 120 rows",
        "LogisticRegression: fit 2 of 3, on 240 rows; about 180 s left",
        "LogisticRegression: fit 3 of 3, on 480 rows; about 90 s left",
    ]
