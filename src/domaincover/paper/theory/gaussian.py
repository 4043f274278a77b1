"""Linear set predictors in conditionally Gaussian domains: recall, set size and share below target in closed form.

The corresponding bounds are in `domaincover.paper.theory.learning_bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from domaincover.errors import InputError
from domaincover.prediction_sets import check_target_recall

ROUNDING = 1e-12  # tolerance for recalls exactly at target


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
        """Validate and broadcast: one deviation applies to all domains, and the default covariance is the identity."""
        centres = np.asarray(means, dtype=float)
        if centres.ndim != 2 or 0 in centres.shape:
            raise InputError(f"means must have the shape (domains, features), got {centres.shape}.")
        if not np.isfinite(centres).all():
            raise InputError("means must be finite numbers.")
        n_domains, n_features = centres.shape
        spreads = np.asarray(deviations, dtype=float)
        if spreads.shape not in ((), (n_domains,)) or not (spreads > 0).all():
            raise InputError(f"deviations must be one positive number, or one for each of {n_domains} domains.")
        shared = np.eye(n_features) if covariance is None else np.asarray(covariance, dtype=float)
        fits = shared.shape == (n_features, n_features) and np.allclose(shared, shared.T)
        if not fits or np.linalg.eigvalsh(shared).min() <= 0:
            raise InputError(f"covariance must be {n_features} × {n_features}, symmetric and positive definite.")
        return cls(centres, np.broadcast_to(spreads, n_domains).copy(), shared)

    def recall(self, weights: ArrayLike, intercept: ArrayLike = 0.0) -> NDArray[np.float64]:
        """Return the recall of scorers in every domain: weights (…, d) and intercepts (…) to (…, n).

        >>> GaussianCells.of([[0.0], [1.6449]]).recall([1.0]).round(3)
        array([0.5 , 0.95])
        """
        w, b = np.asarray(weights, dtype=float), np.asarray(intercept, dtype=float)
        centre = w @ self.means.T + b[..., None]
        spread = self.norm(w)[..., None] * self.deviations
        with np.errstate(divide="ignore", invalid="ignore"):
            # with zero weights, the label is in all sets or in none
            return np.where(spread > 0, ndtr(centre / spread), np.where(centre >= 0, 1.0, 0.0))

    def norm(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard deviation of weights · x in a domain of deviation 1."""
        return np.sqrt(np.einsum("...i,ij,...j->...", weights, self.covariance, weights))


def min_recall(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the min recall of linear set predictors in every domain, in closed form.

    `cells` has the Gaussians of each label; weights are (…, labels, features), intercepts (…, labels).
    """
    by_label = [cell.recall(weights[..., y, :], intercepts[..., y]) for y, cell in enumerate(cells)]
    return np.min(by_label, axis=0)


def mean_size(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean set size in every domain for equally frequent labels, in closed form."""
    held = [[cell.recall(weights[..., y, :], intercepts[..., y]) for y in range(len(cells))] for cell in cells]
    return np.sum(held, axis=(0, 1)) / len(cells)


def share_missing(min_recalls: NDArray[np.float64], target_recall: float) -> NDArray[np.float64]:
    """Return the share of domains (the last axis) whose min recall is below the target."""
    return np.mean(min_recalls < check_target_recall(target_recall) - ROUNDING, axis=-1)


def intercepts_at_target(
    cells: Sequence[GaussianCells], weights: NDArray[np.float64], target_recall: float
) -> NDArray[np.float64]:
    """Return the lowest intercepts (smallest sets) at which every label is at target in all domains."""
    z = ndtri(check_target_recall(target_recall))
    needed = [
        np.max(z * cell.norm(weights[..., y, :])[..., None] * cell.deviations - weights[..., y, :] @ cell.means.T, -1)
        for y, cell in enumerate(cells)
    ]
    return np.stack(needed, axis=-1)
