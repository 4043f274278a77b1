import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from domaincover import InputError, cell_thresholds, pooled_thresholds, robust_thresholds
from domaincover.prediction_sets import recall_by_cell, sets_from_scores

N_LABELS, N_DOMAINS = 3, 4
TARGETS = st.sampled_from([0.05, 0.5, 0.7, 0.8, 0.9, 0.95, 0.999]) | st.floats(0.01, 0.99)


@st.composite
def calibration_data(draw):
    """Few distinct scores, so that ties are common; labels may be absent."""
    n = draw(st.integers(1, 60))
    scores = draw(hnp.arrays(np.float32, (n, N_LABELS), elements=st.sampled_from([-2.5, -1.0, 0.0, 0.5, 0.75, 3.0])))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, N_LABELS - 1)))
    domains = draw(hnp.arrays(np.int64, n, elements=st.integers(0, N_DOMAINS - 1)))
    return scores, labels, domains


def quietly(rule, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # absent labels are common here and have a test of their own
        return rule(*args)


@given(calibration_data(), TARGETS)
@settings(max_examples=300)
def test_robust_recall_is_at_target_on_every_calibration_cell(data, target):
    scores, labels, domains = data
    thresholds = quietly(robust_thresholds, *data, target)
    recall = recall_by_cell(sets_from_scores(scores, thresholds), labels, domains, N_DOMAINS)
    assert (recall[~np.isnan(recall)] >= target).all()


@given(calibration_data(), TARGETS)
@settings(max_examples=300)
def test_a_cells_threshold_is_the_largest_score_that_keeps_its_recall(data, target):
    scores, labels, domains = data
    found = cell_thresholds(*data, target)
    for domain, label in np.ndindex(*found.shape):
        own = scores[(labels == label) & (domains == domain), label]
        reaching = [score for score in own if np.mean(own >= score) >= target]
        assert found[domain, label] == (max(reaching) if len(own) else np.inf)


@given(calibration_data(), TARGETS)
@settings(max_examples=300)
def test_robust_admits_a_label_when_any_domains_threshold_does(data, target):
    scores, labels, _ = data
    by_cell = cell_thresholds(*data, target)
    present = np.isin(np.arange(N_LABELS), labels)
    any_domain = (scores[:, None, :] >= by_cell).any(axis=1)
    assert np.array_equal(
        sets_from_scores(scores, quietly(robust_thresholds, *data, target))[:, present], any_domain[:, present]
    )


@given(calibration_data(), TARGETS)
@settings(max_examples=300)
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
def test_cells_of_the_minimal_size_do_not_calibrate(rule):
    scores = np.array([[5.0, 5.0]] * 4 + [[-9.0, -9.0]] * 2)
    labels, domains = np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 0, 0, 1, 1])
    assert rule(scores, labels, domains, 0.9, min_cell_size=1).tolist() == [5, 5]
    assert rule(scores, labels, domains, 0.9).tolist() == [-9, -9]
    with pytest.warns(UserWarning, match=r"label\(s\) 0, 1"):
        assert rule(scores, labels, domains, 0.9, min_cell_size=2).tolist() == [-np.inf, -np.inf]


def test_infinite_scores_are_calibrated_like_any_others():
    scores = np.array([[-np.inf, 0.0], [1.0, 0.0], [np.inf, 0.0], [0.0, np.inf]])
    data = scores, np.array([0, 0, 0, 1]), np.zeros(4, int)
    assert robust_thresholds(*data, 0.9).tolist() == [-np.inf, np.inf]
    assert robust_thresholds(*data, 0.5).tolist() == [1.0, np.inf]


@pytest.mark.parametrize(
    ("scores", "target", "message"),
    [
        (np.full((2, 2), np.nan), 0.9, "2 scores are NaN, first at row 0"),
        (np.zeros((3, 2)), 0.9, r"one label for each of 3 examples, got shape \(2,\)"),
        (np.zeros(2), 0.9, r"examples × labels, got shape \(2,\)"),
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
