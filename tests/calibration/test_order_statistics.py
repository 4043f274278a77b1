"""Cell thresholds: order statistics that ties and infinities do not disturb, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.calibration.adaptation import domain_residuals, n_counting, order_statistic
from domaincover.calibration.rules import check_feasible, domains_needed, highest_confidence, order_ranks
from domaincover.thresholds import (
    cell_thresholds,
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from tests.calibration import literal
from tests.calibration.literal import rank
from tests.calibration.small_data import DECIMALS, TARGETS, awkward_data, calibration_data, one_row_cells


@given(calibration_data(), TARGETS)
def test_a_cells_threshold_is_the_largest_score_that_keeps_its_recall(data, target):
    scores, labels, domains = data
    found = cell_thresholds(*data, target)
    for domain, label in np.ndindex(*found.shape):
        own = scores[(labels == label) & (domains == domain), label]
        reaching = [score for score in own if np.mean(own >= score) >= target]
        assert found[domain, label] == (max(reaching) if len(own) else np.inf)


@pytest.mark.parametrize(
    ("scores", "target", "message"),
    [
        (np.full((2, 2), np.nan), 0.9, "2 scores are NaN, first at row 0"),
        (np.zeros((3, 2)), 0.9, r"one label for each of 3 examples, got shape \(2,\)"),
        (np.zeros(2), 0.9, r"examples × labels, got float64 of shape \(2,\)"),
        (np.zeros((2, 1)), 0.9, "label codes run from 0 to 1, but there are 1"),
        (np.zeros((2, 2)), 90, "between 0 and 1, got 90"),
    ],
)
@pytest.mark.parametrize("rule", [robust_thresholds, pooled_thresholds, cell_thresholds])
def test_bad_scores_are_refused(rule, scores, target, message):
    with pytest.raises(InputError, match=message):
        rule(scores, np.array([0, 1]), np.array([0, 0]), target)


@pytest.mark.parametrize(
    ("labels", "domains", "message"),
    [
        (["a", "b"], [0, 0], "labels must be codes, whole numbers from 0, got <U1; `DomainDataset.from_arrays`"),
        ([0.0, 1.0], [0, 0], "labels must be codes, whole numbers from 0, got float64"),
        ([0, 1], [0, -1], "domain codes run from -1 to 0"),
    ],
)
def test_what_is_no_code_is_refused(labels, domains, message):
    with pytest.raises(InputError, match=message):
        robust_thresholds(np.zeros((2, 2)), labels, domains, 0.9)


def test_lists_and_small_integers_are_taken_as_codes():
    codes = np.array([0, 1], np.uint8)
    assert robust_thresholds([[1.0, 2.0], [3.0, 4.0]], codes, [0, 300], 0.9).tolist() == [1.0, 4.0]


@pytest.mark.parametrize("min_cell_size", [1, 2, 3, 4])
@given(awkward_data(), DECIMALS)
@settings(max_examples=50)
def test_exactly_the_cells_of_the_minimum_size_or_more_count(min_cell_size, data, target):
    scores, labels, domains = data
    found = cell_thresholds(*data, target, min_cell_size)
    every = cell_thresholds(*data, target)
    counting = np.zeros(found.shape, bool)
    for domain, label in literal.cells_of(scores, labels, domains, min_cell_size):
        counting[domain, label] = True
    assert np.array_equal(found, np.where(counting, every, np.inf))


def test_a_cells_threshold_keeps_the_precision_of_its_scores():
    scores = np.array([[np.float32(0.1)]])
    assert cell_thresholds(scores, np.array([0]), np.array([0]), 0.9)[0, 0] == scores[0, 0]


@pytest.mark.parametrize(
    "rule",
    [
        cell_thresholds,
        robust_thresholds,
        pooled_thresholds,
        hierarchical_thresholds,
        lambda *args: order_thresholds(*args, 0.5),
        lambda *args: joint_thresholds(*args, 0.5),
    ],
)
@pytest.mark.parametrize("target", [0, 1, 90, np.nan])
def test_a_target_that_is_no_share_is_refused_in_one_line(rule, target):
    with pytest.raises(InputError, match=r"^target recall must lie between 0 and 1, got .*$") as refusal:
        rule(np.zeros((2, 2)), np.array([0, 1]), np.array([0, 0]), target)
    assert "\n" not in str(refusal.value)


@given(awkward_data(), DECIMALS)
def test_scores_of_other_labels_do_not_count(data, target):
    scores, labels, domains = data
    own = scores[np.arange(len(labels)), labels]
    elsewhere = np.full_like(scores, np.nan)
    elsewhere[np.arange(len(labels)), labels] = own
    assert np.array_equal(
        cell_thresholds(elsewhere, labels, domains, target), cell_thresholds(scores, labels, domains, target)
    )


N_DOMAINS = np.arange(501)
TYPED = [f"0.{digits:03d}" for digits in range(1, 1000)] + ["0.9999", "0.99999", "0.0001"]


def counts(n_domains_with):
    """Return a table domains × labels in which label k is in the first n_domains_with[k] domains."""
    return (np.arange(max(n_domains_with))[:, None] < np.array(n_domains_with)).astype(int)


# Ranks


def test_ranks_are_exact_for_every_confidence_of_three_digits():
    found = order_ranks(N_DOMAINS, np.array(TYPED, dtype=float)[:, None])
    numerators, denominators = np.array([(1 - Fraction(typed)).as_integer_ratio() for typed in TYPED]).T
    assert np.array_equal(found, numerators[:, None] * (N_DOMAINS + 1) // denominators[:, None])


def test_a_product_in_floating_point_would_have_been_one_off():
    assert int((1 - 0.9) * (9 + 1)) == 0
    assert order_ranks(9, 0.9) == 1


def test_m_domains_allow_their_highest_confidence_and_none_above():
    for m in range(1, 501):
        highest = highest_confidence(m)
        assert (order_ranks(m, highest), order_ranks(m, np.nextafter(highest, 1))) == (1, 0)


@pytest.mark.parametrize("typed", TYPED[::7] + TYPED[-3:])
def test_so_many_domains_allow_the_confidence_and_one_less_does_not(typed):
    needed = domains_needed(float(typed))
    assert literal.rank(typed, needed) >= 1
    assert needed == 1 or literal.rank(typed, needed - 1) == 0


def test_the_highest_confidence_of_m_domains_needs_m_domains():
    assert [domains_needed(highest_confidence(m)) for m in range(1, 501)] == list(range(1, 501))


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_new_domain_is_among_the_k_lowest_with_the_complement_of_the_confidence_at_most(m, confidence):
    k = int(order_ranks(m, confidence))
    assert 0 <= k <= m
    assert 1 - k / (m + 1) >= confidence - 1e-15  # of rounding


# Feasibility


def test_enough_domains_for_every_label_widen_nothing():
    assert check_feasible(counts([9, 12]), 0.9).tolist() == [False, False]


@pytest.mark.parametrize("m", [0, 1, 2, 8, 18, 24, 124, 199, 249, 499, 998])
def test_what_is_said_to_be_allowed_is_allowed_to_three_digits(m):
    with pytest.raises(InputError, match=f"there are {m}, which allow .* at most") as refusal:
        check_feasible(np.ones((m, 2)), 0.9999)
    said = Fraction(str(refusal.value).split("which allow ")[1].split(" at most")[0])
    assert said <= Fraction(m, m + 1) < said + Fraction(1, 1000)


def test_the_refusal_is_one_line_that_says_what_to_do():
    with pytest.raises(InputError) as refusal:
        check_feasible(counts([8, 8]), 0.9)
    assert "\n" not in str(refusal.value)
    for part in ("takes 9", "there are 8, which allow 0.888", "add domains, ask for less", "on_infeasible"):
        assert part in str(refusal.value)


def test_of_many_labels_in_too_few_domains_five_are_named_and_the_others_counted():
    with pytest.raises(InputError, match=r"label\(s\) 1, 2, 3, 4, 5, 2 more are in between 1 and 7, which allow 0.875"):
        check_feasible(counts([9, 1, 2, 3, 4, 5, 6, 7]), 0.9)


def test_each_label_can_have_its_own_confidence_and_the_largest_says_how_many_domains_are_needed():
    assert check_feasible(counts([9, 4]), [0.9, 0.8]).tolist() == [False, False]
    with pytest.raises(InputError, match=r"a domain confidence of 0\.95 takes 19 calibration domains"):
        check_feasible(counts([9, 9, 9]), [0.5, 0.95, 0.9])


def test_the_warning_names_the_labels_that_will_be_in_every_set():
    with pytest.warns(UserWarning, match=r"label\(s\) 'deer', 7 are in 3, .* 0.75 at most; they will be in every set"):
        check_feasible(counts([9, 3, 3]), 0.9, label_names=("cat", "deer", 7), on_infeasible="widen")


@pytest.mark.parametrize(
    ("confidence", "said"),
    [
        (0, "got 0; write 95 % as 0.95"),
        (1, "got 1; write 95 % as 0.95"),
        (95, "got 95; write 95 % as 0.95"),
        (90, "got 90; write 90 % as 0.9"),
        (-0.5, "got -0.5; write"),
        (np.nan, "got nan; write"),
        ([0.5, 99], "got 99; write 99 % as 0.99"),
    ],
)
@pytest.mark.parametrize("rule", [order_thresholds, joint_thresholds])
@pytest.mark.parametrize("on_infeasible", ["raise", "widen"])
def test_a_confidence_that_is_no_share_is_refused_in_one_line(rule, confidence, said, on_infeasible):
    with pytest.raises(InputError, match=f"^domain confidence must lie between 0 and 1, {said}.*$") as refusal:
        rule(*one_row_cells([9, 9]), 0.5, confidence, on_infeasible=on_infeasible)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("rule", "known"), [(order_thresholds, "'raise', 'widen'"), (joint_thresholds, "'raise', 'widen', 'pool'")]
)
def test_a_typing_mistake_in_on_infeasible_is_rejected_even_where_all_is_feasible(rule, known):
    with pytest.raises(InputError, match=rf"^on_infeasible must be one of {known}, got 'widne'; did you mean widen\?$"):
        rule(*one_row_cells([9, 9]), 0.5, 0.9, on_infeasible="widne")


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n_domains", [1, 4, 9, 19, 20, 99])
def test_one_draw_gives_the_kth_lowest(n_domains, confidence):
    residuals = np.random.default_rng(0).permutation(n_domains).astype(float)
    k = rank(confidence, n_domains)
    expected = k - 1 if k > 0 else -np.inf
    assert order_statistic(residuals[None], n_domains, confidence) == expected
    assert order_statistic(np.tile(residuals, (7, 1)), n_domains, confidence) == expected


def test_domains_that_do_not_count_stand_last():
    residuals = np.concatenate([np.arange(19.0), np.full(5, np.inf)])
    assert order_statistic(residuals[None], 19, 0.9) == 1


def test_draws_that_do_not_count_leave_the_confidence_to_those_that_do():
    rng = np.random.default_rng(0)
    n_repetitions, n_domains, n_draws = 4000, 40, 5
    hardness = rng.normal(size=(n_repetitions, 1, n_domains + 1))
    values = hardness + rng.normal(size=(n_repetitions, n_draws, n_domains + 1))
    counts = rng.random(values.shape) < 0.4
    values = np.where(counts, values, np.inf)
    seen = values[:, :, :-1]
    offset = np.array([order_statistic(each, n_counting(each), 0.9) for each in seen])
    is_about = counts[:, 0, -1]  # of a new domain whose draw counts
    share = (values[is_about, 0, -1] >= offset[is_about]).mean()
    assert share >= 0.9 - 4 * np.sqrt(0.09 / is_about.sum())
    assert order_statistic(np.full((3, 20), np.inf), 0, 0.9) == -np.inf


def test_the_residual_is_the_lowest_over_promised_labels():
    by_cell = np.array([[1.0, 5.0, -9.0], [np.inf, 2.0, np.inf], [np.inf, np.inf, 0.0]])
    found = domain_residuals(by_cell, np.array([0.5, 1.0, 0.0]), np.array([True, True, False]))
    assert found.tolist() == [0.5, 1.0, np.inf]


def test_several_draws_keep_the_confidence_and_vary_less():
    rng = np.random.default_rng(0)
    n_repetitions, n_domains, n_draws = 4000, 19, 10
    of_domain = rng.normal(size=(n_repetitions, 1, n_domains + 1))
    values = of_domain + rng.normal(size=(n_repetitions, n_draws, n_domains + 1))
    new, seen = values[:, 0, -1], values[:, :, :-1]
    one, several = order_statistic(seen[:, :1], n_domains, 0.9), order_statistic(seen, n_domains, 0.9)
    for offset in (one, several):
        share = (new >= offset).mean()
        assert share >= 0.9 - 4 * np.sqrt(0.09 / n_repetitions)
    assert several.std() < 0.9 * one.std()
