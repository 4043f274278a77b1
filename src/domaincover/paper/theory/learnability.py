"""Linear set predictors in Gaussian domains in closed form: min recall, mean set size and share below target.

The corresponding bounds are in `domaincover.paper.theory.learning_bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from domaincover.paper.theory.gaussian import GaussianCells
from domaincover.prediction_sets import check_target_recall

ROUNDING = 1e-12  # tolerance for recalls exactly at target


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
