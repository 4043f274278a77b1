"""What a table's domains allow: which promise, with which option of `fit`, and what a certificate could show."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.confidence import confidence_text, domains_needed, highest_confidence
from domaincover.data.splits import n_held_out
from domaincover.promises.plans import all_caught_size, conditional_size

HOLD_OUT_DOMAINS, HOLD_OUT_ROWS = 0.25, 0.2  # the defaults of `fit`
CONFIDENCE, ERROR = 0.9, 0.05
TARGET_RECALL = 0.9


class Route(NamedTuple):
    """One way to use the table: whether it is open (None: depends on which domains are held out), and why."""

    name: str
    is_open: bool | None
    words: str


class Outlook(NamedTuple):
    """Domains at hand, domains that promises need, and the routes to a model."""

    n_domains: int
    n_held_out: int
    n_needed: int
    highest_confidence: float
    highest_confidence_evaluated: float
    n_needed_to_show: int
    highest_shown: float
    routes: tuple[Route, ...]


def outlook_of(counts: NDArray[np.int64], min_cell_size: int) -> Outlook:
    """Return what the counts of rows, domains × labels, allow."""
    n_domains = len(counts)
    n_evaluate = n_held_out(n_domains, HOLD_OUT_DOMAINS) if n_domains > 1 else 0
    n_needed, n_to_show = domains_needed(CONFIDENCE), conditional_size(1 - CONFIDENCE, ERROR)
    pools = bool(((counts >= min_cell_size).sum(axis=0) < n_domains).any())
    return Outlook(
        n_domains=n_domains,
        n_held_out=n_evaluate,
        n_needed=n_needed,
        highest_confidence=highest_confidence(n_domains),
        highest_confidence_evaluated=highest_confidence(n_domains - n_evaluate),
        n_needed_to_show=n_to_show,
        highest_shown=ERROR ** (1 / n_evaluate) if n_evaluate else 0.0,
        routes=(
            *([_default(counts, min_cell_size, n_evaluate, n_needed)] if n_evaluate else []),
            *([_highest(n_domains, n_evaluate, pools)] if n_evaluate else []),
            _highest(n_domains, 0, pools),
            *([_proved(n_domains, n_evaluate, n_needed), _shown(n_evaluate, n_to_show)] if n_evaluate else []),
        ),
    )


def _default(counts: NDArray[np.int64], min_cell_size: int, n_evaluate: int, n_needed: int) -> Route:
    """Return the route that `fit` takes without options: it promises where one label is in domains enough."""
    most = int((counts >= min_cell_size).sum(axis=0).max())
    # Of the domains to fit on, some rows are held out too; in the worst case all held-out domains have the label.
    surely = int(((1 - HOLD_OUT_ROWS) * counts >= min_cell_size).sum(axis=0).max()) - n_evaluate
    is_open = True if surely >= n_needed else None if most >= n_needed else False
    have = f"{most} domains have {min_cell_size} rows or more of a label, {n_evaluate} domains are held out to evaluate"
    if is_open:
        words = f"promises {CONFIDENCE:g}: {have}, and {n_needed} are needed."
    elif is_open is None:
        words = f"promises {CONFIDENCE:g} if enough remain: {have}, and {n_needed} are needed."
    else:
        words = f"aims at the target without a promise: {have}; a promise of {CONFIDENCE:g} needs {n_needed}."
    return Route("fit", is_open, words)


def _highest(n_domains: int, n_evaluate: int, pools: bool) -> Route:
    n_left = n_domains - n_evaluate
    highest = confidence_text(n_left)
    beside = "beside an evaluation" if n_evaluate else "at all, without an evaluation"
    rare = "; --on-infeasible pool, since not every label is in all of them" if pools else ""
    return Route(
        f"fit --domain-confidence {highest}{'' if n_evaluate else ' --hold-out-domains 0'}",
        n_domains > 1,
        f"the highest promise {beside}: {n_left} domains calibrate{rare}.",
    )


def _proved(n_domains: int, n_evaluate: int, n_needed: int) -> Route:
    n_left = n_domains - n_evaluate - 1
    is_open = n_left >= n_needed
    return Route(
        "fit --calibration held-out-domains",
        is_open,
        f"a promise of {CONFIDENCE:g} with a proof: {n_needed} domains calibrate and at least one trains; "
        f"there {'are' if n_left != 1 else 'is'} {n_left} beside one to train on and {n_evaluate} to evaluate.",
    )


def _shown(n_evaluate: int, n_to_show: int) -> Route:
    shown = ERROR ** (1 / n_evaluate)
    return Route(
        "certify",
        n_evaluate >= n_to_show,
        f"the {n_evaluate} held-out domains show at most {100 * shown:.0f} % of new domains at target, if none of them "
        f"misses; to show 90 % takes {n_to_show}, with {all_caught_size(TARGET_RECALL, ERROR)} rows of each label.",
    )
