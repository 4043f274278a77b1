"""Which rows of a large table an encoder learns from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.disk_table import DiskTable, Rows

LEARNED_VALUES, LEARNED_ROWS = 20_000_000, 10_000  # so many values are learned from, or so many rows if that is more
MOST_TEXTS = 10_000  # of a column, that the evenly spaced rows lack


def learned_rows(X: Any) -> Any:
    """Return the rows to learn means, kinds and categories from, in memory: all of a small table.

    Of a large one these are evenly spaced rows, and the first row with each text that those lack: one text that is not
    a date tells that a column is not of dates. The rows are the same for a table in memory and on disk.
    """
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
    for places, column in _column_blocks(X, name):
        first = ~column.duplicated().to_numpy() & column.notna().to_numpy()
        for place, text in zip(places[first].tolist(), column[first].tolist(), strict=True):
            if text not in seen:
                seen.add(text)
                found.append(place)
        if len(found) >= MOST_TEXTS:
            break
    return np.array(found[:MOST_TEXTS], dtype=np.int64)


def _column_blocks(X: Any, name: Any) -> Iterator[tuple[Rows, pd.Series[Any]]]:
    if not isinstance(X, DiskTable):
        yield np.arange(len(X)), X[name]
        return
    for places, block in X[[name]].blocks():
        yield np.arange(places.start, places.stop) if isinstance(places, slice) else places, block[name]
