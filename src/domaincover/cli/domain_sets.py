"""Sets with thresholds that each domain's rows set, for a table that is read in blocks.

All rows of a domain set its thresholds, so scores are kept until a domain is complete. Where rows are grouped by
domain, that is when its rows end, and memory does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from domaincover.cli.evaluate import rejected_rows_as_input_error
from domaincover.cli.inputs import listed
from domaincover.data.identity import canonical, look_alike_line
from domaincover.errors import InputError
from domaincover.predictors.adapted_domains import Scored, moved_domains
from domaincover.predictors.label_scoring import last_step
from domaincover.predictors.promised_predictor import PromisedPredictor
from domaincover.predictors.set_predictor import unwrapped
from domaincover.report.domain_adaptation import DomainAdaptation, unusual_domains
from domaincover.terminal.messages import say

if TYPE_CHECKING:
    from domaincover.prediction_sets import Sets

Result = TypeVar("Result")


class RowsNotGroupedError(Exception):
    """A domain has rows in several places of a table."""


class UnadaptedBlock(NamedTuple):
    """Features of some rows, their domains, and whatever is to be kept beside their sets."""

    X: Any
    domains: Any
    kept: Any


class AdaptedBlock(NamedTuple):
    """The adapted and the fixed sets of some rows, and what was kept beside them."""

    sets: Sets
    fixed_sets: Sets
    kept: Any


class AdaptedNames(NamedTuple):
    """Domains by name, with the thresholds (domains × labels) and p-values that their rows gave a model."""

    inner: PromisedPredictor
    names: list[Hashable]
    thresholds: NDArray[np.float64]
    p_values: NDArray[np.float64]

    def adaptation(self, domain_names: Sequence[Hashable]) -> DomainAdaptation:
        """Return by how much the thresholds of some of these domains moved, and their p-values."""
        place = {name: row for row, name in enumerate(self.names)}
        rows = [place[name] for name in domain_names]
        level = self.inner.unfamiliar_level
        return DomainAdaptation(self.thresholds[rows], self.inner.thresholds_, self.p_values[rows], level)

    @property
    def n_moved(self) -> int:
        """The number of domains with thresholds of their own."""
        return int(moved_domains(self.thresholds, self.inner.thresholds_).sum())

    def warning(self) -> str | None:
        """Return a line about unusual domains and those whose names look alike, if there are any."""
        unusual = unusual_domains(self.names, self.p_values, self.inner.unfamiliar_level)
        doubt = look_alike_line(self.names, "domains")
        return "\n".join(filter(None, [unusual, doubt and f"Note: {doubt}"])) or None


class DomainSets:
    """Computes sets domain by domain, and remembers the thresholds and p-value of each."""

    def __init__(self, model: Any, folder: Path) -> None:
        self._model, self._folder = model, folder
        self._inner = inner_model(model)
        self._codes: dict[Hashable, int] = {}
        self._thresholds: list[NDArray[np.float64]] = []
        self._p_values: list[NDArray[np.float64]] = []
        self._n_blocks = 0
        self.keeps_all_rows = False  # because rows are not grouped by domain

    @property
    def found(self) -> AdaptedNames:
        """The domains in the order in which they were met."""
        thresholds, p_values = np.concatenate(self._thresholds), np.concatenate(self._p_values)
        return AdaptedNames(self._inner, list(self._codes), thresholds, p_values)

    def blocks(self, rows: Iterable[UnadaptedBlock], is_grouped: bool) -> Iterator[AdaptedBlock]:
        """Yield the sets in the order of the rows: each domain's when its rows end, or all at the end."""
        waiting: list[_Waiting] = []
        for X, domains, kept in rows:
            with rejected_rows_as_input_error(self._folder):
                inner, transformed = unwrapped(self._model, X)
                scored = inner.scored(transformed)
            block = _Waiting(scored, self._coded(domains), kept)
            self._n_blocks += 1
            current = waiting[-1].codes[-1] if waiting else 0
            # Domains are numbered as they are met, so a lower number is of a domain whose rows had ended.
            is_grouped = is_grouped and not (np.diff(block.codes, prepend=current) < 0).any()
            if not is_grouped and self._thresholds:
                raise RowsNotGroupedError
            if not is_grouped or block.codes[-1] == current:
                waiting.append(block)
                continue
            start = int(np.searchsorted(block.codes, block.codes[-1]))
            yield from self._completed([*waiting, block.part(slice(None, start))])
            waiting = [block.part(slice(start, None))]
        self.keeps_all_rows = not is_grouped and self._n_blocks > 1
        yield from self._completed(waiting)

    def _coded(self, domains: Any) -> NDArray[np.int64]:
        import pandas as pd

        codes, names = pd.factorize(domains)
        known = [self._codes.setdefault(name, len(self._codes)) for name in names.tolist()]
        return np.array(known, dtype=np.int64)[codes]

    def _completed(self, waiting: list[_Waiting]) -> Iterator[AdaptedBlock]:
        """Set the thresholds of domains whose rows are all here."""
        waiting = [block for block in waiting if len(block.codes)]
        if not waiting:
            return
        codes = np.concatenate([block.codes for block in waiting])
        first, n_domains = int(codes.min()), int(codes.max() - codes.min() + 1)
        scored = Scored(*(np.concatenate(parts) for parts in zip(*(block.scored for block in waiting), strict=True)))
        with rejected_rows_as_input_error(self._folder):
            found = self._inner.adapted_domains(scored, codes - first, n_domains)
        self._thresholds.append(found.thresholds)
        self._p_values.append(found.p_values)
        for block in waiting:
            scores = block.scored.scores
            with rejected_rows_as_input_error(self._folder):
                fixed = scores >= self._inner.thresholds_
            yield AdaptedBlock(scores >= found.thresholds[block.codes - first], fixed, block.kept)


