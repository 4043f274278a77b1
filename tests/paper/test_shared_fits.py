"""Several classifiers fitted at once: what they share, and that each is as if fitted alone."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    PromisedSetClassifier,
    SetCoverClassifier,
)
from domaincover.estimators import stacked_fit
from domaincover.paper.shared_fits import fit_all
from domaincover.terminal.processes import one_thread
from domaincover.training.listeners import Listener
from domaincover.training.settings import TrainingRun

DATA = GaussianDomains.of_paper(4).sample(12, 40, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains
ALL = (X, Y, DOMAINS)
QUICK = {"epochs": 2, "hidden": 4, "validation_domains": 0, "random_state": 0}


@pytest.fixture(autouse=True)
def in_one_thread():
    with one_thread():
        yield


@pytest.fixture
def stacks(monkeypatch):
    """Collect the sizes of the stacks that train."""
    sizes, train = [], stacked_fit.train
    monkeypatch.setattr(
        stacked_fit,
        "train",
        lambda networks, *rest, **how: sizes.append(len(networks)) or train(networks, *rest, **how),
    )
    return sizes


def conformal(rule, base=None, **settings):
    return ConformalSetClassifier(base or ERMClassifier(**QUICK), rule, min_cell_size=1, random_state=0, **settings)


def test_rows_are_encoded_once_for_scores_and_sets_of_a_shared_network(monkeypatch):
    (model,) = fit_all([SetCoverClassifier(**QUICK)], [ALL])
    seen, encode = [], type(model.encoder_).encode
    monkeypatch.setattr(type(model.encoder_), "encode", lambda self, rows: seen.append(len(rows)) or encode(self, rows))
    sets, scores = model.predict_set(X), model.label_scores(X)
    assert seen == [len(X)]
    assert np.array_equal(sets, ~(scores < model.thresholds_.astype(np.float32)))


def test_rules_on_the_same_network_train_it_once(stacks):
    models = [ERMClassifier(**QUICK), *(conformal(rule, calibration="training-data") for rule in ("robust", "pooled"))]
    erm, robust, pooled = fit_all(models, [ALL] * 3)
    assert stacks == [1]
    assert robust.estimator_ is pooled.estimator_ is erm
    for together, model in zip((erm, robust, pooled), models, strict=True):
        alone = clone(model).fit(X, Y, domains=DOMAINS)
        assert np.array_equal(together.predict_set(X), alone.predict_set(X))


def test_equal_promised_models_on_the_same_rows_are_fitted_once(stacks):
    models = [PromisedSetClassifier(ERMClassifier(**QUICK), min_cell_size=5, random_state=0) for _ in "ab"]
    other = clone(models[0]).set_params(target_recall=0.8)
    first, second, third = fit_all([*models, other], [ALL] * 3)
    assert first is second
    assert first is not third
    assert sum(stacks) == 2 * 5
    assert np.array_equal(first.predict_set(X), clone(models[0]).fit(X, Y, domains=DOMAINS).predict_set(X))


def test_other_rows_seeds_and_settings_are_networks_of_their_own(stacks):
    others = [{"random_state": 1}, {"epochs": 3}, {"hidden": 5}]
    models = [ERMClassifier(**QUICK), *(ERMClassifier(**QUICK | other) for other in others), conformal("pooled")]
    fitted = fit_all(models, [ALL] * 5)
    assert len({id(getattr(model, "estimator_", model)) for model in fitted}) == 5
    assert sorted(stacks) == [1, 1, 1, 2], "only seeds differ in the stack of two"


@pytest.mark.parametrize("validation_domains", [0, 0.3])
def test_both_iterates_of_one_training_are_those_of_two(stacks, validation_domains):
    settings = QUICK | {"epochs": 12, "learning_rate": 0.05, "update_every": 2, "recall_from": "full-pass"}
    settings |= {"validation_domains": validation_domains, "min_cell_size": 5}
    last, best, other = (
        SetCoverClassifier(0.9, **settings, iterate="last"),
        SetCoverClassifier(0.9, **settings, iterate="best"),
        SetCoverClassifier(0.8, **settings, iterate="last"),
    )
    fitted = fit_all([last, best, other], [ALL] * 3)
    assert sorted(stacks) == [1, 1], "the two iterates are one network"
    assert not np.array_equal(fitted[0].label_scores(X), fitted[1].label_scores(X))
    for model, kept in zip(fitted, ("last", "best", "last"), strict=True):
        alone = clone(model).fit(X, Y, domains=DOMAINS)
        assert model.iterate == kept
        assert np.array_equal(model.label_scores(X), alone.label_scores(X))
        assert np.array_equal(model.thresholds_, alone.thresholds_)
        pd.testing.assert_frame_equal(model.multipliers_, alone.multipliers_)
        pd.testing.assert_frame_equal(model.history_, alone.history_)


def test_networks_train_as_one_stack_only_with_equally_many_rows(stacks):
    fewer = np.flatnonzero(DOMAINS > 0)
    models = [SetCoverClassifier(target, **QUICK) for target in (0.8, 0.9, 0.9)]
    part = tuple(each[fewer] for each in ALL)
    fitted = fit_all(models, [ALL, ALL, part])
    assert sorted(stacks) == [1, 2]
    for model, data in zip(fitted, (ALL, ALL, part), strict=True):
        alone = clone(model).fit(data[0], data[1], domains=data[2])
        np.testing.assert_allclose(model.label_scores(X), alone.label_scores(X), atol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        conformal("pooled", calibration="held-out-domains"),
        conformal("robust", LogisticRegression()),
        PromisedSetClassifier(ERMClassifier(**QUICK), domain_confidence=0.5, folds=3, min_cell_size=5, random_state=0),
    ],
)
def test_any_classifier_is_as_if_fitted_alone(model):
    (together,) = fit_all([clone(model)], [ALL])
    alone = clone(model).fit(X, Y, domains=DOMAINS)
    assert np.array_equal(together.predict_set(X), alone.predict_set(X))
    assert np.array_equal(together.thresholds_, alone.thresholds_)


def test_a_prefit_estimator_is_left_as_it_is(stacks):
    erm = ERMClassifier(**QUICK).fit(X, Y, domains=DOMAINS)
    (model,) = fit_all([conformal("robust", erm, calibration="prefit")], [ALL])
    assert model.estimator_ is erm
    assert stacks == [1], "that of its own fit"


def test_a_classifier_that_takes_no_domains_is_given_none():
    (model,) = fit_all([LogisticRegression()], [ALL])
    assert np.array_equal(model.predict(X), LogisticRegression().fit(X, Y).predict(X))


def test_a_listener_hears_of_every_epoch_of_every_stack():
    class Hears(Listener):
        def start(self, epochs, n_batches, n_networks=1):  # noqa: ARG002
            self.n_networks = n_networks

        def epoch(self, n_done):  # noqa: ARG002
            heard.append(self.n_networks)

    heard = []
    run = TrainingRun(listeners=(Hears(),))
    promised = PromisedSetClassifier(
        ERMClassifier(**QUICK, run=run), domain_confidence=0.5, folds=3, min_cell_size=5, random_state=0
    )
    fit_all([SetCoverClassifier(0.9, **QUICK, run=run), promised], [ALL, ALL])
    assert heard == [1, 1, 3, 3]
