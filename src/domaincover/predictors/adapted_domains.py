"""What a domain's own rows give: scores, thresholds and a p-value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import MISSING_LABEL, AdaptiveThresholds
from domaincover.calibration.self_calibration import self_calibrated_thresholds
from domaincover.criteria import Criterion
from domaincover.errors import InputError


class Scored(NamedTuple):
    """Scores on the scale of the thresholds, and probabilities; NaN and +∞ for rows that could not be read."""

    scores: NDArray[Any]
    probabilities: NDArray[Any]


class AdaptedDomains(NamedTuple):
    """The thresholds (domains × labels) and p-values that domains get from their own unlabelled rows."""

    thresholds: NDArray[np.float64]
    p_values: NDArray[np.float64]


def moved_domains(thresholds: NDArray[np.float64], fixed: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which domains have thresholds of their own: with few rows, or rows that say little, they are the fixed."""
    return np.asarray((thresholds != fixed).any(axis=1))


def thresholds_of_domain(
    adaptation: AdaptiveThresholds,
    criterion: Criterion,
    scores: NDArray[Any],
    probabilities: NDArray[Any],
    labels: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the thresholds of the groups of one domain from its rows, some of which may be labelled (else −1)."""
    is_labelled = labels != MISSING_LABEL
    evidence = self_calibrated_thresholds(scores, probabilities, np.zeros(len(scores), np.int64), criterion, 1)
    if is_labelled.any() and criterion.is_coverage:  # their mean score is that of all labels, whichever were picked
        raise InputError("labelled rows cannot adapt criterion='coverage'; adapt with unlabelled rows: adapt(X).")
    if not is_labelled.any() or adaptation.entry_of(np.array(len(scores))) == 0:  # too few rows to learn from
        return adaptation.of_evidence(evidence, np.array([len(scores)]))[0]
    groups = np.where(is_labelled, criterion.group_of_label[labels], MISSING_LABEL)
    columns = criterion.constrained
    return adaptation.of_labelled(scores[:, columns], probabilities[:, columns], groups, evidence)
