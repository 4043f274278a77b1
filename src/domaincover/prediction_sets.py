"""Sets as boolean matrices, one row per example and one column per label."""

from __future__ import annotations

from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError

Sets = NDArray[np.bool_]
MISSING_LABEL = -1  # the code of a row whose label is not known
SMALLEST_SAVING = 0.1  # against sets drawn by lot; below it, sets are called useless


def check_target_recall(target_recall: float) -> float:
    """Reject a target recall that is not between 0 and 1."""
    return check_share(target_recall, "target recall")


def check_share(value: float, what: str) -> float:
    """Reject a number that is not between 0 and 1.

    >>> check_share(95, "confidence")
    Traceback (most recent call last):
    domaincover.errors.InputError: confidence must lie between 0 and 1, got 95; write 95 % as 0.95.
    """
    if isinstance(value, bool | str) or not isinstance(value, SupportsFloat):
        raise InputError(f"{what} must be a number between 0 and 1, got {value!r}.")
    if not 0 < value < 1:
        percent = value if 1 < value < 100 else 95
        raise InputError(f"{what} must lie between 0 and 1, got {value:g}; write {percent:g} % as {percent / 100:g}.")
    return float(value)


def hits_needed(n_examples: Any, target_recall: Any) -> NDArray[np.int64]:
    """Return the smallest number of covered examples whose share of `n_examples` is at least the target.

    Agrees with `hits / n >= target` in floating point, where ceil(target · n) may be one off.
    """
    n = np.asarray(n_examples, dtype=np.int64)
    needed = np.ceil(target_recall * n).astype(np.int64)
    whole = np.maximum(n, 1)
    needed -= (needed - 1) / whole >= target_recall
    return np.asarray(np.where(n > 0, needed + (needed / whole < target_recall), 0))


def checked_codes(codes: Any, what: str, n_expected: int, n_codes: int | None = None) -> NDArray[np.int64]:
    """Return label or domain codes as an array; reject names, which `DomainDataset` codes."""
    array = np.asarray(codes)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{what}s must be codes, whole numbers from 0, got {array.dtype}; "
            "`DomainDataset.from_arrays` makes codes from names."
        )
    if array.shape != (n_expected,):
        raise InputError(f"there must be one {what} for each of {n_expected} examples, got shape {array.shape}.")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < 0 or (n_codes is not None and high >= n_codes):
        raise InputError(f"{what} codes run from {low} to {high}, but there are {n_codes or 'only codes from 0'}.")
    return array.astype(np.int64, copy=False)


def sets_from_scores(scores: NDArray[Any], thresholds: NDArray[Any]) -> Sets:
    """Put a label into the set unless its score is below its threshold; NaN is not below."""
    return ~np.asarray(scores < thresholds)


def single_label_sets(scores: NDArray[Any]) -> Sets:
    """Return sets with only the highest-scoring label."""
    return np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]


def covers(sets: Sets, labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each example whether its set holds its label."""
    return np.take_along_axis(sets, labels[:, None], axis=1)[:, 0]


def set_sizes(sets: Sets) -> NDArray[np.int64]:
    """Return the number of labels in each set."""
    # for few labels, einsum is more than twice as fast as numpy's sum or count along rows
    return np.einsum("nl->n", np.asarray(sets, dtype=bool).view(np.uint8), dtype=np.int64)


def share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Divide, NaN where the whole is 0."""
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.asarray(whole) > 0)


def size_by_lot(n_labels: Any, recall: Any) -> Any:
    """Return the size of sets drawn by lot with this recall: each label is in the set with that probability.

    Sets that are hardly smaller say nothing about an example, whatever their recall.
    """
    return n_labels * np.asarray(recall, dtype=float)


def is_hardly_better_than_lot(set_size: Any, by_lot: Any) -> Any:
    """Return whether sets save less than a tenth of the labels that sets drawn by lot would have at the same recall.

    >>> bool(is_hardly_better_than_lot(9.94, 10)), bool(is_hardly_better_than_lot(1.2, 1.88))
    (True, False)
    """
    return np.asarray(set_size) > (1 - SMALLEST_SAVING) * np.asarray(by_lot)
