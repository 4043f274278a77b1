"""A few labels correct log-probabilities: the convex fit, the features, and which rows to label."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from domaincover.calibration.adaptation_fit import Promise, ScoredRows
from domaincover.calibration.few_labels import (
    BIAS_SCALE,
    FAR,
    MOST_FEATURES,
    MOST_POOL,
    Correction,
    FeatureScale,
    School,
    TaughtRows,
    fit_few_labels,
    learn_correction,
    rows_to_label,
    sampled_rows,
)
from domaincover.calibration.links import log_odds, softmax
from tests.calibration.shifted_domains import share_and_error
from tests.deep import deep


def domain_rows(n_domains=3, n_rows=40, n_features=6, n_labels=3, seed=0):
    """Labels that depend on features in another way than the probabilities have it."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_domains, n_rows, n_features))
    logits = rng.normal(size=(n_domains, n_rows, n_labels))
    moved = logits + features @ rng.normal(size=(n_domains, n_features, n_labels))
    labels = (moved + rng.gumbel(size=logits.shape)).argmax(axis=2)
    return features, softmax(logits), labels


def literal(features, probabilities, labels, scale):
    """Return the maximum a posteriori of one domain by another solver, as corrected probabilities."""
    n, d = features.shape
    logits, n_labels = np.log(probabilities), probabilities.shape[1]

    def loss(values):
        weights, bias = values[:-n_labels].reshape(d, n_labels), values[-n_labels:]
        found = logits + features @ weights + bias
        likelihood = (found[np.arange(n), labels] - logsumexp(found, axis=1)).sum()
        return (weights**2).sum() / (2 * scale**2) + (bias**2).sum() / (2 * BIAS_SCALE**2) - likelihood

    best = minimize(loss, np.zeros((d + 1) * n_labels), options={"gtol": 1e-7}).x
    return softmax(logits + features @ best[:-n_labels].reshape(d, n_labels) + best[-n_labels:])


@pytest.mark.parametrize("scale", [0.05, 0.4, 2.0])
@pytest.mark.parametrize(("n_rows", "n_labels"), [(40, 3), (4, 2)])
def test_a_correction_is_the_maximum_a_posteriori(scale, n_rows, n_labels):
    features, probabilities, labels = domain_rows(n_rows=n_rows, n_labels=n_labels)
    labels[:, :2] = [0, 1]
    found = learn_correction(features, probabilities, labels, scale).probabilities(probabilities, features)
    for own in zip(found, features, probabilities, labels, strict=True):
        assert np.allclose(own[0], literal(*own[1:], scale), atol=1e-5)


def test_domains_of_a_stack_are_learned_as_if_alone_and_missing_labels_do_not_count():
    features, probabilities, labels = domain_rows(n_domains=4)
    features[3] *= 10  # takes longer
    labels[1, 25:] = -1
    together = learn_correction(features, probabilities, labels, 0.5)
    for k, n in enumerate((40, 25, 40, 40)):
        alone = learn_correction(features[k : k + 1, :n], probabilities[k : k + 1, :n], labels[k : k + 1, :n], 0.5)
        assert np.allclose(together.weights[k], alone.weights[0], atol=1e-9)
        assert np.allclose(together.bias[k], alone.bias[0], atol=1e-9)


@pytest.mark.parametrize("labels", [[1] * 40, [-1] * 40, [2] + [-1] * 39])
def test_labels_of_one_kind_teach_nothing(labels):
    features, probabilities, _ = domain_rows(n_domains=1)
    weights, bias = learn_correction(features, probabilities, np.array([labels]), 0.5)
    assert not weights.any()
    assert not bias.any()


def test_without_features_or_scale_only_biases_are_learned():
    features, probabilities, labels = domain_rows()
    still = learn_correction(features, probabilities, labels, 0.0)
    none = learn_correction(features[..., :0], probabilities, labels, 0.5)
    assert not still.weights.any()
    assert none.weights.shape == (3, 0, 3)
    assert np.allclose(still.bias, none.bias)
    assert still.bias.any()


def test_extreme_probabilities_and_far_features_give_finite_corrections():
    features, probabilities, labels = domain_rows()
    probabilities[:, ::2] = np.eye(3)[(labels[:, ::2] + 1) % 3]  # certain, and wrong
    found = learn_correction(1e3 * features, probabilities, labels, 3.2)
    assert np.isfinite(found.weights).all()
    corrected = found.probabilities(probabilities, 1e3 * features)
    assert np.allclose(corrected.sum(axis=2), 1)


def test_rows_that_could_not_be_read_stay_unknown():
    found = Correction(np.ones((2, 3)), np.zeros(3)).probabilities(np.full((1, 3), np.nan), np.zeros((1, 2)))
    assert np.isnan(found).all()


# Features


