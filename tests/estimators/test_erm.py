import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from domaincover import ERMClassifier, GaussianDomains, InputError

DATA = GaussianDomains.of_paper(4).sample(6, 100, np.random.default_rng(0))
X, Y, DOMAINS = DATA.examples, DATA.labels, DATA.domains


@pytest.fixture(scope="module")
def model():
    return ERMClassifier(epochs=20, random_state=0).fit(X, Y, domains=DOMAINS)


def test_a_set_is_the_predicted_label_alone(model):
    sets = model.predict_set(X)
    assert (sets.sum(axis=1) == 1).all()
    assert np.array_equal(model.classes_[sets.argmax(axis=1)], model.predict(X))


def test_probabilities_sum_to_one_and_are_the_exponentials_of_the_scores(model):
    probabilities = model.predict_proba(X)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.log(probabilities), model.label_scores(X), atol=1e-5)


def test_there_are_no_multipliers_or_thresholds(model):
    assert not hasattr(model, "multipliers_")
    assert not hasattr(model, "thresholds_")


def test_domains_matter_only_to_hold_some_out():
    settings = {"epochs": 5, "random_state": 0, "validation_domains": 0}
    with_domains = ERMClassifier(**settings).fit(X, Y, domains=DOMAINS)
    without = ERMClassifier(**settings).fit(X, Y)
    assert np.array_equal(with_domains.label_scores(X), without.label_scores(X))


def test_a_linear_network_learns_what_logistic_regression_does():
    settings = {"network": "linear", "epochs": 200, "learning_rate": 0.02, "validation_domains": 0}
    model = ERMClassifier(random_state=0, **settings).fit(X, Y, domains=DOMAINS)
    scaled = StandardScaler().fit_transform(X)
    exact = LogisticRegression(C=np.inf).fit(scaled, Y).predict_proba(scaled)
    # The rate has fallen to 0, so the weights stand still at the minimum; far values are drawn in, hence the slack.
    assert np.abs(model.predict_proba(X) - exact).max() < 0.02


def test_a_label_is_as_likely_as_it_is_frequent_where_examples_tell_nothing():
    labels = np.repeat([0, 1, 2], [120, 60, 20])
    model = ERMClassifier(network="linear", epochs=100, learning_rate=0.05, random_state=0).fit(
        np.zeros((200, 1)), labels
    )
    np.testing.assert_allclose(model.predict_proba([[0.0]])[0], [0.6, 0.3, 0.1], atol=0.01)


def test_the_double_softmax_is_minimised_where_it_is_asked_for():
    """Where examples tell nothing, its minimum is at other probabilities than the frequencies of the labels."""
    labels = np.repeat([0, 1], [120, 80])
    settings = {"network": "linear", "epochs": 200, "learning_rate": 0.05, "validation_domains": 0, "random_state": 0}
    model = ERMClassifier(loss="double-softmax", **settings).fit(np.zeros((200, 1)), labels)
    p = np.linspace(0, 1, 100_001)
    losses = 0.6 * np.log1p(np.exp(1 - 2 * p)) + 0.4 * np.log1p(np.exp(2 * p - 1))
    np.testing.assert_allclose(model.predict_proba([[0.0]])[0, 0], p[losses.argmin()], atol=0.01)
    assert p[losses.argmin()] > 0.65


def test_an_unknown_loss_is_refused():
    with pytest.raises(InputError, match="loss must be one of 'cross-entropy', 'double-softmax', got 'hinge'"):
        ERMClassifier(loss="hinge").fit(X, Y, domains=DOMAINS)
