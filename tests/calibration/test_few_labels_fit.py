"""Labels of a new domain: the promise by repetition, and what is calibrated."""

import numpy as np
import pytest

from domaincover.calibration.adaptation_fit import Promise, ScoredRows
from domaincover.calibration.few_labels import MOST_POOL, School, TaughtRows, fit_few_labels, sampled_rows
from domaincover.calibration.links import log_odds, softmax
from tests.calibration.shifted_domains import share_and_error
from tests.deep import deep

MIN_CELL_SIZE = 10


def draw(n_domains, rng, n_rows=240, n_classes=3, shift=0.8):
    """Draw domains whose classes move, scored by a model that knows the average domain only."""
    domains = np.repeat(np.arange(n_domains), n_rows)
    labels = rng.integers(n_classes, size=len(domains))
    means = 2.0 * np.eye(n_classes)
    moved = means + shift * rng.normal(size=(n_domains, n_classes, n_classes))
    features = moved[domains, labels] + rng.normal(size=(len(domains), n_classes))
    probabilities = softmax((features @ means.T) / (1 + shift**2))
    return TaughtRows(ScoredRows(log_odds(probabilities), probabilities, labels, domains), features)


def promise_of(taught, confidence=0.9):
    return Promise.of(taught.rows, 0.9, confidence, MIN_CELL_SIZE)


def gain_in_domains(promise, taught, level, number, label_rows, rng):
    """Return the mean set sizes of domains, and whether they are at target, with so many labels of each."""
    school = School.of(taught, MOST_POOL, number, label_rows, rng)
    draws = school.batches(promise, number, level.prior_scale, rng)(MOST_POOL)
    pools = school.lessons[0].pool_sizes
    n_rows = level.n_evidence(pools, np.minimum(number, pools))
    thresholds = [level.thresholds.of_evidence(draw.evidence, n_rows) for draw in draws]
    sizes = [promise.sizes(*each) for each in zip(draws, thresholds, strict=True)]
    lowest = np.array([draw.asked - each for draw, each in zip(draws, thresholds, strict=True)]).min(axis=-1)
    return np.mean(sizes, axis=0), np.mean(lowest >= 0, axis=0)


def repeated(confidence, n_labels, n_repetitions, label_rows="uncertain", **scene):
    """Return the share of new domains at target and its standard error, and in how many repetitions labels taught."""
    rng = np.random.default_rng(0)
    at_target = []
    for _ in range(n_repetitions):
        training, calibration, new = (draw(n, rng, **scene) for n in (19, 19, 10))
        promise = promise_of(calibration, confidence)
        found = fit_few_labels(promise, calibration, training, [n_labels], label_rows, rng).by_number
        if found:
            _, held = gain_in_domains(promise, new, found[n_labels], n_labels, label_rows, rng)
            at_target.append((np.sum(held), 10))
    return (*share_and_error(at_target), len(at_target)) if at_target else (1.0, 0.0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        (0.9, 30, "uncertain"),
        (0.8, 100, "uncertain"),
        *deep((0.9, 100, "uncertain"), (0.9, 30, "random"), (0.8, 30, "random"), (0.8, 10, "uncertain")),
    ],
)
def test_the_promise_is_kept_in_later_rows(case):
    confidence, n_labels, label_rows = case
    share, error, n_found = repeated(confidence, n_labels, 20, label_rows)
    assert n_found >= 10
    assert share >= confidence - 4 * error


@pytest.mark.deep
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("n_labels", [30, 100, 300])
@pytest.mark.parametrize("label_rows", ["uncertain", "random"])
def test_the_promise_is_kept_with_two_and_with_ten_labels(n_classes, n_labels, label_rows):
    share, error, _ = repeated(0.9, n_labels, 20, label_rows, n_rows=700, n_classes=n_classes)
    assert share >= 0.9 - 4 * error


def test_what_is_gained_in_calibration_domains_is_gained_in_new_ones():
    rng = np.random.default_rng(1)
    calibration, new = draw(40, rng), draw(40, rng)
    promise = promise_of(calibration)
    found = fit_few_labels(promise, calibration, None, (30, 100), "uncertain", rng)
    assert found.gain["labels"] == [0, *found.by_number]
    for number, size, share in list(zip(*found.gain.values(), strict=True))[1:]:
        sizes, held = gain_in_domains(promise, new, found.by_number[number], number, "uncertain", rng)
        assert np.mean(sizes) == pytest.approx(size, abs=4 * np.std(sizes) * np.sqrt(2 / 40))
        assert np.mean(held) == pytest.approx(share, abs=4 * np.sqrt(2 * 0.9 * 0.1 / 40))


def test_numbers_of_labels_that_the_domains_have_no_rows_for_are_left_out():
    rng = np.random.default_rng(0)
    small = draw(19, rng, n_rows=120)
    found = fit_few_labels(promise_of(small), small, None, (30, 100), "uncertain", rng)
    assert found.n_pool == 60
    assert 100 not in found.by_number


def test_domains_without_shift_have_nothing_to_learn():
    rng = np.random.default_rng(0)
    still = draw(25, rng, shift=0.0)
    found = fit_few_labels(promise_of(still), still, None, (30,), "uncertain", rng)
    assert found.by_number == {}
    assert found.gain["labels"] == [0]


def test_later_rows_are_neither_labelled_nor_do_they_set_thresholds():
    rng = np.random.default_rng(0)
    taught = draw(5, rng, n_rows=51)
    school = School.of(taught, 500, 30, "uncertain", rng)
    for lesson, (pool, later) in zip(school.lessons, school.drawn(30, 0.1), strict=True):
        assert np.bincount(pool.domains).tolist() == [25] * 5
        assert np.bincount(later.domains).tolist() == [26] * 5
        chosen = lesson.order[lesson.order >= 0]
        assert lesson.pool[chosen].all()
        assert len(np.unique(chosen)) == 125  # all of the pool, where it is smaller than the number of labels


def test_few_rows_and_domains_are_sampled_from_many():
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(300), 20)
    domains[:1500] = 0
    rows = ScoredRows(np.zeros((6000, 2)), np.zeros((6000, 2)), np.zeros(6000, int), domains)
    kept = domains[sampled_rows(rows, rng)]
    assert len(np.unique(kept)) == 200
    assert np.bincount(kept).max() <= 1000
