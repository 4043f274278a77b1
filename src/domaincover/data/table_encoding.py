"""A table's columns as a numeric matrix, by what an encoder has learned; without scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import Categories, Kind, date_parts, plain_table, read_days, read_numbers
from domaincover.errors import InputError

FAR = 5.0  # standard deviations beyond which values grow logarithmically
LARGEST = np.finfo(np.float32).max


class TableEncoding:
    """What `TableEncoder` has learned, and how it turns tables into numbers."""

    scale: bool
    kinds_: dict[Any, Kind]
    spellings_: dict[Any, str]
    has_times_: list[Any]
    categories_: dict[Any, Categories]
    mean_: NDArray[np.float64]
    deviation_: NDArray[np.float64]
    marked_: NDArray[np.bool_]

    def encode(self, X: Any) -> NDArray[np.float32]:
        """Encode like `transform`, without validation, part of a validated table."""
        X = self._as_fitted(X)
        numbers = self._numbers(X)
        parts = [self._scaled(numbers) if self.scale else _as_single(numbers)]
        if self.scale and self.marked_.any():
            parts.append(np.isnan(numbers[:, self.marked_]).astype(np.float32))
        parts += [_one_hot(levels.codes(X[name]), len(levels.levels)) for name, levels in self.categories_.items()]
        return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts, axis=1)

    @property
    def n_features_out(self) -> int:
        """Number of columns of the encoded matrix."""
        n_marked = int(self.marked_.sum()) if self.scale else 0
        return len(self.mean_) + n_marked + sum(len(levels.levels) for levels in self.categories_.values())

    def _of_kind(self, *kinds: Kind) -> list[Any]:
        return [name for name, kind in self.kinds_.items() if kind in kinds]

    def _as_fitted(self, X: Any) -> Any:
        """Return a table if `fit` was given one, else an array; scikit-learn has warned if the two differ."""
        if not isinstance(X, pd.DataFrame):
            return pd.DataFrame(X, columns=list(self.kinds_)) if self.kinds_ else X
        if not self.kinds_:
            return np.stack([read_numbers(X[name]) for name in X], axis=1)
        absent = [name for name in self.kinds_ if name not in X]  # scikit-learn checks only names that are text
        if absent:
            raise InputError(f"the table has no column {absent[0]!r}, which the model was fitted on.")
        spellings = getattr(self, "spellings_", {})  # which older models lack
        return plain_table(X, spellings) if spellings else X

    def _numbers(self, X: Any) -> NDArray[Any]:
        """Return numbers, booleans and parts of dates as one matrix, with missing values as NaN."""
        if not isinstance(X, pd.DataFrame):
            return np.asarray(X) if np.asarray(X).dtype.kind == "f" else np.asarray(X, dtype=np.float64)
        columns: list[NDArray[Any]] = []
        for name in self._of_kind("number", "boolean", "date"):
            if self.kinds_[name] == "date":
                columns += date_parts(read_days(X[name]), name in self.has_times_)
            else:
                columns.append(read_numbers(X[name]))
        return np.stack(columns).T if columns else np.empty((len(X), 0))

    def _scaled(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """Standardise; compress values beyond `FAR` standard deviations, and replace missing values by the mean."""
        kind = np.float32 if numbers.dtype == np.float32 else np.float64
        with np.errstate(over="ignore", invalid="ignore"):  # overflows are compressed below
            scaled = np.subtract(numbers, self.mean_.astype(kind))
            scaled *= (1 / self.deviation_).astype(kind)
            if scaled.min(initial=0) >= -FAR and scaled.max(initial=0) <= FAR:  # no extreme or missing values
                return scaled.astype(np.float32, copy=False)
        flat = scaled.reshape(-1, order="A")  # a view by rows or columns, since a new array lies together
        unusual = np.flatnonzero(~(np.abs(flat) <= FAR))  # extreme or missing
        flat[unusual] = _compressed(flat[unusual])
        return scaled.astype(np.float32, copy=False)


def _as_single(numbers: NDArray[Any]) -> NDArray[np.float32]:
    """Return numbers as float32, clipped to its range."""
    if numbers.dtype == np.float32:
        return numbers
    return np.clip(numbers, -LARGEST, LARGEST).astype(np.float32)


def _compressed(scaled: NDArray[Any]) -> NDArray[Any]:
    """Let values beyond `FAR` grow logarithmically, and replace missing values by the mean, 0."""
    size = np.minimum(np.abs(scaled), LARGEST)
    compressed = np.where(size > FAR, np.copysign(FAR + np.log1p(np.maximum(size - FAR, 0)), scaled), scaled)
    return np.nan_to_num(compressed, copy=False)


def _one_hot(codes: NDArray[np.int64], n_levels: int) -> NDArray[np.float32]:
    return (codes[:, None] == np.arange(n_levels)).astype(np.float32)
