import os
import subprocess
import sys

import numpy as np
import pytest

from domaincover import GaussianDomains, InputError
from domaincover.data.synthetic import random_rotations


@pytest.mark.parametrize(("n_features", "mean", "high", "deviation"), [(10, 0.1, 0.5, 0.2), (50, 0.05, 0.3, 0.25)])
def test_the_papers_parameters(n_features, mean, high, deviation):
    source = GaussianDomains.of_paper(n_features)
    assert np.array_equal(source.mean, np.full(n_features, mean))
    assert np.array_equal(source.direction, np.repeat([1, -1], n_features // 2))
    assert (source.low, source.high, source.deviation) == (-high, high, deviation)


@pytest.mark.parametrize("covariance", ["shared", "random"])
def test_moments_of_the_examples_are_those_of_the_model(covariance):
    n_domains, n = 40, 5_000
    source = GaussianDomains.of_paper(10, covariance)
    data = source.sample(n_domains, n, np.random.default_rng(0))
    of_zero = data.examples[data.labels == 0]
    standard_error = 0.3 / np.sqrt(len(of_zero))
    assert np.abs(of_zero.mean(axis=0)).max() < 5 * standard_error
    shifts = [
        data.examples[(data.domains == e) & (data.labels == 1)].mean(axis=0) for e in range(n_domains)
    ] - np.asarray(source.mean)
    position = shifts @ np.asarray(source.direction) / 10
    assert np.abs(position).max() < 0.5 + 5 * 0.3 / np.sqrt(n / 2)
    assert np.abs(shifts - position[:, None] * np.asarray(source.direction)).max() < 5 * 0.3 / np.sqrt(n / 2)
    assert abs(np.std(position) - 1 / np.sqrt(12)) < 4 / np.sqrt(12) / np.sqrt(2 * n_domains)


def test_shared_covariance_is_diagonal_with_the_deviation():
    data = GaussianDomains.of_paper(10).sample(5, 20_000, np.random.default_rng(0))
    covariance = np.cov(data.examples[data.labels == 0].T)
    assert np.abs(covariance - 0.04 * np.eye(10)).max() < 6 * 0.04 * np.sqrt(2 / 50_000)


def test_random_covariance_differs_by_domain_and_has_the_drawn_deviations_as_spectrum():
    data = GaussianDomains.of_paper(10, "random").sample(30, 20_000, np.random.default_rng(0))
    spectra = np.array(
        [
            np.linalg.eigvalsh(np.cov(data.examples[(data.domains == e) & (data.labels == 0)].T)) ** 0.5
            for e in range(30)
        ]
    )
    n_deviations = spectra.size
    assert abs(spectra.mean() - 0.2) < 4 * 0.05 / np.sqrt(n_deviations)
    assert abs(spectra.std() - 0.05) < 4 * 0.05 / np.sqrt(2 * n_deviations) + 0.002  # eigenvalues spread a little
    off_diagonal = [
        np.abs(np.cov(data.examples[(data.domains == e) & (data.labels == 0)].T) - 0.0425 * np.eye(10)).max()
        for e in range(30)
    ]
    assert min(off_diagonal) > 0.004


def test_rotations_are_rotations_and_their_entries_have_the_variance_of_uniform_ones():
    q = random_rotations(2_000, 5, np.random.default_rng(0))
    assert np.allclose(q @ q.transpose(0, 2, 1), np.eye(5))
    assert np.allclose(np.linalg.det(q), 1)
    assert np.abs(q.mean(axis=0)).max() < 4.5 * np.sqrt(1 / 5 / 2_000)
    assert np.abs((q**2).mean(axis=0) - 1 / 5).max() < 4.5 * np.sqrt(8 / 175 / 2_000)  # var of a squared entry


def test_any_dimension_direction_range_and_deviation_can_be_set():
    source = GaussianDomains([0.0, 1.0, 2.0], [0.0, 0.0, 1.0], 3.0, 3.0, 1e-6)
    data = source.sample(2, 50, np.random.default_rng(0))
    assert np.allclose(data.examples[data.labels == 1], [0, 1, 5], atol=1e-4)


def test_the_same_generator_gives_the_same_examples():
    source = GaussianDomains.of_paper(10, "random")
    first, again = (source.sample(3, 20, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first.examples, again.examples)
    assert first.examples.dtype == np.float32


def test_the_examples_do_not_depend_on_the_number_of_threads():
    program = """
import hashlib, numpy as np
from domaincover import GaussianDomains
data = GaussianDomains.of_paper(50, "random").sample(20, 3_000, np.random.default_rng(0))
print(hashlib.sha256(data.examples.tobytes()).hexdigest())
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"OPENBLAS_NUM_THREADS": n_threads, "OMP_NUM_THREADS": n_threads},
            capture_output=True,
            check=True,
        ).stdout
        for n_threads in ("1", "4")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"direction": [1.0]}, r"shapes \(2,\) and \(1,\)"),
        ({"low": 1.0}, "got 1.0 to 0.5"),
        ({"high": np.inf}, "got 0.0 to inf"),
        ({"mean": [np.nan, 0.0]}, "finite numbers only"),
        ({"mean": [], "direction": []}, "at least one feature"),
        ({"deviation": 0.0}, "deviation must be above 0 and finite, got 0.0"),
        ({"covariance": "full"}, "one of 'shared', 'random', got 'full'"),
    ],
)
def test_impossible_parameters_are_refused(changes, message):
    settings = {"mean": [0.0, 0.0], "direction": [1.0, 1.0], "low": 0.0, "high": 0.5, "deviation": 0.1}
    with pytest.raises(InputError, match=message):
        GaussianDomains(**settings | changes)


def test_an_odd_dimension_has_no_papers_direction():
    with pytest.raises(InputError, match="even, got 7"):
        GaussianDomains.of_paper(7)


def test_no_domain_cannot_be_sampled():
    with pytest.raises(InputError, match="got 0 and 5"):
        GaussianDomains.of_paper(10).sample(0, 5, np.random.default_rng(0))
