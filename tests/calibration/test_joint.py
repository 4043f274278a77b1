"""The joint rule: equal to its definition, valid by repetition, and not wasteful."""

import numpy as np
import pytest
from hypothesis import given

from domaincover import InputError
from domaincover.thresholds import cell_thresholds, joint_thresholds, order_thresholds
from tests.calibration import literal
from tests.calibration.repeated import CONFIDENCE, TARGET, Scene, recalls_in_new_domains, share_at_target
from tests.calibration.small_data import DECIMALS, awkward_data, one_row_cells, quietly


@pytest.mark.parametrize("min_cell_size", [1, 2, 4])
@given(awkward_data(), DECIMALS, DECIMALS)
def test_joint_on_comparable_scores_is_its_definition(min_cell_size, data, target, confidence):
    options = {"on_infeasible": "widen"}
    found = quietly(joint_thresholds, *data, target, confidence, min_cell_size, **options)
    assert found.tolist() == literal.joint(*data, target, confidence, min_cell_size)


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


# A label that few domains have


def test_a_label_is_held_by_its_own_cells_too():
    labels, domains = np.repeat([0, 1], [99, 9]), np.concatenate([np.arange(99), np.arange(9)])
    scores = np.where(labels == 1, np.arange(108) - 99.0 - 10, np.arange(108.0))[:, None] + np.zeros((108, 2))
    found = joint_thresholds(scores, labels, domains, 0.5, 0.9)
    assert found.tolist() == [9.0, -10.0]  # the tenth lowest of 99 domains, and the lowest of the nine


# Too few domains


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
    options = {"on_infeasible": "widen"}
    found = quietly(joint_thresholds, scores, labels, domains, 0.5, 0.9, **options)
    assert found.tolist() == [0, -np.inf, -np.inf]


# Validity by repetition


def share_of_domains_at_target(scene, **options):
    """Return the share of the new domains with a cell that counts whose min recall is at target."""
    recall = recalls_in_new_domains(scene, joint_thresholds, TARGET, CONFIDENCE, **options)
    min_recall = np.where(np.isnan(recall), np.inf, recall).min(axis=-1)
    return share_at_target(np.where(np.isinf(min_recall), np.nan, min_recall))


@pytest.mark.slow
def test_joint_keeps_its_confidence_in_the_min_recall_of_a_new_domain():
    scene = Scene(19, 3, "skewed", rows_of_cell=(2, 30), share_absent=0.2)
    found = share_of_domains_at_target(scene, on_infeasible="widen")
    assert found.value >= CONFIDENCE - 3 * found.standard_error


@pytest.mark.slow
def test_joint_is_as_sure_as_the_place_of_a_new_domain_says_and_no_surer():
    # With distinct scores the new domain is below the second lowest of 19 when it is among the two lowest of 20.
    found = share_of_domains_at_target(Scene(19, 4, "skewed"))
    assert abs(found.value - 18 / 20) <= 4 * found.standard_error
    assert found.value <= 0.95 + 3 * found.standard_error
