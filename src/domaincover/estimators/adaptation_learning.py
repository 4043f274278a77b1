"""What a promised classifier learns from calibration rows to adapt to new domains."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.adaptation import AdaptiveThresholds
from domaincover.calibration.adaptation_fit import LABEL_COUNTS, ScoredRows, fit_adaptive_thresholds
from domaincover.calibration.familiarity import fit_familiarity
from domaincover.criteria import Criterion
from domaincover.options import OnRareLabel


class LearnedAdaptation(NamedTuple):
    """Fitted attributes of `PromisedSetClassifier`, as plain data that can be saved."""

    thresholds: NDArray[np.float64]  # fixed, one per label
    adaptation: dict[str, Any]  # for the rows given
    later_adaptation: dict[str, Any]  # for later rows
    residuals: NDArray[np.float32]  # of the latter
    familiarity: dict[str, Any]


def learn_adaptation(
    calibration: ScoredRows,
    training: ScoredRows | None,
    target_recall: Criterion,
    domain_confidence: float,
    min_cell_size: int,
    on_infeasible: OnRareLabel,
    rngs: Sequence[np.random.Generator],
) -> LearnedAdaptation:
    """Calibrate thresholds for the rows given and for later rows, and describe the calibration domains."""
    promise: dict[str, Any] = {"training": training, "min_cell_size": min_cell_size, "on_infeasible": on_infeasible}
    given = calibration, target_recall, domain_confidence
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # labels that cannot be promised were reported before training
        rows = fit_adaptive_thresholds(*given, **promise, recall_on="rows given", label_counts=(), rng=rngs[0])
        counts = () if target_recall.is_coverage else LABEL_COUNTS
        later = fit_adaptive_thresholds(*given, **promise, recall_on="later rows", label_counts=counts, rng=rngs[1])
    table = fit_familiarity(*calibration[:2], calibration.domains, target_recall, rng=rngs[2])
    return LearnedAdaptation(
        rows.fixed,
        _without_residuals(rows),
        _without_residuals(later),
        _rounded_down(later.residuals),
        table._asdict(),
    )


def _without_residuals(found: AdaptiveThresholds) -> dict[str, Any]:
    """Return the numbers other than the residuals, which only labelled rows need."""
    return {name: value for name, value in found._asdict().items() if name != "residuals"}


def _rounded_down(residuals: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return residuals in half the memory, none above what its cell allows."""
    found = residuals.astype(np.float32)
    return np.where(found > residuals, np.nextafter(found, np.float32(-np.inf)), found)
