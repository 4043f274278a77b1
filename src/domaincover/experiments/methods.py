"""The methods of the study by name: which network gives the scores, and how scores become sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.rules import pooled_thresholds, robust_thresholds
from domaincover.data.dataset import DomainDataset
from domaincover.errors import InputError
from domaincover.prediction_sets import Sets, sets_from_scores, single_label_sets

# What is trained: cross-entropy on all training domains, on half of them, or SET-COVER's loss on all.
Scorer = Literal["erm", "erm-half", "set-cover"]
Rule = Callable[..., NDArray[np.float64]]


@dataclass(frozen=True)
class Method:
    """A scorer, and the rule that calibrates thresholds on its scores (none: the scorer's own sets)."""

    name: str
    scorer: Scorer
    rule: Rule | None = None

    def predict(
        self, scores: NDArray[Any], data: DomainDataset, calibration_rows: NDArray[np.int64], target_recall: float
    ) -> tuple[Sets, NDArray[np.float64] | None]:
        """Return the sets of all examples, and the thresholds behind them where there are any."""
        if self.rule is not None:
            own = (scores[calibration_rows], data.labels[calibration_rows], data.domains[calibration_rows])
            thresholds = self.rule(*own, target_recall)
        elif self.scorer == "set-cover":
            thresholds = np.zeros(data.n_labels)
        else:
            return single_label_sets(scores), None
        return sets_from_scores(scores, thresholds), thresholds


METHODS = {
    method.name: method
    for method in (
        Method("erm", "erm"),
        Method("pooled-train", "erm", pooled_thresholds),
        Method("pooled-held-out", "erm-half", pooled_thresholds),
        Method("robust", "erm", robust_thresholds),
        Method("set-cover", "set-cover"),
    )
}


def study_method(name: str) -> Method:
    """Find a method by its name."""
    if name not in METHODS:
        raise InputError(f"no method {name!r}; there are {', '.join(METHODS)}.")
    return METHODS[name]
