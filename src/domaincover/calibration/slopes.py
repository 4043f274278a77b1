"""How far to follow evidence that may be noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def shrunken_slope(known: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """Return the slope of least squares of `wanted` on `known`, (draws, domains, labels), drawn towards 0.

    Noise in what is known lowers the slope of itself. What the slope's own uncertainty adds is taken off as in the
    positive-part James–Stein estimator, slope · max(0, 1 − variance / slope²), with the variance clustered by domain,
    since the labels and draws of one domain err together. Never negative; 0 where nothing is known.
    """
    spread = float((known**2).sum())
    if spread == 0.0:
        return 0.0
    slope = float((known * wanted).sum()) / spread
    if slope <= 0.0:
        return 0.0
    by_domain = (known * (wanted - slope * known)).sum(axis=(0, 2))
    variance = float((by_domain**2).sum()) / spread**2
    return slope * max(0.0, 1.0 - variance / slope**2)
