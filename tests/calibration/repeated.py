"""Exchangeable domains, drawn again and again, and how often a new one is as promised."""

import functools
from typing import NamedTuple

import numpy as np

from domaincover.criteria import sets_from_scores
from tests.calibration.small_data import quietly
from tests.recall import recall_by_cell

TARGET, CONFIDENCE = 0.9, 0.9
N_NEW, N_REPETITIONS = 20, 300
NOISES = {
    "gaussian": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_t(2, size),
    "skewed": lambda rng, size: -(rng.exponential(size=size) ** 2),
}


class Scene(NamedTuple):
    """What is drawn: so many calibration domains, labels, rows in a cell; cells may be absent."""

    n_domains: int
    n_labels: int
    noise: str = "gaussian"
    rows_of_cell: tuple[int, int] = (20, 20)
    share_absent: float = 0.0


class Mean(NamedTuple):
    """A mean over repetitions and its standard error."""

    value: float
    standard_error: float


def draw_domains(scene, n_domains, rng):
    """Draw domains that differ in each label's shift, in spread, and in how many labels they lack."""
    shape = n_domains, scene.n_labels
    noise = NOISES[scene.noise]
    low, high = scene.rows_of_cell
    absent = rng.random(shape) < 2 * scene.share_absent * rng.random((n_domains, 1))
    n_by_cell = np.where(absent, 0, rng.integers(low, high + 1, shape))
    shift = noise(rng, shape) + noise(rng, (n_domains, 1))
    spread = np.broadcast_to(rng.uniform(0.5, 2, (n_domains, 1)), shape)
    cell = np.repeat(np.arange(n_by_cell.size), n_by_cell.reshape(-1))
    own = shift.reshape(-1)[cell] + spread.reshape(-1)[cell] * noise(rng, len(cell))
    return np.broadcast_to(own[:, None], (len(own), scene.n_labels)), cell % scene.n_labels, cell // scene.n_labels


@functools.lru_cache(maxsize=2)
def repetitions(scene):
    """Return what is drawn in every repetition: calibration and new domains."""
    rng = np.random.default_rng(0)
    return [draw_domains(scene, scene.n_domains + N_NEW, rng) for _ in range(N_REPETITIONS)]


def recalls_in_new_domains(scene, rule, *promise, **options):
    """Return the recall of every cell that counts, repetitions × new domains × labels, NaN for the others."""
    found = np.full((N_REPETITIONS, N_NEW, scene.n_labels), np.nan)
    for repetition, (scores, labels, domains) in enumerate(repetitions(scene)):
        new = domains >= scene.n_domains
        thresholds = quietly(rule, scores[~new], labels[~new], domains[~new], *promise, **options)
        sets, own, of = sets_from_scores(scores[new], thresholds), labels[new], domains[new] - scene.n_domains
        found[repetition] = recall_by_cell(sets, own, of, N_NEW)
    return found


def mean_over_repetitions(values):
    """Return the mean of what is not NaN, (repetitions, new domains); those of one repetition depend on each other."""
    counted = ~np.isnan(values)
    mean = np.nansum(values) / counted.sum()
    excess = np.where(counted, values - mean, 0).sum(axis=1)
    return Mean(float(mean), float(np.sqrt((excess**2).sum()) / counted.sum()))


def share_at_target(recall):
    """Return the share of what is not NaN that is at target."""
    return mean_over_repetitions(np.where(np.isnan(recall), np.nan, recall >= TARGET))
