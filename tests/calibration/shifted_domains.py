"""Domains whose classes move, drawn again and again, scored by a model that knows the average domain only."""

from typing import NamedTuple

import numpy as np

from domaincover.calibration.adaptation import self_calibrated_thresholds
from domaincover.calibration.adaptation_fit import ScoredRows, fit_adaptive_thresholds, random_ranks
from domaincover.calibration.links import log_odds
from domaincover.calibration.rules import cell_thresholds

TARGET = 0.9
MIN_CELL_SIZE = 10


class Scene(NamedTuple):
    """What is drawn, and what is promised."""

    n_labels: int = 2
    confidence: float = 0.9
    n_rows: int = 200  # of each domain
    batch: int = 200  # rows of a new domain that are given
    shift: float = 0.5
    recall_on: str = "rows given"
    n_domains: int = 19


class Found(NamedTuple):
    """The share of new domains at target, mean set sizes, and the standard errors of share and of the difference."""

    share: float
    standard_error: float
    size: float
    fixed_size: float
    size_error: float


def draw(n_domains, n_rows, n_labels, shift, rng):
    """Draw Gaussian classes whose means move with the domain; `n_rows` is one number, or that of each domain."""
    domains = np.repeat(np.arange(n_domains), n_rows)
    labels = rng.integers(n_labels, size=len(domains))
    means = 2.0 * np.eye(n_labels)
    moved = means + shift * rng.normal(size=(n_domains, n_labels, n_labels))
    features = moved[domains, labels] + rng.normal(size=(len(domains), n_labels))
    logits = (features @ means.T) / (1 + shift**2)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = raised / raised.sum(axis=1, keepdims=True)
    return ScoredRows(log_odds(probabilities), probabilities, labels, domains)


def repeated(scene, n_repetitions, n_new=10, **options):
    """Return how new domains come out."""
    rng = np.random.default_rng(0)
    at_target, sizes = [], []
    for _ in range(n_repetitions):
        kind = scene.n_labels, scene.shift, rng
        training, calibration = (draw(scene.n_domains, scene.n_rows, *kind) for _ in range(2))
        # as many rows come later as a calibration domain has
        new = draw(n_new, scene.n_rows + (scene.batch if scene.recall_on == "later rows" else 0), *kind)
        rule = fit_adaptive_thresholds(
            calibration,
            TARGET,
            scene.confidence,
            training=training,
            recall_on=scene.recall_on,
            min_cell_size=MIN_CELL_SIZE,
            rng=rng,
            **options,
        )
        given = random_ranks(new.domains, rng) < scene.batch
        thresholds = domain_thresholds(rule, new.of(given), n_new)
        counted = new.of(~given) if scene.recall_on == "later rows" else new.of(given)
        at_target.append(hits_and_domains(counted, thresholds))
        sizes.append([(new.scores >= each).sum(axis=1).mean() for each in (thresholds[new.domains], rule.fixed)])
    differences = np.diff(sizes, axis=1)
    error = differences.std(ddof=1) / np.sqrt(n_repetitions)
    return Found(*share_and_error(at_target), *np.mean(sizes, axis=0), error)


def domain_thresholds(rule, rows, n_domains=None):
    """Return the thresholds of every domain, domains × labels, from its unlabelled rows."""
    evidence = self_calibrated_thresholds(rows.scores, rows.probabilities, rows.domains, TARGET, n_domains)
    return rule.of_evidence(evidence, np.bincount(rows.domains, minlength=len(evidence)))


def hits_and_domains(rows, thresholds, labels=slice(None), min_cell_size=MIN_CELL_SIZE):
    """Return how many domains have all of these labels at target that count there, and in how many one counts."""
    margins = rows.scores - thresholds[rows.domains]
    lowest = cell_thresholds(margins, rows.labels, rows.domains, TARGET, min_cell_size)[:, labels].min(axis=1)
    lowest = lowest[~np.isposinf(lowest)]
    return np.count_nonzero(lowest >= 0), len(lowest)


def share_and_error(at_target):
    """Return the share of domains and its standard error, from the hits and numbers of domains of repetitions."""
    hits, counts = np.array(at_target, dtype=float).T
    share = hits.sum() / counts.sum()
    return share, np.sqrt(((hits - share * counts) ** 2).sum()) / counts.sum()
