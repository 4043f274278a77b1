"""A label in too few domains for the promised confidence: the largest statement that can be made about it instead.

With r cells that count, the lowest of what they allow promises the label by itself with confidence r / (r + 1). All its
rows together, those of small cells included, promise that a new row of the label is covered with the target probability
if rows are exchangeable. The threshold is low enough for both, and for the promise to the other labels to stand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.criteria import Criterion, targets_by_group
from domaincover.prediction_sets import hits_needed


def pooled_row_thresholds(
    own: NDArray[Any], labels: NDArray[np.int64], n_labels: int, target_recall: ArrayLike | Criterion
) -> NDArray[np.float64]:
    """Return the largest threshold that enough of a label's rows reach, a new row counted as one missed.

    `own` holds each row's value for its own label. The result is (…target recalls, labels), −∞ where a label has too
    few rows: a target of 0.9 takes nine.
    """
    order = np.lexsort((own, labels))
    n_of_label = np.bincount(labels, minlength=n_labels)
    needed = hits_needed(n_of_label + 1, targets_by_group(target_recall))
    picks = np.cumsum(n_of_label) - needed
    enough = needed <= n_of_label
    if not len(own):
        return np.full(enough.shape, -np.inf)
    return np.where(enough, own[order][np.where(enough, picks, 0)].astype(float), -np.inf)
