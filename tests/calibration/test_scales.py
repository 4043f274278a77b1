"""Scales: level 0 is the target on the training rows, and a label's unit does not matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover.calibration.scales import Scale, as_they_are, quantile_scale
from tests.calibration import literal
from tests.calibration.small_data import DECIMALS, FINITE, N_LABELS, awkward_data, calibration_data


def levels(scores, scale):
    return (scores - scale.base) / scale.unit


@given(calibration_data(), DECIMALS)
def test_level_0_is_the_largest_at_which_a_labels_training_recall_is_at_target(data, target):
    scores, labels, _ = data
    level = levels(scores, quantile_scale(scores, labels, target))
    for label in np.unique(labels):
        own = level[labels == label, label]
        holding = [score for score in own if literal.recall(own, score) >= literal.exact(target)]
        assert max(holding) == 0


@given(st.integers(1, 200), st.integers(0, 2**32), DECIMALS.filter(lambda target: target >= 0.5))
def test_a_fifth_as_many_are_missed_at_level_minus_1(n, seed, target):
    scores = np.random.default_rng(seed).normal(size=(n, 1))
    level = levels(scores, quantile_scale(scores, np.zeros(n, int), target))[:, 0]
    # below a target of 0.18, rounding of this share may pick the neighbouring score, which no promise rests on
    a_fifth_missed = 1 - (1 - literal.exact(target)) / 5
    lowest = max(score for score in level if literal.recall(level, score) >= a_fifth_missed)
    assert lowest in (pytest.approx(-1), 0)  # 0 where so few rows give one and the same score


@given(awkward_data(), DECIMALS)
def test_every_unit_is_a_positive_number_and_every_base_a_number(data, target):
    scores, labels, _ = data
    base, unit = quantile_scale(scores, labels, target)
    assert np.isfinite(base).all()
    assert ((unit > 0) & np.isfinite(unit)).all()


@pytest.mark.parametrize("value", [-np.inf, -3.0, 0.0, 5.0, np.inf])
def test_scores_that_are_all_alike_have_unit_1(value):
    scale = quantile_scale(np.full((10, 2), value), np.arange(10) % 2, 0.9)
    assert scale.unit.tolist() == [1, 1]
    assert scale.base.tolist() == [value if np.isfinite(value) else 0] * 2


@pytest.mark.parametrize("without", ["rows", "variety", "finite scores"])
def test_a_label_that_says_nothing_of_its_unit_gets_the_widest_of_the_others(without):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(300, 3)) * [1, 4, 100], np.arange(300) % 3
    if without == "rows":
        labels[labels == 2] = 0
    scores[:, 2] = {"variety": 7.0, "finite scores": -np.inf}.get(without, scores[:, 2])
    unit = quantile_scale(scores, labels, 0.9).unit
    assert unit[2] == max(unit[:2])
    assert unit[0] != unit[1]


@given(
    st.integers(0, 2**32),
    DECIMALS,
    st.lists(st.floats(1e-3, 1e3), min_size=N_LABELS, max_size=N_LABELS),
    st.lists(st.floats(-100, 100), min_size=N_LABELS, max_size=N_LABELS),
)
def test_an_affine_change_of_a_labels_scores_changes_no_level(seed, target, factors, shifts):
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(600, N_LABELS)), np.arange(600) % N_LABELS
    changed = scores * factors + shifts
    before = levels(scores, quantile_scale(scores, labels, target))
    after = levels(changed, quantile_scale(changed, labels, target))
    # A shift costs up to 100 / 1e-3 times the rounding of a score, and units of 200 scores are above 1e-4.
    assert np.allclose(after, before, rtol=1e-5, atol=1e-5)


def test_the_scale_that_changes_nothing_changes_nothing():
    scores = np.array([FINITE[:3], FINITE[3:]])
    assert np.array_equal(levels(scores, as_they_are(3)), scores)


def test_a_scale_for_all_labels_is_the_mean_of_theirs():
    scale = Scale(np.array([1.0, 3.0]), np.array([2.0, 4.0])).for_all_labels()
    assert scale.base.tolist() == [2, 2]
    assert scale.unit.tolist() == [3, 3]
