"""Whether domains drift along their order: those drawn at random say nothing then about what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.errors import InputError

FEWEST_DOMAINS = 9
DRIFTS = "Domains drift along"
N_ORDERS = 1999  # random orders that the real one is compared with
SURELY = 0.001  # a table without order is reported once in a thousand


class Drift(NamedTuple):
    """The number of a domain that follows the order most, its rank correlation with it, and the p-value over all."""

    what: str
    correlation: float
    p_value: float


def in_order(names: pd.Series[Any]) -> NDArray[np.float64] | None:
    """Return numbers or dates as numbers; None for other texts, or where one is missing."""
    numbers = pd.to_numeric(names, errors="coerce")
    if numbers.isna().any():
        dates = pd.to_datetime(names.astype(str), errors="coerce", format="ISO8601")
        if dates.isna().any():
            return None
        numbers = dates.astype("int64")
    return numbers.to_numpy(float)


def domains_in_order(column: pd.Series[Any], domains: pd.Series[Any]) -> list[Any]:
    """Return the names of the domains from the first to the last, by the middle value of a column in each."""
    values = in_order(column)
    if values is None:
        raise InputError(f"--order {column.name}: it must have a number or a date like 2026-03-31 in every row.")
    middle = pd.Series(values).groupby(domains.to_numpy(), sort=False).median()
    names: list[Any] = middle.sort_values(kind="stable").index.tolist()
    return names


def drift_of(
    numbers: Mapping[str, NDArray[np.float64]], order: NDArray[np.float64], random_state: int = 0
) -> Drift | None:
    """Return what drifts most along an order of the domains, if it does so surely.

    `numbers` are of each domain, by what they are. Their rank correlations with the order are compared with those of
    random orders; the largest of all counts, so that many numbers do not raise more false alarms.
    """
    usable = {name: values for name, values in numbers.items() if np.isfinite(values).all() and np.ptp(values) > 0}
    if len(order) < FEWEST_DOMAINS or not usable:
        return None
    ranks = np.stack([_standardised(values) for values in usable.values()], axis=1)
    own = _standardised(order)
    rng = np.random.default_rng(random_state)
    shuffled = np.stack([rng.permutation(own) for _ in range(N_ORDERS)])
    found = own @ ranks / len(own)
    most = int(np.abs(found).argmax())
    at_random = np.abs(shuffled @ ranks / len(own)).max(axis=1)
    p_value = (1 + int((at_random >= abs(found[most]) - 1e-12).sum())) / (1 + N_ORDERS)
    return Drift(list(usable)[most], float(found[most]), p_value) if p_value <= SURELY else None


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    ranks = pd.Series(values).rank().to_numpy()
    return np.asarray((ranks - ranks.mean()) / ranks.std())
