"""The dimension of linear scorers in Gaussian domains: constructions that docs/theory.md and its tests use.

For one label, X ~ N(mean_e, deviation_e² · Σ) in domain e. A score w·x + b is then normal with mean w·mean_e + b and
standard deviation deviation_e · |w|, where |w|² = wᵀΣw, and recall is at target if the margin

    w·mean_e + b − z · deviation_e · |w|,   z the target's quantile of the standard normal,

is non-negative. The margins of d + 2 domains cannot take all signs (`impossible_assignment`), those of d + 1 in general
position can (`scorer_reaching`): the dimension of linear scorers with an intercept is exactly d + 1.

The lemma of Tsibulsky, Nevo and Shalit (2025, appendix A.4) has no intercept and treats −z|w| (there +z|w|) as a free
number. With intercepts, as networks have them, its linear dependence would need d + 3 domains. Since |w| is
non-negative and multiplies one fixed vector, d + 2 suffice: the means extended by a 1 are d + 2 vectors of d + 1
numbers, so Σ λ_e · margin_e = −z|w| · Σ λ_e · deviation_e for some λ ≠ 0 and all scorers, and the sign of λ can be
chosen so that this is never positive. (Dudley 1978 proves it for any vector space of functions plus a fixed one.)
Without an intercept even d + 1 are not shattered: that many hyperplanes divide the sphere |w| = 1 into at most
2^(d+1) − 2 parts, and w = 0 adds one assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import null_space
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from domaincover.criteria import check_target_recall
from domaincover.errors import InputError

NEGLIGIBLE = 1e-9  # relative to the largest coefficient of a linear dependence: a rounded 0
INFEASIBLE = 2  # linprog's status


@dataclass(frozen=True, eq=False)
class GaussianCells:
    """The Gaussians of one label in n domains: means (n × d), standard deviations (n) and a common covariance (d × d).

    In the paper's notation, a deviation is √σ_e.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @classmethod
    def of(cls, means: ArrayLike, deviations: ArrayLike = 1.0, covariance: ArrayLike | None = None) -> GaussianCells:
        """Broadcast: one deviation applies to all domains, and the default covariance is the identity."""
        centres = np.asarray(means, dtype=float)
        n_domains, n_features = centres.shape
        shared = np.eye(n_features) if covariance is None else np.asarray(covariance, dtype=float)
        return cls(centres, np.broadcast_to(np.asarray(deviations, dtype=float), n_domains).copy(), shared)

    def recall(self, weights: ArrayLike, intercept: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Return the recall of scorers in every domain: weights (…, d) and intercepts (…) to (…, n)."""
        w, b = np.asarray(weights, dtype=float), np.asarray(intercept, dtype=float)
        centre = w @ self.means.T + b[..., None]
        spread = self.norm(w)[..., None] * self.deviations
        with np.errstate(divide="ignore", invalid="ignore"):
            # with zero weights, the label is in all sets or in none
            return np.where(spread > 0, ndtr(centre / spread), np.where(centre >= 0, 1.0, 0.0))

    def norm(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard deviation of weights · x in a domain of deviation 1."""
        return np.sqrt(np.einsum("...i,ij,...j->...", weights, self.covariance, weights))


class LinearScorer(NamedTuple):
    """The score of one label, weights · x + intercept."""

    weights: NDArray[np.float64]
    intercept: float


def impossible_assignment(cells: GaussianCells, target_recall: float) -> NDArray[np.bool_]:
    """Return an assignment (True: at target) that no linear scorer reaches; it exists for at least d + 2 domains.

    Fewer domains have one if their means are affinely dependent.
    """
    z = ndtri(check_target_recall(target_recall))
    with_one = np.column_stack([cells.means, np.ones(len(cells.means))])
    dependences = null_space(with_one.T)
    if not dependences.shape[1]:
        n_domains, n_features = cells.means.shape
        raise InputError(
            f"{n_domains} domains with means in general position may be shattered; "
            f"{n_features + 2} domains with {n_features} features never are."
        )
    dependence = dependences[:, 0]
    dependence = np.where(np.abs(dependence) > NEGLIGIBLE * np.abs(dependence).max(), dependence, 0.0)
    sign = 1.0 if z * (dependence @ cells.deviations) >= 0 else -1.0
    # coefficients that sum to 0 have both signs, so Σ λ · margin would be positive for this assignment
    return sign * dependence >= 0


def could_be_reached(cells: GaussianCells, target_recall: float, assignment: ArrayLike, intercept: bool = True) -> bool:
    """Return whether the linear relaxation with n ≥ 0 in place of |w| is feasible; if not, no scorer has these signs.

    Margins can be scaled, so "below 0" is expressed as "at most −1".
    """
    z = ndtri(check_target_recall(target_recall))
    good = _checked_assignment(cells, assignment)
    n_domains, n_features = cells.means.shape
    ones = np.full((n_domains, 1), float(intercept))
    rows = np.hstack([cells.means, ones, -z * cells.deviations[:, None]])
    signed = np.where(good, -1.0, 1.0)[:, None] * rows
    free = [(None, None)] * (n_features + 1)
    found = linprog(np.zeros(n_features + 2), signed, np.where(good, 0.0, -1.0), bounds=[*free, (0, None)])
    return bool(found.status != INFEASIBLE)


def scorer_reaching(cells: GaussianCells, target_recall: float, assignment: ArrayLike) -> LinearScorer | None:
    """Return a scorer that is at target in the domains of the assignment and below it in the others.

    For up to d + 1 domains in general position, margins of ±τ are interpolated at |w| = 1, a quadratic equation in τ.
    There is a solution if deviations are equal, or if the means are far enough apart. None means that no solution was
    found, not that there is none.
    """
    z = ndtri(check_target_recall(target_recall))
    good = _checked_assignment(cells, assignment)
    n_features = cells.means.shape[1]
    if good.all() or not good.any():
        return LinearScorer(np.zeros(n_features), 1.0 if good.all() else -1.0)
    interpolate = np.linalg.pinv(np.column_stack([cells.means, np.ones(len(cells.means))]))
    per_margin, fixed = (interpolate @ values for values in (np.where(good, 1.0, -1.0), z * cells.deviations))
    slope, start = per_margin[:-1], fixed[:-1]
    square, mixed, rest = (float(a @ cells.covariance @ b) for a, b in ((slope, slope), (slope, start), (start, start)))
    root = mixed**2 - square * (rest - 1)
    if square == 0 or root < 0:
        return None
    solution = (np.sqrt(root) - mixed) / square * per_margin + fixed
    scorer = LinearScorer(solution[:-1], float(solution[-1]))
    return scorer if np.array_equal(cells.recall(*scorer) >= target_recall, good) else None


def _checked_assignment(cells: GaussianCells, assignment: ArrayLike) -> NDArray[np.bool_]:
    good = np.asarray(assignment)
    if good.dtype != bool or good.shape != (len(cells.means),):
        raise InputError(f"an assignment must have one boolean for each of {len(cells.means)} domains.")
    return good
