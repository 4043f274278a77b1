"""What a calibrated classifier promises about a new domain, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from domaincover.calibration.confidence import confidence_text

if TYPE_CHECKING:
    from domaincover.estimators.calibrated import CalibratedSetClassifier


def _rare_in_words(model: Any) -> list[str]:
    """Return the labels that are promised by themselves, each with its probability."""
    promised = getattr(model, "adaptation_", {}).get("promised")
    if promised is None or not promised.any():
        return []
    rare = np.flatnonzero(~promised & np.isfinite(model.thresholds_))
    counts = model.domains_by_label_[rare].tolist()
    names = model.classes_[rare].tolist()
    return [f"{name!r} ({confidence_text(n)})" for name, n in zip(names, counts, strict=True) if n]


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
    if rare:
        promise += f"; too few domains have {', '.join(rare)}, each promised by itself with that probability"
    if widened:
        promise += f"; in every set, since too few domains have them: {', '.join(map(repr, widened))}"
    return f"{promise}."
