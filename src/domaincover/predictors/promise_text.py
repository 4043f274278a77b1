"""What a calibrated classifier promises about a new domain, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.confidence import confidence_text, order_ranks

if TYPE_CHECKING:
    from domaincover.predictors.calibrated_predictors import CalibratedPredictor


def promised_apart(model: Any) -> NDArray[np.bool_]:
    """Return which labels are in too few calibration domains to be promised together with the others."""
    if not hasattr(model, "domains_by_label_"):
        return np.zeros(len(model.classes_), dtype=bool)
    few = order_ranks(model.domains_by_label_, model.domain_confidence) < 1
    return np.asarray(model.own_criterion.constrained & few & np.isfinite(model.thresholds_))


def _rare_in_words(model: Any) -> list[str]:
    """Say which labels are promised by themselves, each with its probability, and which are not promised."""
    rare = promised_apart(model)
    n_domains = model.domains_by_label_ if rare.any() else np.zeros(len(rare))
    by_itself, unpromised = rare & (n_domains > 0), rare & (n_domains == 0)
    said = []
    if by_itself.any():
        each = zip(model.classes_[by_itself].tolist(), n_domains[by_itself].tolist(), strict=True)
        named = ", ".join(f"{name!r} with probability {confidence_text(n)}" for name, n in each)
        said.append(f"promised apart from the others, since too few domains have them: {named}")
    if unpromised.any():
        named = ", ".join(map(repr, model.classes_[unpromised].tolist()))
        said.append(f"not promised, since no domain has {model.min_cell_size} examples of it: {named}")
    return said


def _reached(model: CalibratedPredictor, which: str, counting: str, on_average: bool) -> str:
    """Say what reaches the target: labels, each its own or all the same, or the rows of the domain together."""
    target = model.own_criterion.plain(model.classes_.tolist())
    if model.criterion == "coverage":
        counting = f", if it has {model.min_cell_size} rows or more," if model.min_cell_size > 1 else ""
        return f"the share of rows whose set holds their label{counting} is {target:g} or more"
    if isinstance(target, dict):
        reached = f"its target or more ({', '.join(f'{name} {value:g}' for name, value in target.items())})"
    else:
        reached = f"{target:g} or more"
    return (
        f"the recall of {which} {counting} is {reached}" if on_average else f"{which} {counting} has recall {reached}"
    )


def promise_in_words(model: CalibratedPredictor, which: str, confidence: float | None) -> str:
    """Return what a fitted classifier promises: that labels reach the target, with a confidence or on average."""
    widened = model.classes_[np.isneginf(model.thresholds_)].tolist()
    if len(widened) == len(model.classes_):
        return "Every set holds every label, since there are too few domains to promise anything else."
    rare = _rare_in_words(model)
    counting = f"with at least {model.min_cell_size} examples there" if model.min_cell_size > 1 else "that it has"
    promise = f"In a new domain drawn like the {len(model.calibration_domains_)} that calibrated, "
    promise += _reached(model, which, counting, on_average=confidence is None)
    promise += " on average" if confidence is None else f" with probability {confidence:g} or more"
    if model.calibration == "cross-fit":
        promise += "; cross-fitted, so this is expected but not proved"
    elif model.calibration == "prefit" and hasattr(model, "adaptation_"):
        promise += "; a few numbers are fitted to the same domains, so this is expected but not proved"
    if getattr(model, "domain_order", None) is not None:
        promise += "; the later of them weigh more, which is expected to hold while domains drift slowly"
    promise += "".join(f"; {each}" for each in rare)
    free = model.classes_[~model.own_criterion.constrained].tolist()
    if free:
        promise += f"; not constrained: {', '.join(map(repr, free))}"
    if widened:
        promise += f"; in every set, since too few domains have them: {', '.join(map(repr, widened))}"
    return f"{promise}."
