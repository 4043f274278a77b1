from fractions import Fraction

import numpy as np
import pytest

from domaincover.errors import InputError
from tests.paper.theory.shattering import check_shattering, members
from tests.paper.theory.sliding_windows import PAPERS_SIDE_SHARE, largest_target_recall, sliding_windows

SHAPES = ("line", "circle")
GAMMAS = [Fraction(gamma) for gamma in ("1/1000000", "1/1000", "1/10", "1/3", "1/2", "9/10", "999/1000")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_domains", range(1, 11))
def test_windows_reach_each_of_the_subsets(n_domains, shape):
    made = sliding_windows(n_domains, Fraction(9, 10), shape)
    found = check_shattering(made.performs_well)
    assert found.is_shattered
    np.testing.assert_array_equal(found.hypothesis, np.arange(2**n_domains))


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("n_domains", [1, 2, 5])
def test_masses_are_exact_shares_that_add_up_to_one(n_domains, gamma):
    masses = sliding_windows(n_domains, 1 - gamma).masses
    assert all(sum(row) == 1 for row in masses)
    assert min(masses.flat) >= 0


@pytest.mark.parametrize("shape", SHAPES)
def test_no_window_is_at_the_target_exactly_so_a_strict_criterion_is_reached_too(shape):
    made = sliding_windows(4, Fraction(9, 10), shape)
    gaps = made.recall - made.target_recall
    assert len({abs(gap) for gap in gaps.flat}) == 1
    assert gaps[0, 0] != 0


def test_a_window_in_the_papers_way_is_at_target_exactly_so_its_own_strict_definition_reaches_the_empty_subset_only():
    made = sliding_windows(4, Fraction(9, 10), side_share=PAPERS_SIDE_SHARE)
    assert check_shattering(made.performs_well).is_shattered
    assert made.recall.max() == made.target_recall  # loss = γ, bad by "loss ≥ γ"
    np.testing.assert_array_equal(made.recall == made.target_recall, members(np.arange(16), 4))


@pytest.mark.parametrize("n_domains", range(2, 11))
def test_the_papers_constants_fail_just_above_their_largest_target_and_ours_do_not(n_domains):
    limit = largest_target_recall(n_domains)
    just_above = limit + Fraction(1, 10**6)
    at_limit = sliding_windows(n_domains, limit, side_share=PAPERS_SIDE_SHARE)
    assert at_limit.masses[0, -1] == 0
    assert check_shattering(at_limit.performs_well).is_shattered
    with pytest.raises(InputError, match=f"{n_domains} domains have masses above 1"):
        sliding_windows(n_domains, just_above, side_share=PAPERS_SIDE_SHARE)
    assert check_shattering(sliding_windows(n_domains, just_above).performs_well).is_shattered


def test_the_papers_constants_fail_for_no_gamma_with_one_domain_and_below_one_in_101_with_many():
    assert largest_target_recall(1) == 1
    limits = [1 - largest_target_recall(n) for n in range(2, 200)]
    assert limits == sorted(limits)
    assert limits[0] == Fraction(1, 301)
    assert 0 < Fraction(1, 101) - limits[-1] < Fraction(1, 10**30)


def test_on_the_line_all_windows_have_length_two_and_begin_in_the_first_third():
    made = sliding_windows(3, Fraction(9, 10))
    starts = made.windows * made.unit
    places = made.places * made.unit
    again = [[start <= place <= start + 2 for place in places] for start in starts]
    np.testing.assert_array_equal(again, made.covered)
    assert min(starts) == 0
    assert max(starts) < 1


def test_on_the_circle_points_have_rational_coordinates_at_distance_one_and_lie_off_all_boundaries():
    made = sliding_windows(3, Fraction(9, 10), "circle")
    squares = (made.places**2).sum(axis=1)
    assert all(int(square) == round(float(square) ** 0.5) ** 2 for square in squares)
    assert (made.windows @ made.places.T != 0).all()


@pytest.mark.parametrize("n_domains", [2, 5, 10])
def test_on_the_circle_windows_cover_the_same_points_as_on_the_line(n_domains):
    line, circle = (sliding_windows(n_domains, Fraction(9, 10), shape) for shape in SHAPES)
    np.testing.assert_array_equal(line.covered, circle.covered)


def test_the_papers_place_for_the_rest_meets_the_right_points_on_the_circle():
    """With half a turn as 2, [−2, −1] and [2, 3] are the same arc, and the last windows reach into it."""
    made = sliding_windows(3, Fraction(9, 10))
    turn = 4 / made.unit
    rest, last_end = made.places[-1] % turn, made.windows[-1] + 2 / made.unit
    assert made.places[-2] > rest > made.places[-1 - 7]
    assert rest < last_end
