"""Domains in an order: fits go forward, recent domains weigh more, and what comes next is judged by what came last."""

from copy import copy

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from domaincover import InputError, PromisedSetClassifier, assess, load, save
from domaincover.calibration.adaptation import order_statistic, recency_weights
from domaincover.estimators.base import Targets
from domaincover.estimators.scorer_fits import places_in_order, plan_parts

YEARS = list(range(1990, 2020))


def drifting(seed=0, years=YEARS, n_rows=100):
    """Return rows of domains in which two labels come closer to each other from year to year."""
    rng = np.random.default_rng(seed)
    years = np.repeat(years, n_rows)
    y = rng.integers(0, 2, len(years))
    X = rng.normal(size=(len(years), 2)) + (y * (2 - 0.05 * (years - years.min())))[:, None]
    return X, y, years


def as_written(residuals, confidence, weights):
    """The weighted order statistic, by trying every residual."""
    weights = np.where(np.isfinite(residuals), weights, 0)
    most = (1 - confidence) * (1 + weights.sum())
    allowed = [v for v in residuals[np.isfinite(residuals)] if 1 + weights[residuals < v].sum() <= most]
    return max(allowed, default=residuals.min())


@pytest.mark.parametrize("confidence", [0.8, 0.9])
def test_weighted_offsets_are_those_of_the_formula(confidence):
    rng = np.random.default_rng(1)
    for n_domains in (12, 40):
        residuals = rng.integers(0, 15, n_domains) / 4  # ties
        residuals[rng.random(n_domains) < 0.2] = np.inf
        weights = rng.random(n_domains) + 0.5
        counting = np.isfinite(residuals).sum()
        found = order_statistic(residuals[None], counting, confidence, weights)
        assert found == as_written(residuals, confidence, weights)


def test_equal_weights_change_nothing():
    rng = np.random.default_rng(2)
    residuals = rng.normal(size=(7, 3, 25))
    assert np.array_equal(order_statistic(residuals, 25, 0.9), order_statistic(residuals, 25, 0.9, np.ones(25)))


def test_domains_that_do_not_drift_are_at_target_as_often_as_promised():
    rng = np.random.default_rng(3)
    n_draws, n_domains = 4000, 40
    residuals = rng.normal(size=(n_draws, n_domains + 1))
    offsets = order_statistic(residuals[:, None, :-1], n_domains, 0.9, recency_weights(n_domains, 0.9))
    held = (residuals[:, -1] >= offsets).mean()
    assert held >= 0.9 - 4 * np.sqrt(0.9 * 0.1 / n_draws)


def test_weights_halve_the_misses_of_domains_that_drift():
    rng = np.random.default_rng(4)
    residuals = rng.normal(size=(2000, 61)) - 0.05 * np.arange(61)
    past, new = residuals[:, None, :-1], residuals[:, -1]
    missed = [(new < order_statistic(past, 60, 0.9, w)).mean() for w in (None, recency_weights(60, 0.9))]
    assert missed[1] < missed[0] / 2


@pytest.mark.parametrize("calibration", ["cross-fit", "held-out-domains"])
def test_no_fit_sees_the_future_of_what_it_calibrates(calibration):
    _, y, years = drifting()
    names, codes = np.unique(years, return_inverse=True)
    order = np.random.default_rng(5).permutation(names).tolist()
    targets = Targets(y, codes, np.unique(y), tuple(names.tolist()))
    places = places_in_order(names.tolist(), order)
    parts = plan_parts(targets, calibration, None, None, 0.9, np.random.default_rng(0), places)
    for part in parts:
        assert places[codes[part.train]].max() < places[codes[part.calibrate]].min()
    calibrated = np.concatenate([part.calibrate for part in parts])
    assert len(set(calibrated)) == len(calibrated)
    assert {"cross-fit": 25, "held-out-domains": 9}[calibration] == len(set(years[calibrated]))


def test_assess_judges_the_last_domains_and_a_record_follows_the_drift(tmp_path):
    X, y, years = drifting()
    model = PromisedSetClassifier(LogisticRegression(), domain_order=YEARS, random_state=0)
    found = assess(model, X, y, years, hold_out_domains=0.2, random_state=0)
    assert found.unseen["model"].domain_names == tuple(YEARS[-6:])
    save(found.model, tmp_path / "model")
    later = load(tmp_path / "model").record(*drifting(1, range(2020, 2030)))
    again = later.recalibrated()
    equal = copy(later)
    equal.domain_order = None
    assert (again.thresholds_ < equal.recalibrated().thresholds_).all()  # the last domains have the lowest residuals
    assert "the later of them weigh more" in again.promise


def test_an_order_that_does_not_fit_is_refused():
    X, y, years = drifting()
    model = PromisedSetClassifier(LogisticRegression())
    for order, said in (
        (YEARS[:-2], r"does not name domain 2018, 2019; name all"),
        ([*YEARS, 1990], "names a domain twice"),
    ):
        with pytest.raises(InputError, match=said):
            model.set_params(domain_order=order).fit(X, y, domains=years)
    with pytest.raises(InputError, match="no effect with calibration='jackknife-minmax'"):
        model.set_params(domain_order=YEARS, calibration="jackknife-minmax").fit(X, y, domains=years)
