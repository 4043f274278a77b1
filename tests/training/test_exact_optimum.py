"""SET-COVER against the smallest sets that any rule could have at its recalls."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import norm

from domaincover.data.synthetic import GaussianDomains
from domaincover.networks.perceptrons import perceptron
from domaincover.training.batches import MemoryPool, ShuffledBatches, score
from domaincover.training.loop import train
from domaincover.training.objectives import SetCoverLoss
from domaincover.training.settings import TrainingSettings

from .exact_optimum import positions_of, smallest_sets

pytestmark = pytest.mark.no_cover  # almost all of it is the solver's time

# Halving the step and doubling the positions moves the mean and median sizes by 0.0015 at most.
OF_THE_GRID = 0.002


@pytest.mark.parametrize(("n_features", "median_size"), [(10, 1.097), (50, 1.127)])
def test_the_optimum_at_recall_90_has_the_size_in_the_notes(n_features, median_size):
    optimum = smallest_sets(GaussianDomains.of_paper(n_features), 0.9, 0.9, n_positions=40)
    assert optimum.median_size == pytest.approx(median_size, abs=OF_THE_GRID)


@pytest.mark.parametrize("recall", [0.6, 0.9, 0.99])
def test_for_one_domain_the_optimum_is_two_likelihood_ratio_tests(recall):
    source = replace(GaussianDomains.of_paper(10), low=0.0, high=0.0)
    distance = np.linalg.norm(source.mean) / source.deviation
    size = recall + norm.cdf(norm.ppf(recall) - distance)  # each label: its recall, and the error of its test
    assert smallest_sets(source, recall, recall, step=0.1).mean_size == pytest.approx(size, abs=OF_THE_GRID)


def test_the_optimum_keeps_the_asked_recalls():
    asked = np.linspace(0.8, 0.95, 22)
    optimum = smallest_sets(GaussianDomains.of_paper(10), 0.7, asked)
    assert optimum.recall_0 == pytest.approx(0.7, abs=1e-5)
    assert (optimum.recall_1 >= asked - 1e-5).all()


@pytest.mark.parametrize(("n_positions", "step"), [(40, 0.2), (20, 0.14)])
def test_a_finer_grid_has_the_same_optimum(n_positions, step):
    source = GaussianDomains.of_paper(10)
    coarse, fine = smallest_sets(source, 0.9, 0.9), smallest_sets(source, 0.9, 0.9, n_positions, step)
    assert fine.mean_size == pytest.approx(coarse.mean_size, abs=OF_THE_GRID)
    assert fine.median_size == pytest.approx(coarse.median_size, abs=OF_THE_GRID)


SEEDS = range(5)
N_DOMAINS, N_PER_DOMAIN, N_FRESH = 25, 2_000, 40_000


class Measured(NamedTuple):
    """Label recalls at every position, and sizes at those that count."""

    recall_0: float
    recall_1: np.ndarray
    size: np.ndarray


@pytest.fixture
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train_set_cover(source, seeds):
    """Train the study's perceptron on the study's inputs, all seeds in one stack."""
    n_features = len(source.mean)
    for_data, for_network, for_batches = zip(*(np.random.SeedSequence(seed).spawn(3) for seed in seeds), strict=True)
    data = [source.sample(N_DOMAINS, N_PER_DOMAIN, np.random.default_rng(seed)) for seed in for_data]
    networks = [perceptron(n_features, n_features // 2, 2, np.random.default_rng(seed)) for seed in for_network]
    rows = np.arange(len(data) * len(data[0])).reshape(len(data), -1)
    batches = ShuffledBatches(MemoryPool(data), rows, 128, [np.random.default_rng(seed) for seed in for_batches])
    loss = SetCoverLoss(N_DOMAINS, 2, [0.9] * len(data))
    train(networks, batches, loss, TrainingSettings(epochs=30))
    return networks


def measure(network, source, rng):
    """Measure on fresh examples; all positions share the noise, so that the worst one is not chosen by luck."""
    noise = rng.normal(0, source.deviation, (N_FRESH, len(source.mean)))

    def sets_of(shift):
        return score(network, noise + shift) >= 0

    of_0 = sets_of(0)
    of_1 = [sets_of(np.asarray(source.mean) + z * np.asarray(source.direction)) for z in positions_of(source, 20)]
    size = np.array([of_0.sum(axis=1).mean() + sets.sum(axis=1).mean() for sets in of_1[1:-1]]) / 2
    return Measured(float(of_0[:, 0].mean()), np.array([sets[:, 1].mean() for sets in of_1]), size)


@pytest.mark.deep
@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("n_features", [10, 50])
def test_set_cover_is_within_8_percent_of_the_optimum_at_its_own_recalls(n_features):
    """Compare sizes over Z in [low, high], averaged over the seeds, under two readings of equal recall.

    - The same worst recall of each label: the optimum may lower label 1's recall to it in every domain, although the
      wrong-label penalty never asks SET-COVER to. Measured 1.034 and 1.050 (medians over domains: 1.041 and 1.061).
    - The same recall of each label in every domain. Measured 1.002 and 1.007. SET-COVER is then one of the rules that
      the optimum is chosen from, so a ratio below 1 would be a fault here. Sizes and recalls have standard errors
      below 0.5/√n each, and a recall moves the size by less than itself: 4 of them, for the size and both recalls.
    """
    source = GaussianDomains.of_paper(n_features)
    worst_kept, all_kept = [], []
    for seed, network in zip(SEEDS, train_set_cover(source, SEEDS), strict=True):
        found = measure(network, source, np.random.default_rng([seed, 1]))
        at_worst = smallest_sets(source, found.recall_0, found.recall_1.min())
        at_all = smallest_sets(source, found.recall_0, found.recall_1)
        worst_kept.append((found.size.mean() / at_worst.mean_size, np.median(found.size) / at_worst.median_size))
        all_kept.append(found.size.mean() / at_all.mean_size)
    assert (np.mean(worst_kept, axis=0) <= 1.08).all(), worst_kept
    assert np.mean(all_kept) <= 1.03, all_kept
    assert min(all_kept) >= 1 - OF_THE_GRID - 4 * 3 * 0.5 / np.sqrt(N_FRESH), all_kept
