"""Encode a table of numbers, booleans, dates and categories as a numeric matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from domaincover.data.columns import (
    MISSING,
    Categories,
    Kind,
    column_kind,
    date_names,
    has_times,
    plain_table,
    read_days,
    spellings_of,
)
from domaincover.data.table_encoding import TableEncoding
from domaincover.data.tables import DiskTable, Rows
from domaincover.errors import InputError

_SQUARABLE = 1e100
LEARNED_VALUES, LEARNED_ROWS = 20_000_000, 10_000  # so many values are learned from, or so many rows if that is more
MOST_TEXTS = 10_000  # of a column, that the evenly spaced rows lack


class TableEncoder(TransformerMixin, TableEncoding, BaseEstimator):
    """Encode a table as a float32 matrix for a network, or with `scale=False` for trees.

    Booleans become 0 and 1, durations seconds, dates a day number with their phase in the year, week and day. These
    are then standardised and extreme values are compressed; a missing value becomes the mean, with an indicator column
    if training had missing values. Categories are one-hot encoded; an unknown category is all zeros. Text columns with
    mostly distinct values, such as names and keys, are ignored. Text that writes numbers or dates, such as $1,200.50,
    12 % or 31/12/2020, with ? for missing values, is read as such if all of a column is written alike; `spellings_`
    remembers how.

    Parameters
    ----------
    scale : bool
        Whether to standardise numbers and impute missing values; False leaves both as they are, for trees.
    max_categories : int
        Maximum number of categories per column; the most frequent ones are kept.

    >>> table = pd.DataFrame({"age": [30.0, 50.0, None], "smoker": [True, False, True], "ward": ["A", "B", "A"]})
    >>> encoder = TableEncoder(scale=False).fit(table)
    >>> encoder.kinds_
    {'age': 'number', 'smoker': 'boolean', 'ward': 'category'}
    >>> encoder.transform(table)
    array([[30.,  1.,  1.,  0.],
           [50.,  0.,  0.,  1.],
           [nan,  1.,  1.,  0.]], dtype=float32)
    """

    def __init__(self, *, scale: bool = True, max_categories: int = 50) -> None:
        self.scale = scale
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> TableEncoder:  # noqa: ARG002 - scikit-learn's signature
        """Infer the kind of each column and learn its scale or categories."""
        X = checked_inputs(self, X, reset=True)
        table = X if isinstance(X, pd.DataFrame) else pd.DataFrame()  # arrays hold numbers only
        self.spellings_: dict[Any, str] = spellings_of(table)
        if self.spellings_:
            X = table = plain_table(table, self.spellings_)
        self.kinds_: dict[Any, Kind] = {name: column_kind(table[name], self.max_categories) for name in table}
        self.has_times_: list[Any] = [name for name in self._of_kind("date") if has_times(read_days(table[name]))]
        self.categories_: dict[Any, Categories] = {
            name: Categories.of(table[name], self.max_categories) for name in self._of_kind("category")
        }
        if self.kinds_ and set(self.kinds_.values()) == {"ignored"}:
            raise InputError("every column is text with mostly distinct values; there is nothing to learn from.")
        self._learn_scale(self._numbers(X))
        if self.kinds_:  # the parts of a date are missing together and need one indicator
            columns = self._of_kind("number", "boolean", "date")
            self.marked_ &= np.array([part == 0 for name in columns for part in range(len(self._parts_of(name)))], bool)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the encoded matrix: numbers, missing-value indicators, then one column per category."""
        check_is_fitted(self, "kinds_")
        return self.encode(checked_inputs(self, X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of the encoded matrix."""
        check_is_fitted(self, "kinds_")
        names = _check_feature_names_in(self, input_features)
        of_kinds = self._of_kind("number", "boolean", "date")
        numbers = [part for name in of_kinds for part in self._parts_of(name)] if self.kinds_ else list(names)
        marks = [f"{name} missing" for name, marked in zip(numbers, self.marked_, strict=True) if marked and self.scale]
        levels = [
            f"{name}={'missing' if level is MISSING else level}"
            for name, categories in self.categories_.items()
            for level in categories.levels
        ]
        return np.array([*numbers, *marks, *levels], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _parts_of(self, name: Any) -> list[str]:
        return date_names(name, name in self.has_times_) if self.kinds_[name] == "date" else [str(name)]

    def _learn_scale(self, numbers: NDArray[Any]) -> None:
        missing = np.isnan(numbers)
        n_known = np.maximum((~missing).sum(axis=0), 1)
        largest = np.abs(numbers).max(axis=0, initial=0, where=~missing).astype(np.float64)
        unit = np.where(largest > _SQUARABLE, largest, 1.0)  # so that neither sums nor squares overflow
        if (unit != 1).any():
            numbers = numbers / unit
        mean = np.sum(numbers, axis=0, dtype=np.float64, where=~missing) / n_known
        centred = np.where(missing, 0.0, numbers - mean)
        self.mean_, deviation = mean * unit, np.sqrt(np.einsum("ij,ij->j", centred, centred) / n_known) * unit
        constant = deviation <= 1e-12 * np.maximum(np.abs(self.mean_), 1e-300)
        self.deviation_ = np.where(constant, 1.0, deviation)
        self.marked_ = missing.any(axis=0)


def checked_inputs(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Validate the names and number of columns, or learn them; an array must be numeric, a table need not be."""
    table = as_table(X)
    if table is None:
        return validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan")
    if min(table.shape) == 0:
        raise InputError(f"the table has {len(table)} sample(s) and {table.shape[1]} feature(s); both are needed.")
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise InputError(f"the table has more than one column {twice!r}; rename all but one.")
    validate_data(estimator, table, reset=reset, skip_check_array=True)
    return table


def as_table(X: Any) -> pd.DataFrame | None:
    """Return a pandas, polars or Arrow table as a pandas table, None for arrays and lists."""
    if isinstance(X, pd.DataFrame):
        return X
    return X.to_pandas() if hasattr(X, "to_pandas") and hasattr(X, "columns") else None


def learned_rows(X: Any) -> Any:
    """Return the rows to learn means, kinds and categories from, in memory: all of a small table.

    Of a large one these are evenly spaced rows, and the first row with each text that those lack: one text that is not
    a date tells that a column is not of dates. The rows are the same for a table in memory and on disk.
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    n_rows, n_columns = X.shape
    rows = evenly_spaced(n_rows, max(LEARNED_VALUES // max(n_columns, 1), LEARNED_ROWS))
    if len(rows) == n_rows:
        return X.read() if isinstance(X, DiskTable) else X
    if not isinstance(X, DiskTable | pd.DataFrame):
        return X[rows]
    spaced = _taken(X, rows)
    lacking = [_rows_of_new_texts(X, name, spaced[name]) for name in spaced if _is_of_texts(spaced[name])]
    return _taken(X, np.unique(np.concatenate([rows, *lacking]))) if lacking else spaced


def evenly_spaced(n_rows: int, n_wanted: int) -> Rows:
    """Return the numbers of `n_wanted` evenly spaced rows, or of all if there are fewer.

    >>> evenly_spaced(10, 4), evenly_spaced(3, 4)
    (array([0, 2, 5, 7]), array([0, 1, 2]))
    """
    n_taken = min(n_rows, n_wanted)
    return np.arange(n_taken) * n_rows // max(n_taken, 1)


def _taken(X: Any, rows: Rows) -> pd.DataFrame:
    return X[rows].read() if isinstance(X, DiskTable) else X.iloc[rows]


def _is_of_texts(column: pd.Series[Any]) -> bool:
    """Return whether a column's kind depends on its texts: not where types say it, or where most texts differ."""
    if not (column.dtype == object or isinstance(column.dtype, pd.StringDtype)):
        return False
    try:
        return column.nunique() <= len(column) / 2
    except TypeError:  # lists and other objects, which are rejected later
        return False


def _rows_of_new_texts(X: Any, name: Any, known: pd.Series[Any]) -> NDArray[np.int64]:
    """Return the first rows of the texts that are not among the known ones."""
    seen, found = set(known.unique().tolist()), list[int]()
    for places, block in X[[name]].blocks() if isinstance(X, DiskTable) else [(slice(0, None), X[[name]])]:
        column = block[name].dropna()
        first = block[name].notna().to_numpy().nonzero()[0][~column.duplicated().to_numpy()] + places.start
        for place, text in zip(first.tolist(), column.drop_duplicates().tolist(), strict=True):
            if text not in seen:
                seen.add(text)
                found.append(place)
        if len(found) >= MOST_TEXTS:
            break
    return np.array(found[:MOST_TEXTS], dtype=np.int64)
