"""Split rows into those that fit scorers and those that calibrate them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.order_statistics import domains_needed
from domaincover.data.dataset import hold_out_rows, texts
from domaincover.errors import InputError
from domaincover.estimators.base import Targets
from domaincover.options import Calibration
from domaincover.predictors.calibrated_predictors import LEAVES_OUT
from domaincover.terminal.text import listed

FOLDS = 5  # their mean predicts, so more of them cost time at every prediction
FEWEST_LEFT_OUT = 25  # by jackknife-minmax, if there are as many domains
DEFAULT_SHARE = 0.25


class Part(NamedTuple):
    """Rows that fit a scorer, and rows that calibrate it."""

    train: NDArray[np.int64]
    calibrate: NDArray[np.int64]


def plan_parts(
    targets: Targets,
    calibration: Calibration,
    folds: int | None,
    share: float | None,
    confidence: float | None,
    rng: np.random.Generator,
    places: NDArray[np.int64] | None = None,
) -> list[Part]:
    """Return the rows of every scorer to fit; `confidence` is the promised domain confidence, if any.

    `places` are those of the domains in their order, if it matters: the last ones are held out, and no scorer is fitted
    on domains that come after those that it calibrates.
    """
    rows = np.arange(len(targets.labels))
    if calibration == "held-out-domains":
        held_out = _held_out_rows(targets, share, confidence, rng, places)
        return [Part(rows[~held_out], rows[held_out])]
    if calibration not in LEAVES_OUT:
        return [Part(rows, rows)]
    n_domains = len(targets.domain_names)
    if n_domains < 2:
        raise InputError(f"calibration={calibration!r} leaves domains out in turn and needs at least 2; there is 1.")
    n_folds = n_folds_of(n_domains, calibration, folds, confidence)
    if places is not None:
        block = (places * (n_folds + 1) // n_domains)[targets.domains]  # the first one only trains
        return [Part(rows[block < k], rows[block == k]) for k in range(1, n_folds + 1) if (block == k).any()]
    # Jackknife-minmax leaves out single domains, since its proof needs exchangeable folds; the others only train.
    most = n_folds if calibration == "jackknife-minmax" else n_domains
    return folds_of(targets.domains, rows, n_folds, rng, most)


def places_in_order(names: Sequence[Any], order: Sequence[Any]) -> NDArray[np.int64]:
    """Return the place of each domain among those of the data, in an order of names."""
    place_of = {name: place for place, name in enumerate(texts(order))}
    if len(place_of) < len(order):
        raise InputError("domain_order names a domain twice.")
    missing = [name for name in texts(names) if name not in place_of]
    if missing:
        raise InputError(f"domain_order does not name domain {listed(missing, 5)}; name all domains, first to last.")
    return np.argsort(np.argsort([place_of[name] for name in texts(names)]))


def folds_of(
    domains: NDArray[np.int64], rows: NDArray[np.int64], n_folds: int, rng: np.random.Generator, most: int | None = None
) -> list[Part]:
    """Leave out folds of the domains of these rows in turn; with `most`, so many random domains, and not the others."""
    order = rng.permutation(np.unique(domains[rows]))
    fold_of_domain = np.full(int(domains.max(initial=0)) + 1, -1)
    left_out = order[:most]
    fold_of_domain[left_out] = np.arange(len(left_out)) % n_folds
    fold = fold_of_domain[domains[rows]]
    return [Part(rows[fold != k], rows[fold == k]) for k in range(min(n_folds, len(left_out)))]


def n_folds_of(n_domains: int, calibration: Calibration, folds: int | None, confidence: float | None) -> int:
    """Return how many scorers are fitted; `confidence` is the promised domain confidence, if any."""
    if calibration not in LEAVES_OUT:
        return 1
    if folds is None:
        needed = domains_needed(confidence) if confidence is not None else 0
        folds = FOLDS if calibration == "cross-fit" else max(FEWEST_LEFT_OUT, needed)
    return min(folds, n_domains)


def _held_out_rows(
    targets: Targets,
    share: float | None,
    confidence: float | None,
    rng: np.random.Generator,
    places: NDArray[np.int64] | None,
) -> NDArray[np.bool_]:
    n_domains = len(targets.domain_names)
    n_held_out = round((DEFAULT_SHARE if share is None else share) * n_domains)
    if confidence is not None and share is None:
        n_held_out = max(n_held_out, domains_needed(confidence))
    n_held_out = min(max(1, n_held_out), n_domains - 1)
    if places is not None:
        return np.asarray((places >= n_domains - n_held_out)[targets.domains])
    if confidence is not None:  # entire domains, drawn independently of their data: exchangeable
        return np.isin(targets.domains, rng.permutation(n_domains)[:n_held_out])
    share = DEFAULT_SHARE if share is None else share
    held_out = hold_out_rows(targets.domains, targets.labels, n_held_out, share, rng)
    if not held_out.any():
        raise InputError(f"there are too few rows of each label to hold out {share:.0%} of them for calibration.")
    return held_out
