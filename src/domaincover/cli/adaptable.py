"""Models whose thresholds adapt to domains, and what adapting a table's domains gave."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.identity import canonical, look_alike_line
from domaincover.errors import InputError
from domaincover.predictors.adapted_domains import AdaptedDomains, unusual_domains
from domaincover.predictors.label_scores import last_step
from domaincover.predictors.promised_predictor import PromisedPredictor
from domaincover.terminal.text import listed


class AdaptedNames(NamedTuple):
    """Domains by name, with the thresholds (domains × labels) and p-values that their rows gave a model.

    `rows_digest` is one of all these rows, if they lie in parts.
    """

    inner: PromisedPredictor
    names: list[Hashable]
    thresholds: NDArray[np.float64]
    p_values: NDArray[np.float64]
    rows_digest: str

    def adaptation(self, domain_names: Sequence[Hashable]) -> AdaptedDomains:
        """Return by how much the thresholds of some of these domains moved, and their p-values."""
        place = {name: row for row, name in enumerate(self.names)}
        rows = [place[name] for name in domain_names]
        level = self.inner.unfamiliar_level
        return AdaptedDomains(self.thresholds[rows], self.p_values[rows], self.inner.thresholds_, level)

    @property
    def n_moved(self) -> int:
        """The number of domains with thresholds of their own."""
        return int(self.adaptation(self.names).moved.sum())

    def warning(self) -> str | None:
        """Return a line about unusual domains and those whose names look alike, if there are any."""
        unusual = unusual_domains(self.names, self.p_values, self.inner.unfamiliar_level)
        doubt = look_alike_line(self.names, "domains")
        return "\n".join(filter(None, [unusual, doubt and f"Note: {doubt}"])) or None


def gain_in_words(model: Any, domain: str | None) -> str | None:
    """Return a line on what labels of a new domain gain; None of a model that learns next to nothing from them."""
    inner = last_step(model)
    if not getattr(inner, "few_labels_", None):
        return None
    sizes = {n: f"{size:.2f}" for n, size in inner.label_gain["set_size"].items()}
    if min(sizes.values()) == sizes[0]:
        return None
    with_labels = listed([f"{size} with {n} labels of a new {domain or 'domain'}" for n, size in sizes.items() if n])
    return f"Labels per set, in domains treated as new: {sizes[0]} without labels, {with_labels}."


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
