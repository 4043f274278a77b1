"""Cell thresholds: order statistics that ties and infinities do not disturb, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings

from domaincover import InputError
from domaincover.thresholds import (
    cell_thresholds,
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from tests.calibration import literal
from tests.calibration.small_data import DECIMALS, TARGETS, awkward_data, calibration_data


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
