"""Links: margins become probabilities, probabilities become log-odds."""

import numpy as np

from domaincover.calibration.links import fit_link, log_odds, mean_probabilities


def test_a_link_finds_the_softmax_that_labels_were_drawn_from():
    rng = np.random.default_rng(0)
    margins = 3 * rng.normal(size=(20000, 3))
    raised = np.exp(0.7 * margins + [0.5, 0.0, -0.5])
    probabilities = raised / raised.sum(axis=1, keepdims=True)
    labels = (rng.random((20000, 1)) > np.cumsum(probabilities, axis=1)[:, :-1]).sum(axis=1)
    link = fit_link(margins, labels)
    assert abs(link.unit - 0.7) < 0.03
    assert np.abs(np.exp(link.log_probabilities(margins)) - probabilities).max() < 0.03


def test_a_link_stays_finite_where_margins_tell_labels_apart_and_where_they_tell_nothing():
    labels = np.arange(100) % 2
    apart = fit_link(np.where(np.eye(2)[labels] > 0, 1.0, -1.0), labels)
    assert np.isfinite(apart.unit)
    assert np.exp(apart.log_probabilities(np.array([[1.0, -1.0]])))[0, 0] > 0.99
    nothing = fit_link(np.zeros((100, 2)), labels)
    assert np.allclose(np.exp(nothing.log_probabilities(np.zeros((1, 2)))), 0.5)
    reversed_ = fit_link(np.where(np.eye(2)[labels] > 0, -1.0, 1.0), labels)
    assert reversed_.unit == 0.0  # a higher margin never makes a label less likely


def test_log_odds_are_exact_to_six_decimals_for_probabilities_near_one():
    small = 3e-12  # so that 1 − p, computed as such, would be off by more than that
    found = log_odds(np.array([[1 - small, small / 4, 3 * small / 4]]))
    assert found[0, 0] == np.round(np.log((1 - small) / small), 6)
    assert found[0, 0] != np.round(np.log(1 - small) - np.log(1 - (1 - small)), 6)
    assert np.allclose(log_odds(np.array([[0.2, 0.3, 0.5]])), np.log([[0.2 / 0.8, 0.3 / 0.7, 1.0]]))
    assert np.isfinite(log_odds(np.array([[0.0, 1.0]]))).all()


def test_the_mean_of_models_has_the_mean_of_their_log_odds_with_two_labels():
    by_model = np.array([[[0.2, 0.8]], [[0.6, 0.4]]])
    mean = mean_probabilities(np.log(by_model))
    assert np.allclose(log_odds(mean), log_odds(by_model[0]) / 2 + log_odds(by_model[1]) / 2)


def test_a_row_of_which_nothing_is_known_reaches_every_threshold():
    assert np.array_equal(log_odds(np.array([[np.nan, np.nan], [0.5, 0.5]])), [[np.inf, np.inf], [0, 0]])


def test_a_label_that_a_scorer_has_not_met_has_probability_zero():
    rng = np.random.default_rng(0)
    margins, labels = rng.normal(size=(500, 3)), rng.integers(3, size=500)
    whole = fit_link(margins[:400], labels[:400])
    margins[400:, 2] = -np.inf
    link = fit_link(margins, labels)
    assert np.isfinite([link.unit, *link.intercept]).all()
    assert np.abs(link.intercept - whole.intercept).max() < 0.3
    for unit in (link.unit, 0.0):
        found = link._replace(unit=unit).log_probabilities(margins)
        assert np.array_equal(np.isneginf(found[:, 2]), np.arange(500) >= 400)
