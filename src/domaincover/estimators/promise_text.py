"""What a calibrated classifier promises about a new domain, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from domaincover.calibration.confidence import confidence_text, order_ranks

if TYPE_CHECKING:
    from domaincover.estimators.calibrated import CalibratedSetClassifier


def _rare_in_words(model: Any) -> list[str]:
    """Say which labels are promised by themselves, each with its probability, and which are not promised."""
    if not hasattr(model, "domains_by_label_"):
        return []
    n_domains = model.domains_by_label_
    rare = (order_ranks(n_domains, model.domain_confidence) < 1) & np.isfinite(model.thresholds_)
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


def promise_in_words(model: CalibratedSetClassifier, which: str, confidence: float | None) -> str:
    """Return what a fitted classifier promises: that labels reach the target, with a confidence or on average."""
    widened = model.classes_[np.isneginf(model.thresholds_)].tolist()
    if len(widened) == len(model.classes_):
        return "Every set holds every label, since there are too few domains to promise anything else."
    rare = _rare_in_words(model)
    counting = f"with at least {model.min_cell_size} examples there" if model.min_cell_size > 1 else "that it has"
    promise = f"In a new domain drawn like the {len(model.calibration_domains_)} that calibrated, "
    if confidence is None:
        promise += f"the recall of {which} {counting} is {model.target_recall:g} or more on average"
    else:
        promise += f"{which} {counting} has recall {model.target_recall:g} or more"
        promise += f" with probability {confidence:g} or more"
    if model.calibration == "cross-fit":
        promise += "; cross-fitted, so this is expected but not proved"
    elif model.calibration == "prefit" and hasattr(model, "adaptation_"):
        promise += "; a few numbers are fitted to the same domains, so this is expected but not proved"
    promise += "".join(f"; {each}" for each in rare)
    if widened:
        promise += f"; in every set, since too few domains have them: {', '.join(map(repr, widened))}"
    return f"{promise}."
