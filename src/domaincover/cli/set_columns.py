"""The columns that `predict` writes: which labels are in a set, the set as a list, its size, and more on demand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from domaincover.data.dataset import texts

if TYPE_CHECKING:
    from domaincover.prediction_sets import Sets

PLAIN = (str, bool, int, float)
MOST_SIZES = 5  # told one by one


class PredictedRows(NamedTuple):
    """The sets of some rows, and their most likely labels and scores where they are to be written."""

    sets: Sets
    top: NDArray[Any] | None = None
    scores: NDArray[Any] | None = None


class SetColumns:
    """Arranges sets of labels as columns beside copied ones (`ids`), and counts their sizes.

    A set is a list of labels: a list column in Parquet, JSON such as ["mild", "severe"] in text files, so that labels
    with commas and spaces stay apart.
    """

    def __init__(self, classes: NDArray[Any], ids: Sequence[str], *, top: bool, scores: bool, as_lists: bool) -> None:
        self.ids, self._classes = list(ids), classes
        self._top, self._as_lists = top, as_lists
        labels, names = classes.tolist(), texts(classes.tolist())
        self._labels = labels if all(type(label) in PLAIN for label in labels) else names
        self._flags = [f"in_set[{name}]" for name in names]
        self._score_names = [f"score[{name}]" for name in names] if scores else []
        self._sizes: Counter[int] = Counter()

    @property
    def names(self) -> list[str]:
        """The names of the columns beside those that are copied."""
        return [*self._flags, "set", "set_size", *(["top"] if self._top else []), *self._score_names]

    def block(self, kept: pd.DataFrame, predicted: PredictedRows) -> pd.DataFrame:
        """Return the columns of some rows, beside those that are copied."""
        sets = predicted.sets
        sizes = sets.sum(axis=1)
        self._sizes.update(dict(enumerate(np.bincount(sizes).tolist())))
        written: list[Any] = [*sets.T, self._lists(sets), sizes]
        written += [predicted.top] if self._top else []
        written += [*predicted.scores.T] if self._score_names and predicted.scores is not None else []
        return kept[self.ids].assign(**dict(zip(self.names, written, strict=True)))

    def empty(self, kept: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the columns without rows; those that are copied are text, or as they are given."""
        kept = pd.DataFrame(columns=self.ids, dtype=str) if kept is None else kept
        none = np.empty((0, len(self._flags)))
        return self.block(kept, PredictedRows(none.astype(bool), self._classes[:0], none))

    @property
    def sizes(self) -> Counter[int]:
        """How many sets have each size."""
        return Counter({size: count for size, count in sorted(self._sizes.items()) if count})

    def _lists(self, sets: Sets) -> Any:
        """Return each set as a list or as JSON; distinct sets are made once."""
        which, members = _distinct(sets)
        lists = [[label for label, held in zip(self._labels, row, strict=True) if held] for row in members]
        if not self._as_lists:
            return np.array([json.dumps(held, ensure_ascii=False) for held in lists], dtype=object)[which]
        kind = pa.list_(pa.array(self._labels).type)
        return pd.array(pa.array(lists, kind).take(pa.array(which)), dtype=pd.ArrowDtype(kind))


def _distinct(sets: Sets) -> tuple[NDArray[np.int64], Sets]:
    """Return the distinct sets, and which of them each row has; up to 64 labels are told apart as one number."""
    n_labels = sets.shape[1]
    packed = np.packbits(sets, axis=1)
    if n_labels > 64:
        distinct, which = np.unique(packed, axis=0, return_inverse=True)
    else:
        wide = np.zeros((len(sets), 8), dtype=np.uint8)
        wide[:, : packed.shape[1]] = packed
        which, numbers = pd.factorize(wide.view(np.uint64)[:, 0])
        distinct = numbers.view(np.uint8).reshape(-1, 8)
    return which.reshape(-1), np.unpackbits(distinct, axis=1, count=n_labels).astype(bool)


def n_sets_in_words(sizes: Counter[int]) -> str:
    """Return how many sets there are, as the beginning of a sentence."""
    n_sets = sizes.total()
    return f"{n_sets:,} {'set is' if n_sets == 1 else 'sets are'}"


def sizes_in_words(sizes: Counter[int]) -> str:
    """Return how many sets have each size.

    >>> sizes_in_words(Counter({1: 312, 2: 88})), sizes_in_words(Counter())
    ('312 of 1 label, 88 of 2, 0 empty', 'the table has no rows')
    """
    if not sizes.total():
        return "the table has no rows"
    found = sorted(size for size, count in sizes.items() if size and count)
    one_by_one = found if len(found) <= MOST_SIZES + 1 else found[:MOST_SIZES]
    parts = [f"{sizes[size]:,} of {size}" for size in one_by_one]
    if parts:
        parts[0] += " label" if one_by_one[0] == 1 else " labels"
    if rest := found[len(one_by_one) :]:
        parts.append(f"{sum(sizes[size] for size in rest):,} of {rest[0]} to {rest[-1]}")
    return ", ".join([*parts, f"{sizes[0]:,} empty"])