def test_features_are_standardised_and_cut_and_missing_ones_are_average():
    rng = np.random.default_rng(0)
    encoded = np.column_stack([3 + 2 * rng.normal(size=1000), np.full(1000, 7.0), rng.normal(size=1000)])
    encoded[:10, 2] = np.nan
    scale = FeatureScale.of(encoded)
    found = scale.standardised(np.array([[3, 9, np.nan], [3 + 2 * 100, 7, -1e9], [np.inf, 7, 0]]))
    assert np.allclose(found[0], 0, atol=0.15)
    assert found[1, 0] == found[2, 0] == FAR
    assert found[1, 2] == -FAR
    assert (found[:, 1] == 0).all()  # a column that does not vary says nothing


def test_many_features_are_projected_so_that_distances_hold():
    rng = np.random.default_rng(0)
    encoded = rng.normal(size=(50, 2000))
    scale = FeatureScale.of(encoded)
    found = scale.standardised(encoded)
    assert found.shape == (50, MOST_FEATURES)
    apart, wanted = (np.linalg.norm(each[:25] - each[25:], axis=1) for each in (found, scale.cut(encoded)))
    ratio = apart / wanted * np.sqrt(2000 / MOST_FEATURES)
    assert (np.abs(ratio - 1) < 5 * np.sqrt(1 / (2 * MOST_FEATURES))).all()  # five standard errors of a projection
    assert np.array_equal(found, FeatureScale.of(encoded).standardised(encoded))


# Which rows to label


def chosen(features, probabilities, n_rows, label_rows="uncertain", seed=0, is_real=None):
    is_real = np.ones(features.shape[:2], dtype=bool) if is_real is None else is_real
    return rows_to_label(features, probabilities, is_real, n_rows, label_rows, np.random.default_rng(seed))


@pytest.mark.parametrize("label_rows", ["uncertain", "random"])
def test_every_row_is_chosen_once_and_only_rows_that_there_are(label_rows):
    features, probabilities, _ = domain_rows(n_rows=12)
    is_real = np.arange(12) < np.array([[12], [5], [0]])
    found = chosen(features, probabilities, 15, label_rows, is_real=is_real)
    assert found.shape == (3, 15)
    for row, n in zip(found, (12, 5, 0), strict=True):
        assert sorted(row[:n].tolist()) == list(range(n))
        assert (row[n:] == -1).all()


def test_uncertain_rows_that_lie_apart_are_chosen_first():
    features = np.zeros((1, 90, 1))
    features[0, 30:60, 0] = 10.0
    probabilities = np.full((1, 90, 2), 0.5)
    probabilities[0, 60:] = [1.0, 0.0]
    for seed in range(20):
        first = chosen(features, probabilities, 2, seed=seed)[0]
        assert sorted(first // 30) == [0, 1]


def test_copies_of_rows_and_certain_rows_are_chosen_when_nothing_else_is_left():
    features, probabilities = np.zeros((1, 6, 2)), np.tile([1.0, 0.0], (1, 6, 1))
    assert sorted(chosen(features, probabilities, 6)[0].tolist()) == list(range(6))


def test_random_rows_are_chosen_alike():
    features, probabilities, _ = domain_rows(n_domains=1, n_rows=5)
    counts = np.bincount([chosen(features, probabilities, 1, "random", seed)[0, 0] for seed in range(500)], minlength=5)
    assert (np.abs(counts - 100) < 4 * np.sqrt(500 * 0.2 * 0.8)).all()


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
        found = fit_few_labels(promise, calibration, training, [n_labels], label_rows, rng)[0]
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
    found, _, gain = fit_few_labels(promise, calibration, None, (30, 100), "uncertain", rng)
    assert gain["labels"] == [0, *found]
    for number, size, share in list(zip(*gain.values(), strict=True))[1:]:
        sizes, held = gain_in_domains(promise, new, found[number], number, "uncertain", rng)
        assert np.mean(sizes) == pytest.approx(size, abs=4 * np.std(sizes) * np.sqrt(2 / 40))
        assert np.mean(held) == pytest.approx(share, abs=4 * np.sqrt(2 * 0.9 * 0.1 / 40))


def test_numbers_of_labels_that_the_domains_have_no_rows_for_are_left_out():
    rng = np.random.default_rng(0)
    small = draw(19, rng, n_rows=120)
    found, n_pool, _ = fit_few_labels(promise_of(small), small, None, (30, 100), "uncertain", rng)
    assert n_pool == 60
    assert 100 not in found


def test_domains_without_shift_have_nothing_to_learn():
    rng = np.random.default_rng(0)
    still = draw(25, rng, shift=0.0)
    found, _, gain = fit_few_labels(promise_of(still), still, None, (30,), "uncertain", rng)
    assert found == {}
    assert gain["labels"] == [0]


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
