"""Confidences: ranks in exact arithmetic, what m domains allow, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.calibration.order_statistics import check_feasible, domains_needed, highest_confidence, order_ranks
from domaincover.thresholds import joint_thresholds, order_thresholds
from tests.calibration import literal
from tests.calibration.small_data import one_row_cells

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
    ("rule", "known"), [(order_thresholds, "'raise' or 'widen'"), (joint_thresholds, "'raise' or 'widen' or 'pool'")]
)
def test_a_typing_mistake_in_on_infeasible_is_rejected_even_where_all_is_feasible(rule, known):
    with pytest.raises(InputError, match=rf"^on_infeasible must be {known}, got 'widne'\.$"):
        rule(*one_row_cells([9, 9]), 0.5, 0.9, on_infeasible="widne")
