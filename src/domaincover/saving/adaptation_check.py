"""Check what a loaded model adapts with, before compiled code indexes it."""

from __future__ import annotations

import numpy as np

from domaincover.calibration.familiarity import FamiliarityTable
from domaincover.errors import InputError
from domaincover.predictors.promised_predictor import PromisedPredictor


def check_adaptation(model: PromisedPredictor) -> None:
    """Reject adaptive thresholds, of a corrupt file for instance, whose arrays do not fit each other."""
    n_labels, n_groups = len(model.classes_), len(model.own_criterion.group_targets)
    if not all(isinstance(each, dict) for each in (model.adaptation_, model.later_adaptation_, model.familiarity_)):
        raise InputError("its adaptive thresholds are not named arrays.")
    for found in (model.adaptation_, model.later_adaptation_):
        shapes = {name: np.shape(value) for name, value in found.items()}
        n_entries, n_levels = len(found.get("n_rows", ())), len(found.get("label_counts", ()))
        expected = {
            **dict.fromkeys(("target_recall", "domain_confidence"), ()),
            "promised": (n_groups,),
            **dict.fromkeys(("n_rows", "slope", "label_slope"), (n_entries,)),
            **dict.fromkeys(("level", "centre", "highest", "rare_residuals", "offset"), (n_entries, n_groups)),
            "label_counts": (n_levels,),
        }
        if shapes != expected or n_entries == 0 or found["n_rows"][0] != 0:
            raise InputError("the arrays of its adaptive thresholds do not fit each other.")
    kept = np.shape(model.residuals_)
    table = model.familiarity_
    if (
        len(kept) != 5
        or kept[:2] != (n_entries, n_levels)
        or kept[-1] != n_groups
        or set(table) != set(FamiliarityTable._fields)
        or np.shape(table["summaries"])[::2] != (len(table["n_rows"]), n_groups + n_labels)
    ):
        raise InputError("the arrays of its adaptive thresholds do not fit each other.")