class _Waiting(NamedTuple):
    """Scored rows whose domain may not be complete."""

    scored: Scored
    codes: NDArray[np.int64]
    kept: Any

    def part(self, rows: slice) -> _Waiting:
        return _Waiting(Scored(*(values[rows] for values in self.scored)), self.codes[rows], self.kept[rows])


def with_domain_sets(
    model: Any, folder: Path, use: Callable[[DomainSets, bool], Result], domain: str
) -> tuple[AdaptedNames, Result]:
    """Call `use` for rows grouped by domain, and once more for rows in any order if that comes to light too late."""
    found = DomainSets(model, folder)
    try:
        result = use(found, True)
    except RowsNotGroupedError:
        found = DomainSets(model, folder)
        result = use(found, False)
    if found.keeps_all_rows:
        say(f"Rows are not grouped by {domain}, so the scores of all are kept in memory; sort them to need less.")
    return found.found, result


def inner_model(model: Any) -> PromisedPredictor:
    """Return the classifier of a model whose thresholds can adapt; reject another one."""
    inner = last_step(model)
    if not isinstance(inner, PromisedPredictor) or not inner.can_adapt:
        raise InputError(_why_not(inner))
    return inner


def can_adapt(model: Any) -> bool:
    """Tell whether the thresholds of a fitted model can adapt to a domain."""
    return bool(getattr(last_step(model), "can_adapt", False))


def meant_for_another_domain(model: Any, adapted_to: str | None, names: Sequence[Hashable]) -> str | None:
    """Return a line if a model is adapted to one domain and the rows are of others, as far as that is known."""
    if not hasattr(last_step(model), "adapted_"):
        return None
    others = [str(name) for name in names if adapted_to is not None and canonical(name) != canonical(adapted_to)]
    if not others and len(names) < 2:
        return None
    own = "one domain" if adapted_to is None else f"domain {adapted_to}"
    rows = f"rows of other domains: {listed(others)}" if others else f"rows of {len(names):,} domains"
    return (
        f"The model is adapted to {own}, and the table has {rows}. For others its promise does not hold: use the model "
        "that it came from."
    )


def _why_not(inner: Any) -> str:
    """Say why the thresholds of a model cannot adapt."""
    if hasattr(inner, "adapted_"):
        return "the model is adapted to one domain already; use the model that it came from."
    if isinstance(inner, PromisedPredictor):
        return "the model's thresholds are fixed (jackknife-minmax); fit with --calibration cross-fit to adapt them."
    return (
        "the model has no promise, and so its thresholds cannot adapt to domains; predict without --domain. A promise "
        "takes nine domains or more by default (domaincover plan)."
    )
