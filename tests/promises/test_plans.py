"""How many domains are needed: exact solutions of the inequalities, and the laws that they come from."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, kstest

from domaincover import InputError, certify, plan_domains
from domaincover.calibration.adaptation import order_statistic
from domaincover.calibration.rules import order_ranks
from domaincover.promises.certificates import lower_bound
from domaincover.promises.plans import certainty, conditional_size, confidence_to_ask

from .test_certificates import perfect


@given(st.floats(1e-3, 0.9), st.floats(1e-6, 0.5), st.integers(0, 8))
def test_conditional_sizes_are_the_smallest_for_the_binomial_law(epsilon, delta, n_spared):
    m = conditional_size(epsilon, delta, n_spared)
    assert binom.cdf(n_spared, m, epsilon) <= delta * (1 + 1e-9)
    assert m == n_spared + 1 or binom.cdf(n_spared, m - 1, epsilon) > delta * (1 - 1e-9)


@given(st.integers(1, 10_000))
def test_marginal_sizes_are_the_smallest_for_which_the_order_rule_is_feasible(thousandths):
    epsilon = thousandths / 10_001
    m = plan_domains(epsilon=epsilon).n_domains_marginal
    assert 1 - epsilon <= m / (m + 1) + 1e-12
    assert m == 1 or 1 - epsilon > (m - 1) / m - 1e-12


def test_known_sizes_come_out():
    sizes = [plan_domains(epsilon=epsilon).n_domains_marginal for epsilon in (0.5, 0.2, 0.1, 0.05, 0.01)]
    assert sizes == [1, 4, 9, 19, 99]
    assert conditional_size(0.1, 0.05) == 29  # 0.9^29 < 0.05 < 0.9^28
    assert conditional_size(0.1, 0.05, n_spared=1) == 46  # as in tables of tolerance limits


@pytest.mark.parametrize(("target", "error"), [(0.9, 0.05), (0.95, 0.01), (0.5, 0.2)])
def test_as_many_examples_as_planned_show_a_recall_and_one_fewer_does_not(target, error):
    n = conditional_size(1 - target, error)
    shown = [certify(perfect(3, n=size), target, row_error=error).domains.n_shown for size in (n - 1, n)]
    assert shown == [0, 3]


# What the sizes mean


@pytest.mark.parametrize("size", plan_domains().calibration, ids=lambda size: size.n_domains)
def test_a_certificate_of_so_many_domains_reaches_the_promise_and_of_one_fewer_does_not(size):
    bounds = [lower_bound(m - size.n_spared, m, 0.95) for m in (size.n_domains - 1, size.n_domains)]
    assert bounds[0] < 0.9 <= bounds[1]


@pytest.mark.parametrize("size", plan_domains().calibration[:3], ids=lambda size: size.n_domains)
def test_the_order_rule_covers_by_the_beta_law_and_fails_as_rarely_as_planned(size):
    rng, n_draws, k = np.random.default_rng(0), 20_000, size.n_spared + 1
    thresholds = np.partition(rng.random((n_draws, size.n_domains)), k - 1, axis=1)[:, k - 1]
    covered = 1 - thresholds  # of a new domain, whose own threshold is as uniform
    assert kstest(covered, beta(size.n_domains + 1 - k, k).cdf).pvalue > 1e-3
    standard_error = covered.std() / np.sqrt(n_draws)
    assert covered.mean() == pytest.approx(size.mean_confidence, abs=4 * standard_error)
    assert np.mean(covered < 0.9) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_draws)


@pytest.mark.parametrize("n_domains", [9, 29])
def test_the_confidence_that_holds_on_average_is_about_as_likely_missed_as_kept(n_domains):
    rng, n_draws, k = np.random.default_rng(0), 20_000, int(order_ranks(n_domains, 0.9))
    thresholds = np.partition(rng.random((n_draws, n_domains)), k - 1, axis=1)[:, k - 1]
    kept, found = np.mean(1 - thresholds >= 0.9), certainty(n_domains, 0.1)
    assert kept == pytest.approx(found, abs=4 * np.sqrt(found * (1 - found) / n_draws))
    assert 0.5 < found < 0.62
    assert f"{100 * found:.0f} % with {n_domains} domains" in " ".join(plan_domains().text().split())


@given(st.integers(1, 10**6), st.integers(0, 30))
def test_the_confidence_to_ask_for_skips_just_so_many_domains(n_domains, n_spared):
    n_spared = min(n_spared, n_domains - 1)
    assert order_ranks(n_domains, confidence_to_ask(n_domains, n_spared)) == n_spared + 1


def test_what_the_plan_asks_for_gives_the_certainty_that_it_says():
    for size in plan_domains(epsilon=0.2, delta=0.1).calibration:
        k = int(order_ranks(size.n_domains, size.domain_confidence))
        assert binom.cdf(k - 1, size.n_domains, 0.2) <= 0.1


def test_years_of_few_hospitals_are_no_domains_of_their_own_for_a_new_hospital():
    """Of 4 hospitals × 5 years the second lowest threshold is, mostly, of the lowest of 4 hospitals."""
    rng, n_draws = np.random.default_rng(0), 20_000
    hospitals, of_new = rng.normal(size=(n_draws, 4, 1)), rng.normal(size=(2, n_draws))
    years = (hospitals + 0.1 * rng.normal(size=(n_draws, 4, 5))).reshape(n_draws, 1, 20)
    threshold = order_statistic(years, 20, 0.9)
    new_hospital = np.mean(of_new[0] + 0.1 * of_new[1] >= threshold)
    of_same = hospitals[:, 0, 0] + 0.1 * of_new[1]  # a further year of a hospital that calibrated
    assert new_hospital < 0.9 - 4 * np.sqrt(0.09 / n_draws)
    assert new_hospital == pytest.approx(0.81, abs=0.02)
    assert np.mean(of_same >= threshold) >= 0.9 - 4 * np.sqrt(0.09 / n_draws)


def test_passing_over_more_domains_wastes_less():
    means = [size.mean_confidence for size in plan_domains().calibration]
    assert means == sorted(means, reverse=True)
    assert min(means) > 0.9


# The plan


@pytest.mark.parametrize("harder", [{"epsilon": 0.05}, {"delta": 0.01}])
def test_a_harder_promise_asks_for_no_fewer_domains(harder):
    def sizes(**changes):
        plan = plan_domains(**changes)
        return [plan.n_domains_marginal, *(size.n_domains for size in plan.calibration)]

    assert all(more >= few for more, few in zip(sizes(**harder), sizes(), strict=True))


@pytest.mark.parametrize("n_domains", [1, 29, 1000])
def test_what_domains_allow_is_the_plan_the_other_way_round(n_domains):
    allowed = plan_domains(n_domains=n_domains).with_domains
    assert allowed.marginal_confidence == n_domains / (n_domains + 1)
    assert conditional_size(1 - allowed.conditional_confidence, 0.05 * (1 + 1e-9)) == n_domains
    assert allowed.conditional_confidence == pytest.approx(float(lower_bound(n_domains, n_domains, 0.95)))


def test_the_plan_is_strict_json():
    plan = plan_domains(n_domains=40)
    plain = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    first = {"n_spared": 0, "n_domains": 29, "domain_confidence": 0.96, "mean_confidence": 29 / 30}
    assert plain["calibration"][0] == first
    assert plain["with_domains"]["n_domains"] == 40
    assert plan_domains().to_dict()["with_domains"] is None


@pytest.mark.parametrize("width", [60, 110])
def test_no_line_is_wider_than_asked(width):
    text = plan_domains(n_domains=1).text(width)
    assert max(map(len, text.splitlines())) <= width
    assert "With 1 domain:" in text


def test_the_text_is_what_is_printed():
    assert str(plan_domains()) == plan_domains().text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0}, "epsilon, .* must lie between 0 and 1, got 0; write"),
        ({"epsilon": 1}, "epsilon, .* must lie between 0 and 1, got 1; write"),
        ({"epsilon": 95}, "epsilon, .* got 95; write 95 % as 0.95"),
        ({"epsilon": 1e-12}, "epsilon, .* must be at least 1e-09, got 1e-12"),
        ({"delta": -0.1}, "delta, .* must lie between 0 and 1, got -0.1"),
        ({"delta": float("nan")}, "delta, .* must lie between 0 and 1, got nan"),
        ({"target_recall": 90}, "target recall must lie between 0 and 1, got 90; write 90 % as 0.9"),
        ({"n_domains": 0}, "the number of domains must be a whole number from 1 to 1,000,000,000, got 0"),
        ({"n_domains": 2.5}, "the number of domains must be a whole number .* got 2.5"),
        ({"n_domains": True}, "the number of domains must be a whole number .* got True"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(settings, message):
    with pytest.raises(InputError, match=message) as refused:
        plan_domains(**settings)
    assert "\n" not in str(refused.value)
