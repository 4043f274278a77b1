"""From what a scorer gives to probabilities, and from probabilities to the log-odds that thresholds are set on.

On log-odds, the self-calibrated thresholds of real data move one for one with those that labels ask for, and one offset
for all labels gives smaller sets than on probabilities or their logarithms (docs/experiment-log.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LOWEST_PROBABILITY = 1e-12
LOWEST_LOG = np.log(LOWEST_PROBABILITY)
SMALLEST = 1e-29  # probabilities up to this stand for 0
PENALTY = 1e-4
DECIMALS = 6  # of log-odds


class Link(NamedTuple):
    """Turns margins into log-probabilities: log softmax(unit · margin + intercept)."""

    unit: float
    intercept: NDArray[np.float64]

    def log_probabilities(self, margins: NDArray[Any]) -> NDArray[np.float64]:
        """Return rows × labels."""
        linked = _linked(np.asarray(margins, dtype=float), self.unit, self.intercept)
        below = linked - linked.max(axis=1, keepdims=True, initial=-np.inf)
        return np.asarray(below - np.log(np.exp(below).sum(axis=1, keepdims=True)))


def fit_link(margins: NDArray[Any], labels: NDArray[np.int64]) -> Link:
    """Fit a link by maximum likelihood, to out-of-fold margins: one unit for all labels, an intercept for each.

    The unit is not negative, and weakly drawn to 1 / (spread of the margins), so that labels told apart without error
    do not make it infinite. A margin of −∞, of a label that a fold's scorer has not met, is a probability of 0; rows of
    that label say nothing there.
    """
    from scipy.optimize import minimize  # only to fit

    met = np.isfinite(margins[np.arange(len(labels)), labels])
    margins, labels = np.asarray(margins, dtype=float)[met], labels[met]
    is_known = np.isfinite(margins)
    spread = float(np.std(margins[is_known])) if len(labels) else 1.0
    spread = spread or 1.0
    scaled = margins / spread
    finite = np.where(is_known, scaled, 0.0)
    own = np.arange(len(labels)), labels

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        unit, intercept = values[0], values[1:]
        found = softmax(_linked(scaled, unit, intercept))
        nll = -np.log(np.maximum(found[own], LOWEST_PROBABILITY)).mean()
        found[own] -= 1
        slope = np.concatenate([[(found * finite).sum()], found.sum(axis=0)]) / len(labels)
        penalty = PENALTY * np.concatenate([[unit - 1], intercept])
        return float(nll + (penalty**2).sum() / (2 * PENALTY)), slope + penalty

    start = np.concatenate([[1.0], np.zeros(scaled.shape[1])])
    bounds = [(0.0, None), *[(None, None)] * scaled.shape[1]]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Link(float(found[0] / spread), found[1:])


def log_odds(probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Return log(p / (1 − p)) of every label; 1 − p is summed over the other labels, exact where p is almost 1.

    A row of NaN, of which nothing is known, has +∞ for every label: its set holds them all.
    They are rounded to six decimals: the last bits of a double depend on the processor and on who computes it, and a
    threshold may stand exactly at a score. Single precision would not do: differences of a network's scores, which are
    in single precision, often lie halfway between two such numbers.

    >>> log_odds(np.array([[0.25, 0.75], [0.0, 1.0]])).round(2)
    array([[ -1.1 ,   1.1 ],
           [-27.63,  27.63]])
    """
    found = np.asarray(probabilities, dtype=float)
    others = np.zeros_like(found)
    others[:, 1:] += np.cumsum(found, axis=1)[:, :-1]
    others[:, :-1] += np.cumsum(found[:, ::-1], axis=1)[:, -2::-1]
    odds = np.log(np.maximum(found, LOWEST_PROBABILITY)) - np.log(np.maximum(others, LOWEST_PROBABILITY))
    odds[np.isnan(found).any(axis=1)] = np.inf
    return np.round(odds, DECIMALS)


def lowest_positive(probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Return the smallest positive probability of every label, 0 where it has none.

    >>> lowest_positive(np.array([[0.0, 1.0], [0.25, 0.75]]))
    array([0.25, 0.75])
    """
    positive = np.where(probabilities > SMALLEST, probabilities, np.inf)
    lowest = positive.min(axis=0, initial=np.inf)
    return np.where(np.isfinite(lowest), lowest, 0.0)


def without_zeros(log_probabilities: NDArray[Any], lowest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log-probabilities with the label's lowest probability in place of 0, rows that change normalised.

    The 0 of a decision tree or of nearest neighbours says "seldom", not "never": in the geometric mean of several
    models, one 0 would outvote all others.

    >>> np.exp(without_zeros(np.array([[-np.inf, 0.0], [-1.0, -1.0]]), np.array([0.25, 0.75]))).round(3)
    array([[0.2  , 0.8  ],
           [0.368, 0.368]])
    """
    found = np.array(log_probabilities, dtype=float)
    zero = found <= np.log(SMALLEST)
    changed = zero.any(axis=1)
    raised = np.where(zero[changed], lowest, np.exp(found[changed]))
    with np.errstate(divide="ignore"):  # a label that has no lowest probability keeps 0
        found[changed] = np.log(raised / np.maximum(raised.sum(axis=1, keepdims=True), SMALLEST))
    return found


def mean_probabilities(by_model: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return the normalised geometric mean of several models' log-probabilities: the mean of their log-odds."""
    total = reduce(np.add, (np.maximum(each, LOWEST_LOG) for each in by_model))
    return softmax(total / len(by_model))


def _linked(margins: NDArray[np.float64], unit: float, intercept: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # a unit of 0 times −∞
        return np.where(np.isneginf(margins), -np.inf, unit * margins + intercept)


def softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities along the last axis, in proportion to the exponentials."""
    raised = np.exp(values - values.max(axis=-1, keepdims=True, initial=-np.inf))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))
