"""The tests of a verdict against their integrals, and their error rates by repetition, read after every domain."""

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, kstest

from domaincover import InputError
from domaincover.calibration.rules import order_ranks
from domaincover.promises.verdict import (
    HeldOut,
    judged,
    log_e_model,
    log_e_promise,
    residual_ranks,
    share_bounds,
    verdict_lines,
)
from tests.report.made_up_domains import report

ALPHA, LEVEL = 0.05, np.log(20)


def running(at_target):
    """Return the number of hits and of domains after every domain, runs × domains."""
    return np.cumsum(at_target, axis=1), np.arange(1, at_target.shape[1] + 1)


def most(rate, n):
    """Return what a share of n runs exceeds with a probability of about 1e-4 if its mean is the rate."""
    return rate + 4 * np.sqrt(rate * (1 - rate) / n)


def mean_below(h, t, c):
    return quad(lambda p: p**h * (1 - p) ** (t - h), 0, c)[0] / c


@pytest.mark.parametrize(("h", "t"), [(0, 0), (0, 3), (3, 3), (15, 40), (37, 40)])
@pytest.mark.parametrize("c", [0.5, 0.9])
def test_the_e_value_against_the_models_share_is_the_likelihood_ratio_by_integration(h, t, c):
    assert np.exp(log_e_model(h, t, c)) == pytest.approx(mean_below(h, t, c) / (c**h * (1 - c) ** (t - h)), rel=1e-6)


@pytest.mark.parametrize(("h", "t"), [(0, 3), (3, 3), (15, 40), (37, 40)])
@pytest.mark.parametrize(("m", "k"), [(9, 1), (29, 3)])
def test_the_e_value_against_the_promise_is_the_likelihood_ratio_by_integration(h, t, m, k):
    promised = quad(lambda p: beta.pdf(p, m + 1 - k, k) * p**h * (1 - p) ** (t - h), 0, 1)[0]
    found = np.exp(log_e_promise(h, t, 0.9, HeldOut(m, k)))
    assert found == pytest.approx(mean_below(h, t, 0.9) / promised, rel=1e-6)


@pytest.mark.parametrize(("h", "t"), [(0, 5), (5, 5), (15, 40), (37, 40), (900, 1000)])
def test_the_interval_holds_the_shares_whose_likelihood_is_above_the_mean_one_times_alpha(h, t):
    low, high = share_bounds(h, t, ALPHA)
    p = np.linspace(0, 1, 2001)
    mean = quad(lambda x: np.exp(h * np.log(x) + (t - h) * np.log1p(-x)), 0, 1, points=[h / t], limit=200)[0]
    holds = p**h * (1 - p) ** (t - h) > ALPHA * mean
    assert holds[(low + 1e-9 < p) & (p < high - 1e-9)].all()
    assert not holds[(p < low - 1e-9) | (p > high + 1e-9)].any()


def test_a_share_just_as_promised_is_contradicted_at_any_time_in_less_than_one_run_of_twenty():
    n = 4000
    found = log_e_model(*running(np.random.default_rng(0).random((n, 300)) < 0.9), 0.9).max(axis=1) >= LEVEL
    assert found.mean() <= most(ALPHA, n)
    assert found.mean() == pytest.approx(0.026, abs=4 * np.sqrt(0.026 / n))  # what docs/promises.md says


def test_a_share_of_seven_in_ten_is_found_after_about_twenty_domains():
    against = log_e_model(*running(np.random.default_rng(0).random((4000, 200)) < 0.7), 0.9) >= LEVEL
    assert against.any(axis=1).mean() > 0.99
    assert 17 <= np.median(against.argmax(axis=1) + 1) <= 23


def test_the_interval_holds_the_share_after_every_domain_at_once():
    n = 2000
    low, high = share_bounds(*running(np.random.default_rng(0).random((n, 200)) < 0.8), ALPHA)
    assert ((low > 0.8) | (high < 0.8)).any(axis=1).mean() <= most(ALPHA, n)


@pytest.mark.parametrize("m", [9, 29, 60])
def test_a_promise_that_is_kept_is_rarely_contradicted_but_by_luck_of_calibration_its_model_is(m):
    """The calibration domains are drawn anew in each run, and the k-th lowest of their residuals is the threshold."""
    rng, n, k = np.random.default_rng(0), 4000, int(order_ranks(m, 0.9))
    threshold = np.partition(rng.random((n, m)), k - 1, axis=1)[:, [k - 1]]
    runs = running(rng.random((n, 300)) >= threshold)
    of_promise = log_e_promise(*runs, 0.9, HeldOut(m, k)).max(axis=1) >= LEVEL
    of_model = log_e_model(*runs, 0.9).max(axis=1) >= LEVEL
    assert of_promise.mean() <= most(0.03, n)
    assert of_model.mean() > 0.1


