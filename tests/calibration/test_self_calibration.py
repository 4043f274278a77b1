"""Self-calibrated thresholds: equal to their definition, with ties, gaps and domains of any size."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from domaincover import InputError
from domaincover.calibration.adaptation import self_calibrated_thresholds
from domaincover.thresholds import cell_thresholds
from tests.calibration.literal import exact
from tests.calibration.small_data import DECIMALS

SCORES = (-np.inf, -2.5, 0.0, 0.5, 3.0, np.inf)


@st.composite
def unlabelled_rows(draw):
    """Draw few distinct scores, eighths as probabilities, and domains in any order, some without rows."""
    n = draw(st.integers(0, 40))
    scores = draw(hnp.arrays(np.float32, (n, 2), elements=st.sampled_from(SCORES)))
    eighths = draw(hnp.arrays(np.int64, (n, 2), elements=st.integers(0, 8)))
    domains = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 5)))
    return scores, eighths / 8, domains


def literal(scores, probabilities, domains, target, n_domains):
    """Return the largest score at and above which the target share of the probability lies, in exact fractions."""
    found = np.full((n_domains, scores.shape[1]), np.nan)
    for domain in range(n_domains):
        for label in range(scores.shape[1]):
            rows = [
                (float(s), Fraction(float(p)))
                for s, p in zip(scores[domains == domain, label], probabilities[domains == domain, label], strict=True)
            ]
            total = sum(p for _, p in rows)
            holding = [t for t, _ in rows if sum(p for s, p in rows if s >= t) >= exact(target) * total]
            if total > 0:
                found[domain, label] = max(holding)
    return found


@given(unlabelled_rows(), DECIMALS)
def test_a_self_calibrated_threshold_is_its_definition(rows, target):
    found = self_calibrated_thresholds(*rows, target, n_domains=6)
    assert np.array_equal(found, literal(*rows, target, 6), equal_nan=True)


@given(unlabelled_rows(), DECIMALS)
def test_certain_probabilities_give_the_thresholds_of_the_labels(rows, target):
    scores, _, domains = rows
    labels = np.arange(len(scores)) % 2
    found = self_calibrated_thresholds(scores, np.eye(2)[labels], domains, target, n_domains=6)
    expected = np.full((6, 2), np.inf)
    of_cells = cell_thresholds(scores, labels, domains, target)
    expected[: len(of_cells)] = of_cells
    has_rows = np.bincount(domains * 2 + labels, minlength=12).reshape(6, 2) > 0
    assert np.array_equal(found[has_rows], expected[has_rows])
    assert np.isnan(found[~has_rows]).all()


def test_the_order_of_rows_and_the_sizes_of_the_other_domains_do_not_matter():
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(8), [1, 2, 3, 40, 41, 400, 5000, 0])
    scores = rng.normal(size=(len(domains), 3)).astype(np.float32)
    probabilities = rng.random((len(domains), 3)).astype(np.float32)
    alone = [
        self_calibrated_thresholds(
            scores[domains == each], probabilities[domains == each], 0 * domains[domains == each], 0.9, 1
        )[0]
        for each in range(8)
    ]
    shuffled = rng.permutation(len(domains))
    found = self_calibrated_thresholds(scores[shuffled], probabilities[shuffled], domains[shuffled], 0.9, 8)
    assert np.array_equal(found, alone, equal_nan=True)


def test_single_and_double_precision_agree():
    rng = np.random.default_rng(0)
    scores, probabilities = rng.normal(size=(2, 500, 2)).astype(np.float32)
    rows = scores, np.abs(probabilities), rng.integers(0, 4, 500)
    in_double = rows[0].astype(float), rows[1].astype(float), rows[2]
    assert np.array_equal(self_calibrated_thresholds(*rows, 0.9), self_calibrated_thresholds(*in_double, 0.9))


def test_a_constant_score_is_the_threshold_and_one_row_gives_its_score():
    found = self_calibrated_thresholds(np.full((5, 1), 2.0), np.full((5, 1), 0.2), np.array([0, 0, 0, 0, 1]), 0.9)
    assert found.tolist() == [[2.0], [2.0]]


def test_a_row_with_nan_does_not_count_for_that_label():
    scores = np.array([[5.0, 1.0], [1.0, np.nan], [0.0, 0.0]])
    probabilities = np.array([[0.5, 0.5], [0.5, 0.9], [np.nan, 0.5]])
    found = self_calibrated_thresholds(scores, probabilities, np.zeros(3, int), 0.5)
    assert found.tolist() == [[5.0, 1.0]]
    assert np.isnan(self_calibrated_thresholds(scores * np.nan, probabilities, np.zeros(3, int), 0.5)).all()


def test_without_rows_or_probability_nothing_is_known():
    nothing = np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0, int)
    assert self_calibrated_thresholds(*nothing, 0.9).shape == (0, 2)
    assert np.isnan(self_calibrated_thresholds(*nothing, 0.9, n_domains=3)).all()
    assert np.isnan(self_calibrated_thresholds(np.ones((2, 1)), np.zeros((2, 1)), np.zeros(2, int), 0.9)).all()


@pytest.mark.parametrize(
    ("scores", "probabilities", "domains", "message"),
    [
        (np.zeros(3), np.zeros(3), np.zeros(3, int), "scores must be numbers, rows × labels"),
        (np.zeros((3, 2)), np.zeros((3, 1)), np.zeros(3, int), r"shape of the scores, \(3, 2\), got"),
        (np.zeros((3, 2)), np.full((3, 2), -0.1), np.zeros(3, int), "probabilities must not be negative"),
        (np.zeros((3, 2)), np.ones((3, 2)), np.zeros(2, int), "one domain for each of 3"),
        (np.zeros((3, 2)), np.ones((3, 2)), np.array([0, 1, 10**9]), "codes count from 0"),
    ],
)
def test_bad_rows_are_rejected(scores, probabilities, domains, message):
    with pytest.raises(InputError, match=message):
        self_calibrated_thresholds(scores, probabilities, domains, 0.9)
