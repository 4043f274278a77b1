"""The joint rule: equal to its definition, valid by repetition, and not wasteful."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.thresholds import cell_thresholds, joint_thresholds, order_thresholds
from tests.calibration import literal
from tests.calibration.repeated import CONFIDENCE, TARGET, Scene, recalls_in_new_domains, share_at_target
from tests.calibration.small_data import DECIMALS, awkward_data, one_row_cells, quietly

# Definition
from tests.deep import deep


@pytest.mark.parametrize("min_cell_size", [1, 2, 4])
@given(awkward_data(), DECIMALS, DECIMALS)
def test_joint_on_comparable_scores_is_its_definition(min_cell_size, data, target, confidence):
    options = {"on_infeasible": "widen", "comparable": True}
    found = quietly(joint_thresholds, *data, target, confidence, min_cell_size, **options)
    assert found.tolist() == literal.joint(*data, target, confidence, min_cell_size)


@given(awkward_data(), st.lists(DECIMALS, min_size=2, max_size=2), st.lists(DECIMALS, min_size=3, max_size=3))
def test_joint_of_targets_and_confidences_is_an_array_of_what_each_gives_alone(data, targets, confidences):
    found = quietly(joint_thresholds, *data, targets, confidences, on_infeasible="widen")
    alone = [
        [quietly(joint_thresholds, *data, target, c, on_infeasible="widen") for c in confidences] for target in targets
    ]
    assert np.array_equal(found, alone)


@pytest.mark.parametrize(("targets", "confidences"), [(0.5, 0.4), ([0.5], 0.4), (0.5, [[0.4]]), ([[0.5]] * 2, [0.4])])
def test_joint_has_the_shape_of_the_targets_then_of_the_confidences_then_labels(targets, confidences):
    found = joint_thresholds(*one_row_cells([3, 4]), targets, confidences)
    assert found.shape == (*np.shape(targets), *np.shape(confidences), 2)


@given(awkward_data(), DECIMALS, DECIMALS)
def test_with_one_label_joint_is_order(data, target, confidence):
    scores, labels, domains = data
    data = scores[:, :1], np.zeros_like(labels), domains
    joint = quietly(joint_thresholds, *data, target, confidence, on_infeasible="widen")
    assert joint == quietly(order_thresholds, *data, target, confidence, on_infeasible="widen")


@given(awkward_data(), DECIMALS, DECIMALS)
def test_all_but_fewer_than_k_calibration_domains_keep_every_label_at_target(data, target, confidence):
    threshold = quietly(joint_thresholds, *data, target, confidence, on_infeasible="widen")
    below = (cell_thresholds(*data, target) < threshold).any(axis=-1)
    n_domains = len(np.unique(data[2]))
    assert np.count_nonzero(below) <= max(literal.rank(confidence, n_domains) - 1, 0)


def test_domain_codes_that_no_row_has_are_no_domains():
    scores, labels, domains = one_row_cells([9, 9])
    assert np.array_equal(
        joint_thresholds(scores, labels, 7 * domains + 3, 0.5, 0.9), joint_thresholds(scores, labels, domains, 0.5, 0.9)
    )
    with pytest.raises(InputError, match="and there are 8"):
        joint_thresholds(scores[domains < 8], labels[domains < 8], 2 * domains[domains < 8], 0.5, 0.9)


# Labels in units of their own


@pytest.mark.parametrize("on_infeasible", ["widen", "pool"])
@pytest.mark.parametrize("n_rare", [0, 1, 5, 12])
def test_the_zero_and_the_unit_of_a_labels_scores_do_not_matter(n_rare, on_infeasible):
    rng = np.random.default_rng(n_rare)
    domains, labels = np.repeat(np.arange(25), 60), np.tile([0, 1, 2], 500)
    labels = np.where((labels == 2) & (domains >= n_rare), 0, labels)  # label 2 is in so many domains
    scores = rng.normal(size=(1500, 3)) + rng.normal(size=(25, 3))[domains] + 3 * np.eye(3)[labels]
    moved = scores * [1.0, 40.0, 0.01] + [3.0, -7.0, 0.2]
    options = {"on_infeasible": on_infeasible, "min_cell_size": 10}
    sets = [each >= quietly(joint_thresholds, each, labels, domains, 0.9, 0.9, **options) for each in (scores, moved)]
    assert np.array_equal(*sets)
    assert not sets[0][:, :2].all()


def test_a_label_with_wide_scores_does_not_widen_the_sets_of_the_others():
    rng = np.random.default_rng(0)
    domains, labels = np.repeat(np.arange(25), 100), np.tile([0, 1], 1250)
    scores = (rng.normal(size=(2500, 2)) + 3 * np.eye(2)[labels]) * [1, 100]
    as_they_are, in_units = (joint_thresholds(scores, labels, domains, 0.9, 0.9, comparable=c) for c in (True, False))
    assert (scores >= in_units).sum() < 0.9 * (scores >= as_they_are).sum()


# A label that few domains have


def test_a_label_is_held_by_its_own_cells_too():
    labels, domains = np.repeat([0, 1], [99, 9]), np.concatenate([np.arange(99), np.arange(9)])
    scores = np.where(labels == 1, np.arange(108) - 99.0 - 10, np.arange(108.0))[:, None] + np.zeros((108, 2))
    found = joint_thresholds(scores, labels, domains, 0.5, 0.9, comparable=True)
    assert found.tolist() == [9.0, -10.0]  # the tenth lowest of 99 domains, and the lowest of the nine


# Too few domains


def test_too_few_domains_are_refused_with_what_they_allow_and_what_is_enough():
    message = "a domain confidence of 0.95 takes 19 calibration domains, and there are 18, which allow 0.947 at most"
    with pytest.raises(InputError, match=message):
        joint_thresholds(*one_row_cells([18, 18]), 0.5, 0.95)


def test_with_widen_too_few_domains_put_every_label_into_every_set_with_a_warning():
    with pytest.warns(UserWarning, match="there are 8, which allow 0.888 at most; every set will hold every label"):
        found = joint_thresholds(*one_row_cells([8, 8]), 0.5, 0.9, on_infeasible="widen")
    assert found.tolist() == [-np.inf, -np.inf]


def test_a_label_in_too_few_domains_is_refused_by_name_though_there_are_enough_domains():
    with pytest.raises(InputError, match=r"label\(s\) 'deer', 'elk' are in between 2 and 8, which allow 0.888 at most"):
        joint_thresholds(*one_row_cells([9, 8, 20, 2]), 0.5, 0.9, label_names=("cat", "deer", "hare", "elk"))


def test_a_widened_label_lowers_no_other_labels_threshold():
    scores, labels, domains = one_row_cells([9, 3])
    scores = np.where(labels[:, None] == 1, -5.0, 0.0) + np.zeros_like(scores)
    with pytest.warns(UserWarning, match=r"label\(s\) 1 are in 3, .*; they will be in every set\.$"):
        assert joint_thresholds(scores, labels, domains, 0.5, 0.9, on_infeasible="widen").tolist() == [0, -np.inf]


def test_domains_that_have_widened_labels_only_do_not_count():
    # 19 domains would allow the second lowest of the first label's nine thresholds, which nine do not
    labels, domains = np.repeat([0, 1, 2], [9, 5, 5]), np.arange(19)
    scores = np.repeat(np.arange(19.0)[:, None], 3, axis=1)
    options = {"on_infeasible": "widen", "comparable": True}
    found = quietly(joint_thresholds, scores, labels, domains, 0.5, 0.9, **options)
    assert found.tolist() == [0, -np.inf, -np.inf]


def test_small_cells_are_no_calibration_domains():
    data = [np.concatenate([part, part]) for part in one_row_cells([9, 9])]
    assert joint_thresholds(*data, 0.5, 0.9, min_cell_size=2).tolist() == [0, 0]
    with pytest.raises(InputError, match="takes 9 calibration domains, and there are 0, which allow 0 at most"):
        joint_thresholds(*data, 0.5, 0.9, min_cell_size=3)


def test_without_any_row_every_set_holds_every_label():
    nothing = np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, int)
    found = quietly(joint_thresholds, *nothing, [0.5, 0.6], 0.9, on_infeasible="widen")
    assert (found == np.full((2, 2), -np.inf)).all()


def test_the_warning_points_to_the_line_that_called_the_rule():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        joint_thresholds(*one_row_cells([9, 2]), 0.5, 0.9, on_infeasible="widen")
    assert [warning.filename for warning in caught] == [__file__]


# Validity by repetition

SCENES = [
    Scene(9, 2, "heavy tails"),
    Scene(9, 10, "gaussian", rows_of_cell=(5, 40)),
    Scene(19, 3, "skewed", rows_of_cell=(2, 30), share_absent=0.2),
    Scene(19, 6, "heavy tails", rows_of_cell=(2, 30), min_cell_size=11),
    Scene(19, 3, "gaussian", tied=True),
    Scene(40, 10, "heavy tails", rows_of_cell=(5, 20)),
    Scene(40, 2, "skewed"),
    Scene(40, 4, "gaussian", rows_of_cell=(1, 30), share_absent=0.3, min_cell_size=6),
]


def share_of_domains_at_target(scene, **options):
    """Return the share of the new domains with a cell that counts whose min recall is at target."""
    recall = recalls_in_new_domains(scene, joint_thresholds, TARGET, CONFIDENCE, **options)
    min_recall = np.where(np.isnan(recall), np.inf, recall).min(axis=-1)
    return share_at_target(np.where(np.isinf(min_recall), np.nan, min_recall))


@pytest.mark.slow
@pytest.mark.parametrize("comparable", [True, False])
@pytest.mark.parametrize("scene", [SCENES[2], *deep(*SCENES[:2], *SCENES[3:])])
def test_joint_keeps_its_confidence_in_the_min_recall_of_a_new_domain(scene, comparable):
    found = share_of_domains_at_target(scene, on_infeasible="widen", comparable=comparable)
    assert found.value >= CONFIDENCE - 3 * found.standard_error


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["skewed", *deep("gaussian", "heavy tails")])
def test_joint_is_as_sure_as_the_place_of_a_new_domain_says_and_no_surer(noise):
    # With distinct scores the new domain is below the second lowest of 19 when it is among the two lowest of 20.
    found = share_of_domains_at_target(Scene(19, 4, noise), comparable=True)
    assert abs(found.value - 18 / 20) <= 4 * found.standard_error
    assert found.value <= 0.95 + 3 * found.standard_error
