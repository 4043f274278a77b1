"""The columns that `predict` writes: which labels are in a set, the set as a list, its size, and more on demand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from domaincover.cli.evaluate import rejected_rows_as_input_error
from domaincover.data.dataset import texts
from domaincover.predictors.set_predictor import unwrapped

if TYPE_CHECKING:
    from domaincover.prediction_sets import Sets

PLAIN = (str, bool, int, float)
MOST_SIZES = 5  # told one by one


class SetColumns:
    """Arranges the sets of a model as columns, and counts their sizes.

    A set is a list of labels: a list column in Parquet, JSON such as ["mild", "severe"] in text files, so that labels
    with commas and spaces stay apart.
    """

    def __init__(
        self, model: Any, folder: Path, ids: Sequence[str], *, top: bool, scores: bool, as_lists: bool
    ) -> None:
        self.model, self.folder, self.ids = model, folder, list(ids)
        self._top, self._scores, self._as_lists = top, scores, as_lists
        classes = model.classes_.tolist()
        names = texts(classes)
        self._labels = classes if all(type(label) in PLAIN for label in classes) else names
        self._flags = [f"in_set[{name}]" for name in names]
        self._score_names = [f"score[{name}]" for name in names] if scores else []
        self._sizes: Counter[int] = Counter()

    @property
    def names(self) -> list[str]:
        """The names of the columns beside those that are copied."""
        return [*self._flags, "set", "set_size", *(["top"] if self._top else []), *self._score_names]

    def beside(self, kept: pd.DataFrame, X: Any) -> pd.DataFrame:
        """Return the copied columns of some rows with their most likely label and scores, where asked for."""
        found: dict[str, Any] = {}
        if self._top or self._scores:
            with rejected_rows_as_input_error(self.folder):
                model, transformed = unwrapped(self.model, X)
                if self._top:
                    found["top"] = model.predict(transformed)
                if self._scores:
                    found |= dict(zip(self._score_names, model.label_scores(transformed).T, strict=True))
        return kept.assign(**found)

    def block(self, beside: pd.DataFrame, sets: Sets) -> pd.DataFrame:
        """Return the columns of some rows."""
        sizes = sets.sum(axis=1)
        self._sizes.update(dict(enumerate(np.bincount(sizes).tolist())))
        written = [*sets.T, self._lists(sets), sizes]
        names = [*self._flags, "set", "set_size"]
        return beside.assign(**dict(zip(names, written, strict=True)))[[*self.ids, *self.names]]

    def empty(self, kept: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the columns without rows; those that are copied are text, or as they are given."""
        beside = pd.DataFrame(columns=self.ids, dtype=str) if kept is None else kept
        if self._top:
            beside = beside.assign(top=self.model.classes_[:0])
        beside = beside.assign(**{name: np.empty(0) for name in self._score_names})
        return self.block(beside, np.empty((0, len(self._flags)), dtype=bool))

    @property
    def sizes(self) -> dict[int, int]:
        """How many sets have each size."""
        return {size: count for size, count in sorted(self._sizes.items()) if count}

    def count_sizes(self, sizes: Mapping[int, int]) -> None:
        """Count sets that were made elsewhere."""
        self._sizes.update(sizes)

    def forget_sizes(self) -> None:
        """Begin to count anew, for a table that is read once more."""
        self._sizes.clear()

    def n_sets_in_words(self) -> str:
        """Return how many sets there are, as the beginning of a sentence."""
        n_sets = self._sizes.total()
        return f"{n_sets:,} {'set is' if n_sets == 1 else 'sets are'}"

    def sizes_in_words(self) -> str:
        """Return how many sets have each size, such as "312 of 1 label, 88 of 2, 0 empty"."""
        if not self._sizes.total():
            return "the table has no rows"
        found = sorted(size for size, count in self._sizes.items() if size and count)
        one_by_one = found if len(found) <= MOST_SIZES + 1 else found[:MOST_SIZES]
        parts = [f"{self._sizes[size]:,} of {size}" for size in one_by_one]
        if parts:
            parts[0] += " label" if one_by_one[0] == 1 else " labels"
        if rest := found[len(one_by_one) :]:
            parts.append(f"{sum(self._sizes[size] for size in rest):,} of {rest[0]} to {rest[-1]}")
        return ", ".join([*parts, f"{self._sizes[0]:,} empty"])

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
