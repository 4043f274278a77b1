"""What a few labelled rows of a domain say beyond its unlabelled ones, label by label.

For a label y, the mean score of its labelled rows is compared with what the probabilities lead to expect of y's rows in
this domain, Σ p_y s_y / Σ p_y. Scores are counted from the self-calibrated threshold and cut off at ±`REACH`, so that
no single row decides. Since rows of one label are compared with that label only, it does not matter how many labelled
rows there are of each: all may be of one label.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.cell_thresholds import Thresholds

PRIOR_ROWS = 20  # as expected, of each label: few labelled rows count for little (5 to 50 gave sets of the same size)
REACH = 4.0  # log-odds; 1 to 8 gave sets of the same size (docs/experiment-log.md)


def bounded_scores(scores: NDArray[Any], domains: NDArray[np.int64], evidence: Thresholds) -> NDArray[np.float64]:
    """Return scores above the self-calibrated thresholds of their domain, cut off; 0 where either is not known."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.clip(scores - evidence[domains], -REACH, REACH), nan=0.0)


def expected_scores(
    bounded: NDArray[np.float64], probabilities: NDArray[Any], domains: NDArray[np.int64], n_domains: int
) -> NDArray[np.float64]:
    """Return the mean bounded score of each label's rows as the probabilities have it, domains × labels."""
    found = np.zeros((n_domains, bounded.shape[1]))
    for label in range(bounded.shape[1]):
        weight = np.nan_to_num(np.asarray(probabilities[:, label], dtype=float))
        mass = np.bincount(domains, weight, minlength=n_domains)
        summed = np.bincount(domains, weight * bounded[:, label], minlength=n_domains)
        found[:, label] = summed / np.where(mass > 0, mass, 1.0)
    return found


def label_shifts(
    bounded: NDArray[np.float64],
    labels: NDArray[np.int64],
    domains: NDArray[np.int64],
    expected: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return by how much labelled rows lie above what is expected, and how many there are, domains × labels.

    `bounded`, `labels` and `domains` are those of the labelled rows only, to which `PRIOR_ROWS` are added that are as
    expected. The shift is 0 where there is no labelled row.
    """
    shape = expected.shape
    cells = domains * shape[1] + labels
    n_by_cell = np.bincount(cells, minlength=expected.size).reshape(shape)
    summed = np.bincount(cells, bounded[np.arange(len(labels)), labels], minlength=expected.size).reshape(shape)
    return (summed - n_by_cell * expected) / (n_by_cell + PRIOR_ROWS), n_by_cell
