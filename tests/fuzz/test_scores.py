"""Thresholds and reports from scores with ties, infinities, single examples and absent labels, against loops."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover import InputError, certify, to_label_lists
from domaincover.calibration.rules import (
    cell_thresholds,
    hierarchical_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.criteria import sets_from_scores
from domaincover.evaluation import domain_report
from tests.fuzz.answers import answer, is_refused
from tests.fuzz.damage import few

targets = st.sampled_from([0.1, 0.5, 2 / 3, 0.9, 0.999])
numbers = st.sampled_from([-math.inf, -1.0, -0.0, 0.0, 0.5, 1.0, 1e308, math.inf])
kinds = st.sampled_from([np.float16, np.float32, np.float64, np.longdouble])


@st.composite
def problems(draw):
    n_rows, n_labels, n_domains = draw(st.integers(0, 12)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    scores = np.array(
        draw(st.lists(st.lists(numbers, min_size=n_labels, max_size=n_labels), min_size=n_rows, max_size=n_rows))
    ).reshape(n_rows, n_labels)
    with np.errstate(over="ignore"):
        scores = scores.astype(draw(kinds))
    labels = np.array(draw(st.lists(st.integers(0, n_labels - 1), min_size=n_rows, max_size=n_rows)), dtype=int)
    domains = np.array(draw(st.lists(st.integers(0, n_domains - 1), min_size=n_rows, max_size=n_rows)), dtype=int)
    if draw(st.booleans()):  # neither contiguous nor writeable
        scores = np.asfortranarray(scores)
        scores.setflags(write=False)
    return scores, labels, domains


def cells_of(scores, labels, domains):
    """Return the own-label scores of every cell that has examples."""
    found = {}
    for row, label, domain in zip(scores, labels, domains, strict=True):
        found.setdefault((int(domain), int(label)), []).append(float(row[label]))
    return found


def recall_at(cell, threshold):
    return sum(score >= threshold for score in cell) / len(cell)


def highest_at_target(cell, target):
    return max(score for score in cell if recall_at(cell, score) >= target)


@few(30)
@given(problems(), targets)
def test_a_cells_threshold_is_the_highest_score_that_keeps_the_target(door, problem, target):
    door("scores")
    by_cell, found = cells_of(*problem), cell_thresholds(*problem, target)
    for (domain, label), threshold in np.ndenumerate(found):
        cell = by_cell.get((domain, label))
        assert threshold == (math.inf if cell is None else highest_at_target(cell, target))


@few(30)
@given(problems(), targets)
def test_robust_is_the_lowest_and_every_seen_cell_is_at_target(door, problem, target):
    door("scores")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = robust_thresholds(*problem, target)
    for label, threshold in enumerate(found):
        cells = [cell for (_, own), cell in cells_of(*problem).items() if own == label]
        assert threshold == (min(highest_at_target(cell, target) for cell in cells) if cells else -math.inf)
        assert all(recall_at(cell, threshold) >= target for cell in cells)


@few(30)
@given(problems(), targets)
def test_pooled_is_the_highest_score_whose_mean_recall_is_at_target(door, problem, target):
    door("scores")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pooled_thresholds(*problem, target)
    for label, threshold in enumerate(found):
        cells = [cell for (_, own), cell in cells_of(*problem).items() if own == label]
        if not cells:
            assert threshold == -math.inf
            continue
        mean = {score: np.mean([recall_at(cell, score) for cell in cells]) for cell in cells for score in cell}
        assert threshold == max(score for score, recall in mean.items() if recall >= target - 1e-9)


@few(25)
@given(problems(), targets, st.sampled_from([0.3, 0.5, 0.75, 0.9]))
def test_order_and_joint_are_order_statistics_or_refused(door, problem, target, confidence):
    door("scores")
    by_cell, n_labels = cells_of(*problem), problem[0].shape[1]
    order = answer(order_thresholds, *problem, target, confidence)
    joint = answer(joint_thresholds, *problem, target, confidence)
    hierarchical = answer(hierarchical_thresholds, *problem, target)
    by_label = [[cell for (_, own), cell in by_cell.items() if own == label] for label in range(n_labels)]
    feasible = all(math.floor((1 - confidence) * (len(cells) + 1) + 1e-9) >= 1 for cells in by_label)
    assert is_refused(order) != feasible
    assert is_refused(joint) != feasible
    if feasible:
        for label, cells in enumerate(by_label):
            each = sorted(highest_at_target(cell, target) for cell in cells)
            assert order[label] == each[math.floor((1 - confidence) * (len(cells) + 1) + 1e-9) - 1]
        allowed = {}
        for (domain, _), cell in by_cell.items():
            allowed[domain] = min(allowed.get(domain, math.inf), highest_at_target(cell, target))
        rank = math.floor((1 - confidence) * (len(allowed) + 1) + 1e-9)
        assert np.array_equal(joint, np.minimum(order, sorted(allowed.values())[rank - 1]))
    if not is_refused(hierarchical):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (hierarchical <= pooled_thresholds(*problem, target)).all()


@few(30)
@given(problems(), st.integers(1, 4))
def test_a_report_counts_as_a_loop_does(door, problem, min_cell_size):
    door("scores")
    scores, labels, domains = problem
    sets = scores >= 0.5
    names = tuple(f"label {k}" for k in range(scores.shape[1])), tuple(f"domain {k}" for k in range(4))
    report = answer(domain_report, sets, labels, domains, *names, min_cell_size)
    counted = {
        cell: np.mean([sets[row, cell[1]] for row in range(len(labels)) if (domains[row], labels[row]) == cell])
        for cell, own in cells_of(*problem).items()
        if len(own) >= min_cell_size
    }
    if is_refused(report):
        assert not counted
        return
    kept = sorted({domain for domain, _ in counted})
    assert report.domain_names == tuple(names[1][domain] for domain in kept)
    for place, domain in enumerate(kept):
        for label in range(scores.shape[1]):
            expected = counted.get((domain, label), math.nan)
            assert report.recall[place, label] == pytest.approx(expected, nan_ok=True, abs=1e-12)
    assert 0 <= report.summary(0.9).share_at_target <= 1
    answer(certify, report, 0.9)


def test_a_score_that_is_no_number_leaves_no_label_out():
    assert sets_from_scores(np.array([[math.nan, 0.0]]), np.array([0.5, 0.5])).tolist() == [[True, False]]
    assert sets_from_scores(np.array([[math.nan, -math.inf]]), np.full(2, -math.inf)).all()


@pytest.mark.parametrize("rule", [robust_thresholds, pooled_thresholds, cell_thresholds])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda s, y, d: (s[:, 0], y, d),
        lambda s, y, d: (s, y[:-1], d),
        lambda s, y, d: (s, y, d[:, None]),
        lambda s, y, d: (s, y - 1, d),
        lambda s, y, d: (s, y + 5, d),
        lambda s, y, d: (s, y.astype(float), d),
        lambda s, y, d: (s, y, d.astype(str)),
        lambda s, y, d: (s * np.nan, y, d),
        lambda s, y, d: (s.astype(object), y, d),
        lambda s, y, d: (s.astype(str), y, d),
        lambda s, y, d: (s.astype(complex), y, d),
        lambda s, y, d: (s, y, d + 10**12),
        lambda s, y, d: (s, y, d + 2**62),
    ],
)
def test_arrays_that_do_not_fit_are_refused(door, rule, spoil):
    door("scores")
    scores, labels, domains = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    assert is_refused(answer(rule, *spoil(scores, labels, domains), 0.9))


@pytest.mark.parametrize("target", [0, 1, -1, 2, math.nan, math.inf, "0.9", None, True, [0.9, math.nan], []])
def test_a_target_that_is_no_share_is_refused(door, target):
    door("scores")
    assert is_refused(answer(robust_thresholds, np.ones((2, 1)), np.zeros(2, int), np.zeros(2, int), target))


def test_label_lists_need_a_column_for_each_class():
    for sets in ([True], [[True]], [[True, False, True]], np.zeros((0, 3), bool), 7):
        with pytest.raises(InputError, match="a column for each of 2 classes"):
            to_label_lists(sets, ["a", "b"])
