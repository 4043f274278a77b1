"""Generators from scikit-learn's `random_state`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def generators(random_state: Any, purpose: str, n: int = 1) -> list[np.random.Generator]:
    """Return n independent generators; the same integer and purpose give the same ones.

    Different purposes give independent streams from one seed, such as for unseen and for held-out domains.
    """
    seed = check_random_state(random_state).randint(2**31, size=4)
    children = np.random.SeedSequence([*seed.tolist(), *purpose.encode()]).spawn(n)
    return [np.random.default_rng(child) for child in children]
