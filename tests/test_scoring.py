import pickle  # noqa: TID251 - what joblib does to a scorer on its way to another process

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    PromisedSetClassifier,
    SetCoverClassifier,
    predict_set,
)
from domaincover.scoring import mean_size_scorer, min_recall_scorer, share_at_target_scorer

DATA = GaussianDomains.of_paper(4).sample(6, 60, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
SCORERS = {"recall": min_recall_scorer, "share": share_at_target_scorer, "size": mean_size_scorer}
each_scorer = pytest.mark.parametrize("scorer", SCORERS.values(), ids=SCORERS.keys())


@pytest.fixture
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def set_cover(**settings):
    return SetCoverClassifier(**{"epochs": 3, "random_state": 0} | settings)


def conformal(**settings):
    return ConformalSetClassifier(LogisticRegression(), random_state=0, min_cell_size=1, **settings)


def as_reported(model, rows=slice(None), target=0.9):
    """Return what the three scorers should say, straight from the report."""
    report = model.domain_report(X[rows], Y[rows], DOMAINS[rows])
    summary = report.summary(target)
    return {"recall": summary.min_recall, "share": summary.share_at_target, "size": -report.set_size.mean()}


@pytest.mark.parametrize("model", [set_cover(), ERMClassifier(epochs=3, random_state=0), conformal()], ids=repr)
def test_scores_are_the_numbers_of_the_report(model):
    trained = clone(model).fit(X, Y, domains=DOMAINS)
    assert {name: scorer(trained, X, Y, domains=DOMAINS) for name, scorer in SCORERS.items()} == as_reported(trained)


def test_the_share_is_that_at_the_models_own_target():
    model = conformal(target_recall=0.6).fit(X, Y, domains=DOMAINS)
    assert share_at_target_scorer(model, X, Y, DOMAINS) == as_reported(model, target=0.6)["share"]
    assert share_at_target_scorer(model, X, Y, DOMAINS) > as_reported(model, target=0.9)["share"]


def test_another_target_may_be_asked_for():
    model = conformal(target_recall=0.6).fit(X, Y, domains=DOMAINS)
    assert share_at_target_scorer.with_target(0.9)(model, X, Y, DOMAINS) == as_reported(model, target=0.9)["share"]
    with pytest.raises(InputError, match="between 0 and 1, got 90"):
        share_at_target_scorer.with_target(90)


def test_sets_are_adapted_to_the_domains_that_are_given():
    data = GaussianDomains.of_paper(4).sample(15, 100, np.random.default_rng(0))
    given = data.examples, data.labels, data.domains
    model = PromisedSetClassifier(LogisticRegression(), random_state=0).fit(*given[:2], domains=data.domains)
    adapted, fixed = (model.predict_set(data.examples, domains=domains).sum() for domains in (data.domains, None))
    assert adapted != fixed
    assert mean_size_scorer(model, *given) == pytest.approx(-adapted / len(data.labels))


def test_smaller_sets_score_higher():
    small, large = (conformal(target_recall=target).fit(X, Y, domains=DOMAINS) for target in (0.5, 0.95))
    assert mean_size_scorer(small, X, Y, DOMAINS) > mean_size_scorer(large, X, Y, DOMAINS)


@each_scorer
def test_a_scorer_is_pickled_and_cloned_whole(scorer):
    model = conformal().fit(X, Y, domains=DOMAINS)
    value = scorer.with_target(0.7)(model, X, Y, DOMAINS)
    for copy in (pickle.loads(pickle.dumps(scorer.with_target(0.7))), clone(scorer.with_target(0.7), safe=False)):  # noqa: S301
        assert copy(model, X, Y, DOMAINS) == value
        assert repr(copy) == repr(scorer)


@pytest.mark.usefixtures("_routing")
def test_scorers_go_to_other_processes():
    model, options = conformal().set_fit_request(domains=True), {"scoring": min_recall_scorer, "cv": 3}
    here, there = (
        cross_val_score(model, X, Y, params={"domains": DOMAINS}, n_jobs=n_jobs, **options) for n_jobs in (None, 2)
    )
    assert np.isfinite(here).all()
    assert np.array_equal(here, there)


FIX = r"was given none: call sklearn.set_config\(enable_metadata_routing=True\), then pass domains=…"


@each_scorer
def test_without_domains_there_is_no_score(scorer):
    with pytest.raises(InputError, match=FIX):
        scorer(conformal().fit(X, Y, domains=DOMAINS), X, Y)


def test_without_routing_a_search_has_no_score_and_says_why():
    search = GridSearchCV(conformal(), {"target_recall": [0.8, 0.9]}, scoring=min_recall_scorer, cv=3)
    with pytest.raises(InputError, match=FIX):
        clone(search).set_params(error_score="raise").fit(X, Y)
    with pytest.warns(UserWarning, match=FIX), pytest.warns(UserWarning, match="non-finite"):
        search.fit(X, Y)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


@pytest.mark.usefixtures("_routing")
def test_cross_validation_scores_by_domain_with_several_scorers():
    model = conformal().set_fit_request(domains=True)
    splits = list(GroupKFold(3).split(X, Y, DOMAINS))
    found = cross_validate(model, X, Y, scoring=SCORERS, cv=splits, params={"domains": DOMAINS})
    for fold, (train, test) in enumerate(splits):
        trained = clone(model).fit(X[train], Y[train], domains=DOMAINS[train])
        assert {name: found[f"test_{name}"][fold] for name in SCORERS} == as_reported(trained, test)


@pytest.mark.usefixtures("_routing")
def test_folds_and_models_and_scorers_take_domains_by_routing():
    model = set_cover().set_fit_request(domains=True)
    splitter = GroupKFold(3).set_split_request(groups="domains")
    found = cross_validate(
        model,
        X,
        Y,
        scoring=SCORERS,
        cv=splitter,
        params={"domains": DOMAINS},
        return_estimator=True,
        return_indices=True,
    )
    for fold, trained in enumerate(found["estimator"]):
        rows = found["indices"]["test"][fold]
        assert set(trained.domains_).isdisjoint(DOMAINS[rows])
        assert found["test_recall"][fold] == as_reported(trained, rows)["recall"]


@pytest.mark.usefixtures("_routing")
def test_a_search_over_domains_finds_the_settings_that_its_scorer_likes():
    search = GridSearchCV(
        set_cover().set_fit_request(domains=True),
        {"target_recall": [0.5, 0.99]},
        scoring=min_recall_scorer,
        cv=GroupKFold(3),
    )
    search.fit(X, Y, domains=DOMAINS, groups=DOMAINS)
    assert search.best_params_ == {"target_recall": 0.99}
    assert search.best_estimator_.domains_.tolist() == list(range(6))
    assert np.array_equal(predict_set(search, X), search.best_estimator_.predict_set(X))
    assert search.score(X, Y, domains=DOMAINS) == as_reported(search.best_estimator_, target=0.99)["recall"]


@pytest.mark.usefixtures("_routing")
def test_a_search_with_several_scorers_is_refitted_by_one():
    search = GridSearchCV(
        conformal().set_fit_request(domains=True),
        {"rule": ["robust", "pooled", "single"]},
        scoring=SCORERS,
        refit="size",
        cv=GroupKFold(3),
        n_jobs=2,
    )
    search.fit(X, Y, domains=DOMAINS, groups=DOMAINS)
    results = pd.DataFrame(search.cv_results_).set_index("param_rule")
    assert results.mean_test_size.idxmax() == search.best_params_["rule"]
    assert results.mean_test_size["single"] == -1
    assert results.mean_test_recall["robust"] >= results.mean_test_recall["single"]


def test_a_pipeline_hands_domains_to_its_last_step():
    pipeline = make_pipeline(StandardScaler(), set_cover()).fit(X, Y, setcoverclassifier__domains=DOMAINS)
    alone = set_cover().fit(StandardScaler().fit_transform(X), Y, domains=DOMAINS)
    assert pipeline[-1].domains_.tolist() == list(range(6))
    assert np.array_equal(predict_set(pipeline, X), alone.predict_set(StandardScaler().fit_transform(X)))
    assert np.array_equal(pipeline.predict(X), alone.predict(StandardScaler().fit_transform(X)))


@pytest.mark.usefixtures("_routing")
def test_a_pipeline_hands_on_domains_by_routing():
    last = set_cover().set_fit_request(domains=True)
    pipeline = make_pipeline(StandardScaler(), last).fit(X, Y, domains=DOMAINS)
    assert pipeline[-1].domains_.tolist() == list(range(6))


@pytest.mark.usefixtures("_routing")
def test_a_search_over_a_pipeline_routes_domains_to_steps_and_scorer():
    pipeline = make_pipeline(StandardScaler(), set_cover().set_fit_request(domains=True))
    grid = {"setcoverclassifier__hidden": [4, 8]}
    search = GridSearchCV(pipeline, grid, scoring=mean_size_scorer, cv=GroupKFold(3))
    search.fit(X, Y, domains=DOMAINS, groups=DOMAINS)
    inner = search.best_estimator_[-1]
    assert np.array_equal(predict_set(search, X), inner.predict_set(search.best_estimator_[:-1].transform(X)))
    scaled = search.best_estimator_[0].transform(X)
    assert mean_size_scorer(search, X, Y, DOMAINS) == -inner.domain_report(scaled, Y, DOMAINS).set_size.mean()


def test_a_pipeline_of_one_step_is_its_step():
    pipeline = make_pipeline(set_cover()).fit(X, Y)
    assert np.array_equal(predict_set(pipeline, X), pipeline[0].predict_set(X))


def test_what_predicts_no_sets_is_refused_by_name():
    with pytest.raises(
        InputError, match="LogisticRegression does not predict sets; wrap it in a ConformalSetClassifier"
    ):
        predict_set(LogisticRegression().fit(X, Y), X)
    with pytest.raises(InputError, match="LogisticRegression does not predict sets"):
        min_recall_scorer(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y), X, Y, DOMAINS)


def test_a_scorer_says_what_it_is():
    assert repr(min_recall_scorer) == "<median min recall of the sets over domains>"


def test_domains_of_a_pipeline_set_thresholds_and_it_adapts_by_its_last_step():
    data = GaussianDomains.of_paper(4).sample(14, 100, np.random.default_rng(0))
    promised = PromisedSetClassifier(LogisticRegression(), few_labels=(), random_state=0)
    pipeline = make_pipeline(StandardScaler(), promised)
    pipeline.fit(data.examples, data.labels, promisedsetclassifier__domains=data.domains)
    inner, scaled = pipeline[-1], pipeline[:-1].transform(data.examples)
    expected = inner.predict_set(scaled, domains=data.domains)
    assert np.array_equal(predict_set(pipeline, data.examples, data.domains), expected)
    one = inner.adapt(scaled[data.domains == 3])
    assert one.predict_set(scaled[:5]).shape == (5, 2)
    with pytest.raises(InputError, match="ConformalSetClassifier has no promise"):
        predict_set(conformal().fit(X, Y, domains=DOMAINS), X, DOMAINS)
