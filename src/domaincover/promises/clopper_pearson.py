"""Exact bounds on a probability from a count, by Clopper and Pearson (1934)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def lower_bound(n_hits: Any, n: Any, confidence: Any) -> NDArray[np.float64]:
    """Return the one-sided Clopper-Pearson lower confidence bound of a proportion, element-wise.

    >>> float(lower_bound(0, 10, 0.95)), round(float(lower_bound(10, 10, 0.95)), 4) == round(0.05 ** 0.1, 4)
    (0.0, True)
    """
    from scipy.special import betaincinv

    hits, total = np.asarray(n_hits, dtype=float), np.asarray(n, dtype=float)
    some = hits > 0
    bound = betaincinv(np.where(some, hits, 1.0), np.where(some, total - hits, 0.0) + 1, 1 - np.asarray(confidence))
    return np.asarray(np.where(some, bound, 0.0))


def upper_bound(n_hits: Any, n: Any, confidence: Any) -> NDArray[np.float64]:
    """Return the one-sided Clopper-Pearson upper confidence bound of a proportion, element-wise."""
    return 1 - lower_bound(np.asarray(n) - np.asarray(n_hits), n, confidence)
