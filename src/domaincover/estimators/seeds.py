"""From scikit-learn's `random_state` to generators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def generators(random_state: Any, purpose: str, n: int = 1) -> list[np.random.Generator]:
    """Return independent generators; the same integer and purpose give the same ones.

    A purpose of its own keeps draws apart that one seed fixes, such as unseen domains and those that judge.
    """
    seed = check_random_state(random_state).randint(2**31, size=4)
    children = np.random.SeedSequence([*seed.tolist(), *purpose.encode()]).spawn(n)
    return [np.random.default_rng(child) for child in children]
