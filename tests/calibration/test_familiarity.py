"""The p-value of a new domain: its definition, uniform for domains drawn alike, small for strange ones."""

import numpy as np
import pytest

from domaincover.calibration.adaptation import domain_summaries, familiarity, self_calibrated_thresholds
from domaincover.calibration.adaptation_fit import fit_familiarity


def literal(calibration, new):
    """Return the p-value of one domain, by its definition."""
    together = np.vstack([calibration, new])
    together = np.where(np.isnan(together), np.nanmean(together, axis=0), together)
    known = ~np.isnan(np.vstack([calibration, new]))
    spread = ((together - together.mean(axis=0)) ** 2).sum(axis=0) / known.sum(axis=0)
    distances = ((together - together.mean(axis=0)) ** 2 / np.where(spread > 0, spread, 1)).sum(axis=1)
    return np.count_nonzero(distances >= distances[-1] - 1e-9) / len(together)


def test_the_p_value_is_its_definition():
    rng = np.random.default_rng(0)
    calibration, new = rng.normal(size=(25, 4)), 2 * rng.normal(size=(40, 4))
    calibration[:, 3] = new[:, 3] = 7.0  # tells nothing
    assert np.allclose(familiarity(calibration, new), [literal(calibration, each) for each in new])


def test_a_missing_number_is_filled_with_the_mean_of_all_domains_the_new_one_included():
    rng = np.random.default_rng(0)
    calibration, new = rng.normal(size=(25, 4)), 3 * rng.normal(size=(60, 4))
    calibration[rng.random(calibration.shape) < 0.4] = np.nan
    new[rng.random(new.shape) < 0.2] = np.nan
    assert np.allclose(familiarity(calibration, new), [literal(calibration, each) for each in new])


@pytest.mark.parametrize("n_domains", [9, 19])
def test_p_values_are_uniform_where_numbers_are_missing(n_domains):
    rng = np.random.default_rng(0)
    n_repetitions = 3000
    drawn = rng.standard_t(3, size=(n_repetitions, n_domains + 1, 3))
    drawn[rng.random(drawn.shape) < 0.6] = np.nan
    p_values = np.array([familiarity(each[:-1], each[-1:])[0] for each in drawn])
    for k in range(1, n_domains + 1):
        level = k / (n_domains + 1)
        assert (p_values <= level + 1e-9).mean() <= level + 4 * np.sqrt(level * (1 - level) / n_repetitions)


def test_the_unit_of_a_number_does_not_matter():
    rng = np.random.default_rng(0)
    calibration, new = rng.normal(size=(25, 2)), rng.normal(size=(40, 2))
    moved = np.array([1e6, 1e-3]), np.array([5e6, -2.0])
    assert np.array_equal(
        familiarity(calibration, new), familiarity(calibration * moved[0] + moved[1], new * moved[0] + moved[1])
    )


@pytest.mark.parametrize("n_domains", [9, 19, 40])
def test_p_values_of_domains_drawn_alike_are_uniform(n_domains):
    rng = np.random.default_rng(0)
    n_repetitions = 3000
    drawn = rng.standard_t(3, size=(n_repetitions, n_domains + 1, 3))
    p_values = np.array([familiarity(each[:-1], each[-1:])[0] for each in drawn])
    for k in range(1, n_domains + 1):
        level = k / (n_domains + 1)
        assert abs((p_values <= level + 1e-9).mean() - level) <= 4 * np.sqrt(level * (1 - level) / n_repetitions)


def test_equal_domains_and_unknown_numbers_tell_nothing_against_a_domain():
    calibration = np.ones((9, 2))
    assert familiarity(calibration, np.array([[1.0, 1.0], [np.nan, np.nan]])).tolist() == [1.0, 1.0]
    assert familiarity(calibration, np.array([[1.0, 2.0]])).tolist() == [0.1]
    assert familiarity(np.zeros((0, 2)), np.ones((1, 2))).tolist() == [1.0]


def rows_of(offsets, n_rows, rng):
    domains = np.repeat(np.arange(len(offsets)), n_rows)
    score = rng.normal(size=len(domains)) + offsets[domains]
    probability = 1 / (1 + np.exp(-score))
    return np.stack([score, -score], axis=1), np.stack([probability, 1 - probability], axis=1), domains


def p_values_of(table, scores, probabilities, domains, n_domains=None):
    evidence = self_calibrated_thresholds(scores, probabilities, domains, 0.9, n_domains)
    return table.of_evidence(evidence, scores, probabilities, domains)


def test_a_strange_domain_is_told_from_as_many_rows_as_it_has():
    rng = np.random.default_rng(0)
    table = fit_familiarity(*rows_of(0.2 * rng.normal(size=39), 400, rng), 0.9, rng=rng)
    assert table.n_rows.tolist() == [30, 100, 300, 400]
    assert p_values_of(table, *rows_of(np.full(5, 3.0), 30, rng)).tolist() == [1 / 40] * 5
    assert p_values_of(table, *rows_of(np.full(5, 1.2), 400, rng)).tolist() == [1 / 40] * 5
    assert p_values_of(table, *rows_of(np.full(5, 3.0), 29, rng)).tolist() == [1.0] * 5  # too few to tell
    assert p_values_of(table, *rows_of(np.full(1, 3.0), 30, rng), n_domains=3).tolist() == [1 / 40, 1.0, 1.0]


def test_p_values_of_small_batches_are_not_small_by_noise():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(60):
        table = fit_familiarity(*rows_of(0.1 * rng.normal(size=19), 300, rng), 0.9, rng=rng)
        found.append(p_values_of(table, *rows_of(0.1 * rng.normal(size=10), 30, rng)) <= 0.1)
    by_repetition = np.mean(found, axis=1)
    assert by_repetition.mean() <= 0.1 + 4 * by_repetition.std() / np.sqrt(len(found))


def test_a_domain_is_described_by_thresholds_and_mean_scores():
    scores = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
    found = domain_summaries(scores, np.full((3, 2), 0.5), np.array([0, 0, 2]), np.zeros((3, 2)))
    assert np.array_equal(found, [[0, 0, 2, 2], [0, 0, np.nan, np.nan], [0, 0, 5, 6]], equal_nan=True)
