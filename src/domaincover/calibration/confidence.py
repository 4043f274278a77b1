"""Confidence about a new domain that m calibration domains allow: up to m / (m + 1).

A new domain, drawn like the m others, is equally likely to take any of m + 1 places among them, so it is below the
k-th lowest with probability k / (m + 1) at most.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.errors import InputError
from domaincover.options import OnInfeasible, OnRareLabel
from domaincover.prediction_sets import check_share, hits_needed

MOST_NAMES = 5


def order_ranks(n_domains: ArrayLike, domain_confidence: ArrayLike) -> NDArray[np.int64]:
    """Return k = ⌊(1 − confidence)(m + 1)⌋: P(new domain among the k lowest of m + 1) ≤ 1 − confidence.

    >>> order_ranks([8, 9, 18, 19], 0.9)
    array([0, 1, 1, 2])
    """
    m_and_new = np.asarray(n_domains, dtype=np.int64) + 1
    return np.asarray(m_and_new - hits_needed(m_and_new, domain_confidence))  # safe where 1 − 0.9 is below 0.1


def highest_confidence(n_domains: float) -> float:
    """Return the highest confidence that this number of calibration domains allows.

    >>> highest_confidence(9)
    0.9
    """
    return n_domains / (n_domains + 1)


def confidence_text(n_domains: int) -> str:
    """Return the highest confidence in three digits, rounded down.

    >>> confidence_text(5)
    '0.833'
    """
    return f"{math.floor(1000 * highest_confidence(n_domains)) / 1000:g}"


def domains_needed(domain_confidence: float) -> int:
    """Return the smallest number of calibration domains that allows the confidence.

    >>> domains_needed(0.9), domains_needed(0.95)
    (9, 19)
    """
    n_domains = int(domain_confidence / (1 - domain_confidence))
    n_domains = max(n_domains - 1, 1)  # below the answer in spite of rounding
    while order_ranks(n_domains, domain_confidence) < 1:
        n_domains += 1
    return n_domains


def check_feasible(
    n_by_cell: NDArray[Any],
    confidence: ArrayLike,
    what: str = "domain confidence",
    label_names: Sequence[Hashable] | None = None,
    on_infeasible: OnRareLabel = "raise",
    *,
    can_pool: bool = False,
    min_cell_size: int = 1,
    hint: str = "add domains",
) -> NDArray[np.bool_]:
    """Return a mask of the labels in too few domains for the confidence, one for all or one each, or reject them.

    `n_by_cell` is domains × labels, 0 where a cell is smaller than `min_cell_size`. With "widen", such labels are to be
    in every set; with "pool", where a rule can, their rows are pooled. A warning names them.
    """
    known = get_args(OnRareLabel) if can_pool else get_args(OnInfeasible)
    if on_infeasible not in known:
        raise InputError(f"on_infeasible must be {' or '.join(map(repr, known))}, got {on_infeasible!r}.")
    n_domains_with = np.count_nonzero(n_by_cell, axis=0)
    asked = np.broadcast_to(confidence, n_domains_with.shape)
    for value in np.unique(confidence).tolist():
        check_share(value, what)
    infeasible = order_ranks(n_domains_with, asked) < 1
    if infeasible.any():
        message = _too_few(n_domains_with, infeasible, float(asked[infeasible].max()), what, label_names, min_cell_size)
        if on_infeasible == "raise":
            fewer_rows = ", lower min_cell_size" if min_cell_size > 1 else ""
            raise InputError(
                f"{message}; {hint}, ask for less{fewer_rows}, or use on_infeasible='widen', which puts what cannot be "
                "promised into every set."
            )
        then = "every set will hold every label" if infeasible.all() else "they will be in every set"
        if on_infeasible == "pool":
            then = "they are not promised with the others, but pooled"
        warnings.warn(f"{message}; {then}.", stacklevel=3)
    return infeasible


def _too_few(
    n_domains_with: NDArray[np.int64],
    infeasible: NDArray[np.bool_],
    highest: float,
    what: str,
    label_names: Sequence[Hashable] | None,
    min_cell_size: int,
) -> str:
    """Return a message with the confidence, the domains it needs, and the confidence that the domains allow."""
    affected = np.flatnonzero(infeasible)
    most = int(n_domains_with[affected].max())
    enough = f"a {what} of {highest:g} takes {domains_needed(highest)} calibration domains"
    allowed = f"which allow {confidence_text(most)} at most"
    rows = f" with at least {min_cell_size} examples of a label" if min_cell_size > 1 else ""
    if len(affected) == len(n_domains_with) and len(set(n_domains_with.tolist())) == 1:
        return f"{enough}, and there are {most}{rows}, {allowed}"
    names = [repr(label_names[k]) if label_names is not None else str(k) for k in affected[:MOST_NAMES].tolist()]
    names += [f"{len(affected) - MOST_NAMES} more"] if len(affected) > MOST_NAMES else []
    counts = " and ".join(dict.fromkeys(str(n) for n in (int(n_domains_with[affected].min()), most)))
    between = f"between {counts}" if " and " in counts else counts
    rows = f" (with at least {min_cell_size} examples)" if min_cell_size > 1 else ""
    return f"{enough}, but label(s) {', '.join(names)} are in {between}{rows}, {allowed}"
