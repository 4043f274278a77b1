"""Columns that differ from training are told; what differs between domains anyway is not."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, ttest_ind_from_stats

from domaincover import InputError
from domaincover.checks import input_profile
from domaincover.checks.input_profile import ALARMS, ALL_DOMAINS, FEWEST_ROWS, InputProfile, largest_of_others

KINDS = {"dose": "number", "sex": "category", "day": "date", "ill": "boolean", "note": "ignored"}


def table(n_domains, n_rows=120, seed=0):
    """Return rows of domains that differ in the level of the dose and the share of sexes."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(n_domains), n_rows)
    level, share = rng.normal(10, 1, n_domains), rng.uniform(0.3, 0.7, n_domains)
    n = len(domains)
    columns = {
        "dose": np.where(rng.random(n) < 0.05, np.nan, rng.normal(level[domains], 2)),
        "sex": np.where(rng.random(n) < share[domains], "f", "m").astype(object),
        "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(365, size=n), "D"),
        "ill": rng.random(n) < 0.3,
        "note": [str(k) for k in range(n)],
    }
    return pd.DataFrame(columns), np.array([f"{seed}-{d}" for d in domains], dtype=object)


@pytest.fixture(scope="module")
def profile():
    learned = InputProfile.learn(*table(30), KINDS)
    return InputProfile.from_dict(json.loads(json.dumps(learned.to_dict())))


def changed(X, **columns):
    return X.assign(**columns)


FAULTS = {
    "missing": (lambda _: {"dose": np.nan}, "dose", "is missing in 100 % of the rows"),
    "half missing": (lambda X: {"sex": X["sex"].where(np.arange(len(X)) % 2 == 0)}, "sex", "is missing in 50 % of"),
    "another unit": (
        lambda X: {"dose": X["dose"] * 1000},
        "dose",
        "may be in another unit: its values are [19][0-9,]* times those of training",
    ),
    "a smaller unit": (
        lambda X: {"dose": X["dose"] / 60},
        "dose",
        "may be in another unit: its values are 1/6. of those of training",
    ),
    "constant": (lambda _: {"dose": 10.0}, "dose", "has the same value in all rows, 10"),
    "unknown": (lambda _: {"sex": "x"}, "sex", "rare or unknown in training in 100 %"),
    "one category": (lambda _: {"sex": "f"}, "sex", "is 'f' in 100 % of the rows, in training in .. %"),
    "years later": (
        lambda X: {"day": X["day"] + pd.Timedelta(days=3000)},
        "day",
        "2034|out of its range in training, 2026",
    ),
    "negative": (lambda X: {"dose": -X["dose"]}, "dose", "out of its range in training|has the median"),
    "always true": (lambda _: {"ill": True}, "ill", "has the same value in all rows, 1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_domain_is_told_of_its_column(profile, fault):
    change, column, words = FAULTS[fault]
    X, _ = table(1, seed=5)
    worst, *_ = profile.differences(changed(X, **change(X)))
    assert (worst.domain, worst.column) == (ALL_DOMAINS, column)
    assert pd.Series([worst.what]).str.contains(words)[0], worst.what


def test_a_fault_of_one_domain_among_many_names_the_domain(profile):
    X, domains = table(20, seed=6)
    X.loc[domains == "6-7", "dose"] = np.nan
    assert [(told.domain, told.column) for told in profile.differences(X, domains)] == [("6-7", "dose")]


def test_a_fault_of_all_domains_is_told_once(profile):
    X, domains = table(20, seed=7)
    told = profile.differences(changed(X, dose=X["dose"] + 4), domains)
    assert [(each.domain, each.column) for each in told] == [(ALL_DOMAINS, "dose")]


def test_domains_drawn_alike_raise_no_more_alarms_than_stated():
    n_draws, alarms = 150, 0
    for seed in range(n_draws):
        learned = InputProfile.learn(*table(30, 60, seed=1000 + seed), KINDS)
        alarms += bool(learned.differences(table(1, 60, seed=5000 + seed)[0]))
    assert alarms <= binom.ppf(0.999, n_draws, ALARMS)


def test_what_differs_between_domains_of_training_is_no_alarm():
    X, domains = table(30)
    X.loc[np.isin(domains, ["0-1", "0-2", "0-3"]), "dose"] = np.nan  # some hospitals do not measure it
    learned = InputProfile.learn(X, domains, KINDS)
    assert learned.differences(changed(table(1, seed=5)[0], dose=np.nan)) == ()


def test_small_domains_are_not_judged(profile):
    X, domains = table(3, FEWEST_ROWS - 1)
    assert profile.differences(changed(X, dose=np.nan), domains) == ()


def test_few_domains_of_training_are_no_profile():
    assert InputProfile.learn(*table(4), KINDS) is None


def test_means_are_compared_as_by_welch(profile):
    apart = np.arange(len(profile.mean)) % 2
    values = np.random.default_rng(0).normal(profile.mean + apart, 0.3, (12, len(apart)))
    floors = input_profile._floors(profile.columns)
    expected = ttest_ind_from_stats(
        profile.mean, np.maximum(profile.deviation, floors), profile.n_domains,
        values.mean(axis=0), np.maximum(values.std(axis=0, ddof=1), floors), 12, equal_var=False,
    ).pvalue  # fmt: skip
    shifted = profile._shifted(values)
    assert np.array_equal(shifted, expected * len(expected) <= ALARMS / 5)
    assert 0 < shifted.sum() < len(shifted)


def test_the_largest_of_the_others_by_a_loop():
    values = np.random.default_rng(0).integers(4, size=(6, 5)).astype(float)
    expected = [np.delete(values, e, axis=0).max(axis=0) for e in range(6)]
    assert np.array_equal(largest_of_others(values), expected)


@pytest.mark.parametrize(
    "change", [{"centre": [1.0]}, {"columns": [{"name": "x"}]}, {"alarm_ratio": "high"}, {"n_domains": [1, 2]}]
)
def test_a_corrupt_profile_is_refused_in_one_line(profile, change):
    with pytest.raises(InputError, match="profile of its training columns is corrupt"):
        InputProfile.from_dict(profile.to_dict() | change)
