"""Rules for each label by itself: equal to their definitions, and valid by repetition."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.calibration.rules import highest_confidence
from domaincover.criteria import sets_from_scores
from domaincover.thresholds import (
    cell_thresholds,
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from tests.calibration import literal
from tests.calibration.repeated import (
    CONFIDENCE,
    TARGET,
    Scene,
    mean_over_repetitions,
    recalls_in_new_domains,
    share_at_target,
)
from tests.calibration.small_data import (
    DECIMALS,
    N_DOMAINS,
    N_LABELS,
    TARGETS,
    awkward_data,
    calibration_data,
    one_row_cells,
    quietly,
)
from tests.recall import recall_by_cell


@given(calibration_data(), TARGETS)
def test_robust_recall_is_at_target_on_every_calibration_cell(data, target):
    scores, labels, domains = data
    thresholds = quietly(robust_thresholds, *data, target)
    recall = recall_by_cell(sets_from_scores(scores, thresholds), labels, domains, N_DOMAINS)
    assert (recall[~np.isnan(recall)] >= target).all()


@given(calibration_data(), TARGETS)
def test_robust_admits_a_label_when_any_domains_threshold_does(data, target):
    scores, labels, _ = data
    by_cell = cell_thresholds(*data, target)
    present = np.isin(np.arange(N_LABELS), labels)
    any_domain = (scores[:, None, :] >= by_cell).any(axis=1)
    assert np.array_equal(
        sets_from_scores(scores, quietly(robust_thresholds, *data, target))[:, present], any_domain[:, present]
    )


@given(calibration_data(), TARGETS)
def test_pooled_thresholds_equal_a_brute_force_search(data, target):
    scores, labels, domains = data
    found = quietly(pooled_thresholds, *data, target)
    for label in range(N_LABELS):
        cells = [scores[(labels == label) & (domains == e), label] for e in range(N_DOMAINS)]
        cells = [cell for cell in cells if len(cell)]
        reaching = [
            score
            for cell in cells
            for score in cell
            if np.mean([np.mean(other >= score) for other in cells]) >= target - 1e-9
        ]
        assert found[label] == (max(reaching) if cells else -np.inf)


def test_pooled_weighs_domains_alike_whatever_their_size():
    own = np.concatenate([np.linspace(0, 1, 1_000), np.linspace(10, 11, 10)])
    scores = np.stack([own, own], axis=1)
    thresholds = quietly(pooled_thresholds, scores, np.zeros(1_010, int), np.repeat([0, 1], [1_000, 10]), 0.75)
    assert thresholds[0] == pytest.approx(0.5, abs=0.01)


def test_the_target_is_met_exactly_where_a_sum_of_shares_rounds_down():
    scores = np.repeat(np.arange(10.0)[:, None], 2, axis=1)
    data = scores, np.zeros(10, int), np.zeros(10, int)
    assert quietly(pooled_thresholds, *data, 0.9)[0] == 1
    assert quietly(robust_thresholds, *data, 0.9)[0] == 1


@pytest.mark.parametrize("rule", [robust_thresholds, pooled_thresholds])
def test_a_label_without_calibration_examples_is_in_every_set_with_a_warning(rule):
    scores = np.zeros((4, 3))
    with pytest.warns(UserWarning, match=r"label\(s\) 1; they will be in every set"):
        thresholds = rule(scores, np.array([0, 2, 0, 2]), np.array([0, 0, 1, 1]), 0.9)
    assert thresholds.tolist() == [0, -np.inf, 0]


@pytest.mark.parametrize("rule", [robust_thresholds, pooled_thresholds])
def test_cells_below_the_minimum_size_do_not_calibrate(rule):
    scores = np.array([[5.0, 5.0]] * 4 + [[-9.0, -9.0]] * 2)
    labels, domains = np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 0, 0, 1, 1])
    assert rule(scores, labels, domains, 0.9, min_cell_size=2).tolist() == [5, 5]
    assert rule(scores, labels, domains, 0.9).tolist() == [-9, -9]
    with pytest.warns(UserWarning, match=r"label\(s\) 0, 1"):
        assert rule(scores, labels, domains, 0.9, min_cell_size=3).tolist() == [-np.inf, -np.inf]


def test_infinite_scores_are_calibrated_like_any_others():
    scores = np.array([[-np.inf, 0.0], [1.0, 0.0], [np.inf, 0.0], [0.0, np.inf]])
    data = scores, np.array([0, 0, 0, 1]), np.zeros(4, int)
    assert robust_thresholds(*data, 0.9).tolist() == [-np.inf, np.inf]
    assert robust_thresholds(*data, 0.5).tolist() == [1.0, np.inf]


# Definitions


@pytest.mark.parametrize("min_cell_size", [1, 2, 4])
@given(awkward_data(), DECIMALS, DECIMALS)
def test_order_is_its_definition(min_cell_size, data, target, confidence):
    found = quietly(order_thresholds, *data, target, confidence, min_cell_size, on_infeasible="widen")
    assert found.tolist() == literal.order(*data, target, confidence, min_cell_size)


@pytest.mark.parametrize("min_cell_size", [1, 2, 4])
@given(awkward_data(), DECIMALS)
def test_hierarchical_is_its_definition(min_cell_size, data, target):
    found = quietly(hierarchical_thresholds, *data, target, min_cell_size, on_infeasible="widen")
    assert found.tolist() == literal.hierarchical(*data, target, min_cell_size)


@given(awkward_data(), DECIMALS)
def test_robust_is_order_at_the_highest_confidence_that_a_labels_domains_allow(data, target):
    _, labels, domains = data
    robust = quietly(robust_thresholds, *data, target)
    for label in np.unique(labels):
        confidence = highest_confidence(len(np.unique(domains[labels == label])))
        order = quietly(order_thresholds, *data, target, confidence, on_infeasible="widen")
        assert order[label] == robust[label]


@given(awkward_data(), DECIMALS, st.lists(DECIMALS, min_size=2, max_size=2))
def test_more_confidence_never_raises_a_threshold(data, target, confidences):
    low, high = (quietly(order_thresholds, *data, target, c, on_infeasible="widen") for c in sorted(confidences))
    assert (high <= low).all()


@given(awkward_data(), DECIMALS)
def test_hierarchical_is_never_above_pooled(data, target):
    hierarchical = quietly(hierarchical_thresholds, *data, target, on_infeasible="widen")
    assert (hierarchical <= quietly(pooled_thresholds, *data, target)).all()


# Too few domains


PROMISES = pytest.mark.parametrize(
    ("rule", "promise"),
    [(order_thresholds, (0.5, 0.9)), (joint_thresholds, (0.5, 0.9)), (hierarchical_thresholds, (0.9,))],
)


@PROMISES
def test_too_few_domains_are_refused_with_what_they_allow_and_what_is_enough(rule, promise):
    what = "target recall" if rule is hierarchical_thresholds else "domain confidence"
    message = f"a {what} of 0.9 takes 9 calibration domains, and there are 8, which allow 0.888 at most; add domains"
    with pytest.raises(InputError, match=message):
        rule(*one_row_cells([8, 8]), *promise)
    assert rule(*one_row_cells([9, 9]), *promise).tolist() == [0, 0]


@PROMISES
def test_one_label_in_too_few_domains_is_refused_by_name_and_its_domains_counted(rule, promise):
    data = one_row_cells([9, 3, 12])
    with pytest.raises(InputError, match=r"but label\(s\) 'deer' are in 3, which allow 0.75 at most"):
        rule(*data, *promise, label_names=("cat", "deer", "hare"))
    with pytest.warns(UserWarning, match=r"label\(s\) 1 are in 3, .* at most; they will be in every set\.$"):
        assert rule(*data, *promise, on_infeasible="widen").tolist() == [0, -np.inf, 0]


@PROMISES
def test_small_cells_are_no_calibration_domains(rule, promise):
    data = [np.concatenate([part, part]) for part in one_row_cells([9, 9])]
    assert rule(*data, *promise, min_cell_size=2).tolist() == [0, 0]
    with pytest.raises(InputError, match="takes 9 calibration domains, and there are 0, which allow 0 at most"):
        rule(*data, *promise, min_cell_size=3)
    with pytest.warns(UserWarning, match="every set will hold every label"):
        assert (rule(*data, *promise, min_cell_size=3, on_infeasible="widen") == -np.inf).all()


@PROMISES
def test_without_any_row_every_set_holds_every_label(rule, promise):
    nothing = np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, int)
    assert quietly(rule, *nothing, *promise, on_infeasible="widen").tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize(
    ("rule", "promise", "options"),
    [
        (robust_thresholds, (0.9,), {}),
        (pooled_thresholds, (0.9,), {}),
        (hierarchical_thresholds, (0.9,), {"on_infeasible": "widen"}),
        (order_thresholds, (0.5, 0.9), {"on_infeasible": "widen"}),
        (joint_thresholds, (0.5, 0.9), {"on_infeasible": "widen"}),
    ],
)
def test_the_warning_points_to_the_line_that_called_the_rule(rule, promise, options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rule(*one_row_cells([9, 0]), *promise, **options)
    assert [warning.filename for warning in caught] == [__file__]


# Validity by repetition, of one scene each: the rules are compared with their definitions above


@pytest.mark.slow
def test_order_keeps_its_confidence_for_every_label():
    scene = Scene(19, 3, "heavy tails", rows_of_cell=(1, 30), share_absent=0.2)
    recall = recalls_in_new_domains(scene, order_thresholds, TARGET, CONFIDENCE, on_infeasible="widen")
    for label in range(scene.n_labels):
        found = share_at_target(recall[..., label])
        assert found.value >= CONFIDENCE - 3 * found.standard_error


@pytest.mark.slow
def test_order_is_as_sure_as_the_place_of_a_new_domain_says_and_no_surer():
    recall = recalls_in_new_domains(Scene(9, 2, "gaussian"), order_thresholds, TARGET, CONFIDENCE)
    found = share_at_target(recall.reshape(len(recall), -1))  # each label's share has the same expectation
    exact = 1 - literal.rank(CONFIDENCE, 9) / 10
    assert abs(found.value - exact) <= 4 * found.standard_error


@pytest.mark.slow
def test_hierarchical_keeps_average_recall_and_wastes_no_more_than_one_domain():
    scene = Scene(19, 4, "skewed")
    recall = recalls_in_new_domains(scene, hierarchical_thresholds, TARGET, on_infeasible="widen")
    # One domain of m + 1 counts 0 instead of up to 1, and a threshold steps over at most one row.
    most = TARGET + (1 + 1 / scene.rows_of_cell[0]) / (scene.n_domains + 1)
    for label in range(scene.n_labels):
        found = mean_over_repetitions(recall[..., label])
        assert TARGET - 3 * found.standard_error <= found.value <= most + 3 * found.standard_error
