import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import domaincover
from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    GaussianDomains,
    InputError,
    MeanClassifier,
    PromisedSetClassifier,
    SetCoverClassifier,
)
from domaincover.estimators.recipes import make_classifier
from domaincover.estimators.scorer_fits import fit_on_each

DATA = GaussianDomains.of_paper(4).sample(12, 60, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains


def mean_of_two():
    network = ERMClassifier(epochs=2, random_state=0)
    return MeanClassifier([("network", network), ("linear", LogisticRegression())])


def test_probabilities_are_the_normalised_geometric_mean():
    model = mean_of_two().fit(X, Y, domains=DOMAINS)
    parts = [ERMClassifier(epochs=2, random_state=0).fit(X, Y, domains=DOMAINS), LogisticRegression().fit(X, Y)]
    product = np.sqrt(parts[0].predict_proba(X).astype(float) * parts[1].predict_proba(X))
    np.testing.assert_allclose(model.predict_proba(X), product / product.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(np.exp(model.label_scores(X)), model.predict_proba(X))


def test_domains_go_to_the_classifiers_that_take_them():
    network, linear = mean_of_two().fit(X, Y, domains=DOMAINS).estimators_
    assert len(network.domains_) == 12
    assert not hasattr(linear, "domains_")


def test_the_set_is_the_most_likely_label():
    model = mean_of_two().fit(X, Y, domains=DOMAINS)
    assert np.array_equal(model.predict_set(X).argmax(axis=1), model.predict_proba(X).argmax(axis=1))
    assert (model.predict_set(X).sum(axis=1) == 1).all()


def test_parameters_of_its_classifiers_are_set_by_name():
    model = clone(mean_of_two()).set_params(linear__C=0.5, network__epochs=1)
    assert model.estimators[1][1].C == 0.5
    assert model.get_params()["network__epochs"] == 1
    replaced = model.set_params(linear=LogisticRegression(C=7))
    assert replaced.get_params()["linear__C"] == 7


class Rare(LogisticRegression):
    """Gives no probability at all to the first label."""

    def predict_proba(self, X):
        found = super().predict_proba(X)
        found[:, 0], found[:, 1] = 0, 1
        return found


def test_a_probability_of_zero_leaves_the_mean_finite():
    scores = MeanClassifier([("a", Rare()), ("b", LogisticRegression())]).fit(X, Y).label_scores(X)
    assert np.isfinite(scores).all()
    assert (scores[:, 0] < scores[:, 1]).all()


@pytest.mark.parametrize("of", [ConformalSetClassifier, PromisedSetClassifier])
def test_it_is_a_scorer_and_can_be_saved(of, tmp_path):
    model = of(make_classifier("robust", "mlp+boosting", training={"epochs": 2}, random_state=0).estimator)
    model.set_params(estimator__boosting__histgradientboostingclassifier__max_iter=3, random_state=0)
    model.fit(X, Y, domains=DOMAINS)
    model.save(tmp_path / "model")
    loaded = domaincover.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_set(X), model.predict_set(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert type(loaded.input_encoder_).__name__ == "TableEncoder"


@pytest.mark.parametrize("as_if_alone", [False, True])
def test_fits_on_several_sets_of_rows_train_the_networks_as_one_stack(as_if_alone):
    rows = [np.flatnonzero(k != DOMAINS % 3) for k in range(3)]
    means = fit_on_each(mean_of_two(), X, Y, DOMAINS, rows, as_if_alone)
    networks = fit_on_each(mean_of_two().estimators[0][1], X, Y, DOMAINS, rows, as_if_alone)
    for mean, network, own in zip(means, networks, rows, strict=True):
        assert np.array_equal(mean.estimators_[0].label_scores(X), network.label_scores(X))
        linear = LogisticRegression().fit(X[own], Y[own])
        assert np.array_equal(mean.estimators_[1].predict_proba(X), linear.predict_proba(X))
        assert mean.domains_.tolist() == np.unique(DOMAINS[own]).tolist()


def test_a_mean_inside_a_mean_counts_as_one_classifier():
    inner = MeanClassifier([("a", LogisticRegression()), ("b", LogisticRegression())])
    nested = MeanClassifier([("inner", inner), ("c", LogisticRegression(C=0.01))]).fit(X, Y)
    flat = MeanClassifier([("a", LogisticRegression()), ("c", LogisticRegression(C=0.01))]).fit(X, Y)
    np.testing.assert_allclose(nested.predict_proba(X), flat.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize(
    ("estimators", "message"),
    [
        ([], "at least one"),
        ([LogisticRegression()], r"\(name, classifier\) pairs"),
        ([("a", LogisticRegression()), ("a", LogisticRegression())], "not unique"),
        ([("a__b", LogisticRegression())], "must not contain __"),
        ([("cover", SetCoverClassifier())], "'cover', a SetCoverClassifier, has no predict_proba"),
    ],
)
def test_estimators_that_have_no_mean_are_rejected(estimators, message):
    with pytest.raises(InputError, match=message):
        MeanClassifier(estimators).fit(X, Y)


def test_a_probability_of_zero_does_not_outvote_the_other_classifiers():
    tree, linear = DecisionTreeClassifier(min_samples_leaf=20, random_state=0), LogisticRegression()
    gaussian = GaussianDomains.of_paper(n_features=10)
    old, new = (gaussian.sample(n, 100, np.random.default_rng(seed)) for n, seed in ((40, 0), (100, 1)))
    mean = MeanClassifier([("tree", tree), ("linear", linear)])
    model = PromisedSetClassifier(mean, random_state=0).fit(old.examples, old.labels, domains=old.domains)
    assert (model.predictors_[0].lowest_[0] > 0.001).all()
    tolerance = 4 * np.sqrt(0.9 * 0.1 * (1 / 100 + 1 / 41))
    for kind in ("fixed", "adapted"):
        report = model.domain_report(new.examples, new.labels, new.domains, min_cell_size=20, thresholds=kind)
        assert report.summary(0.9).share_at_target >= 0.9 - tolerance