@pytest.mark.parametrize("m", [3, 29])
def test_ranks_of_domains_drawn_alike_are_uniform_and_independent(m):
    rng, n = np.random.default_rng(0), 2000
    residuals = rng.integers(0, 8, (n, m + 40)).astype(float)  # with many ties
    ranks = np.array([residual_ranks(each[:m], each[m:], seed) for seed, each in enumerate(residuals)])
    assert kstest(ranks.ravel()[::7], "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(ranks[:, 20], ranks[:, 30])[0, 1]) < 4 / np.sqrt(n)
    hits = running(ranks > 0.1)
    assert (log_e_model(*hits, 0.9).max(axis=1) >= LEVEL).mean() <= most(ALPHA, n)


def test_ranks_are_counted_among_the_calibration_domains_and_all_before():
    rng = np.random.default_rng(3)
    calibration, new = rng.normal(size=7), rng.normal(size=9)
    u, found = np.random.default_rng(0).random(9), residual_ranks(calibration, new)
    for t, value in enumerate(new):
        before = [*calibration, *new[:t]]
        assert found[t] == pytest.approx((sum(other < value for other in before) + u[t]) / (len(before) + 1))


def test_domains_of_another_kind_contradict_the_assumption_though_all_are_at_target():
    ranks = residual_ranks(np.arange(200.0), np.full(12, 0.5))  # thresholds may be lower than the promise needs
    found = judged(np.ones(12, bool), 0.9, held_out=HeldOut(200, 20), ranks=ranks)
    assert (found.about, found.says, found.at_target) == ("assumption", "contradicted", 12)
    assert "these domains are not drawn like those that calibrated" in str(found)


def test_without_held_out_domains_a_verdict_is_about_this_model_alone():
    assert judged(np.arange(40) < 15, 0.9).about == "model"
    found = judged(np.arange(40) < 15, 0.9, held_out=HeldOut(29, 3))
    assert (found.about, found.is_contradicted) == ("promise", True)


def test_luck_of_calibration_contradicts_the_model_and_not_the_promise():
    found = judged(np.arange(100) % 50 < 39, 0.9, held_out=HeldOut(9, 1))
    assert (found.about, found.says) == ("model", "contradicted")


def test_a_verdict_is_strict_json_with_the_names_of_the_documentation():
    plain = json.loads(json.dumps(judged(np.zeros(5000, bool), 0.9).to_dict(), allow_nan=False))
    assert list(plain) == ["promised", "domains", "at_target", "e_value", "interval", "about", "says"]
    assert plain["says"] == "contradicted"
    assert plain["interval"][0] == 0


def test_bounds_of_the_share_are_rounded_outward():
    found = judged(np.arange(40) < 37, 0.9)
    assert found.interval == pytest.approx((0.7216, 0.9947), abs=1e-4)
    assert "between 0.72 and 1.00" in str(found)


def test_a_confidence_in_percent_is_refused():
    with pytest.raises(InputError, match="confidence must lie between 0 and 1, got 95"):
        judged(np.ones(3, bool), 0.9, confidence=95)


# What was missed


RECALLS = [[0.95, 0.95, 0.95]] * 2 + [[0.5, 0.8, 0.95]] * 30


def test_what_was_missed_is_told_by_domains_labels_and_whether_rows_could_have_told():
    given = report(RECALLS).under(0.9)
    p_values = np.r_[0.5, 0.02, np.full(7, 0.01), np.full(22, 0.5), np.nan]
    found = verdict_lines(judged(given.at_target(), 0.9), given, p_values, 0.05)
    assert found[0].startswith("Promised 0.9, seen 2 of 32: contradicted here")
    assert found[1:] == [
        "30 of 32 domains missed, by 0.40 at the median and 0.40 at most (domain “ward 2”).",
        "Labels below their target, in how many domains: “cat” in 30, “dog” in 30.",
        "7 of 8 flagged domains (p ≤ 0.05) missed, 23 of 24 unflagged too; that a domain is not flagged does not make "
        "it safe.",
    ]


def test_where_nothing_was_flagged_unlabelled_rows_did_not_tell():
    given = report(RECALLS).under(0.9)
    *_, last = verdict_lines(judged(given.at_target(), 0.9), given, np.full(32, 0.4))
    assert last.startswith("No domain was flagged as unlike those that calibrated (p ≤ 0.05): unlabelled rows did not")


def test_of_a_promise_that_is_not_contradicted_one_sentence_is_said():
    given = report([[0.95] * 3] * 3 + [[0.5] * 3]).under(0.9)
    assert len(verdict_lines(judged(given.at_target(), 0.9), given, np.full(4, 0.01))) == 1
    assert verdict_lines(None, given) == []
