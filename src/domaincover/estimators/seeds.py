"""From scikit-learn's `random_state` to generators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def generators(random_state: Any, n: int) -> list[np.random.Generator]:
    """Return independent generators; the same integer gives the same ones."""
    seed = check_random_state(random_state).randint(2**31, size=4)
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed.tolist()).spawn(n)]
