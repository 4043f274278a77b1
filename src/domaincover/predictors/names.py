"""Labels and domains as codes, and codes as names; with the errors and warnings that scikit-learn expects."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.criteria import MISSING_LABEL
from domaincover.data.dataset import code_names, one_dimensional
from domaincover.data.identity import in_words, look_alikes
from domaincover.errors import InputError

MOST_NAMES = 5
ONLY_DOMAIN = "all"  # the domain name if none are given


def as_column(y: Any) -> Any:
    """Return y with one dimension; a single column is accepted with a warning, as in scikit-learn."""
    if isinstance(y, list) and y and all(type(row) is list and len(row) == 1 for row in y):
        y = np.asarray(y)
    if type(y).__module__.startswith("scipy.sparse"):
        raise InputError("y is sparse; pass labels as a list or an array.")
    if len(getattr(y, "shape", ())) != 2 or y.shape[1] != 1:
        return y
    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,).",
        DataConversionWarning,
        stacklevel=4,
    )
    return y.iloc[:, 0] if hasattr(y, "iloc") else np.asarray(y)[:, 0]


def coded_domains(domains: Any, n_rows: int) -> Any:
    """Return the codes and names of domains; without domains, all rows belong to one."""
    return code_names(np.full(n_rows, ONLY_DOMAIN) if domains is None else domains, "domains", n_rows)


def label_codes(y: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes; raise for unknown labels."""
    import pandas as pd

    y = one_dimensional(as_column(y), "labels")
    kind = None if y.dtype.kind == classes.dtype.kind else object  # pandas would compare 2⁶³ and 2⁶³ + 1 as floats
    known, given = (pd.Index(names, dtype=kind, tupleize_cols=False) for names in (classes, y))
    codes = known.get_indexer(given)
    if (codes < 0).any():
        unknown = ", ".join(repr(label) for label in islice(dict.fromkeys(y[codes < 0].tolist()), MOST_NAMES))
        alike = look_alikes(dict.fromkeys(y[codes < 0].tolist()), classes.tolist())
        said = f"; {in_words(alike)}" if alike else ""
        raise InputError(f"y holds labels that training did not: {unknown}; the model knows {classes.tolist()}{said}.")
    return codes.astype(np.int64)


def known_label_codes(y: Any, classes: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Return the position of each label among the classes, `MISSING_LABEL` where it is None or NaN."""
    import pandas as pd

    codes = np.full(n_rows, MISSING_LABEL, dtype=np.int64)
    if y is None:
        return codes
    if n_rows_of(y) != n_rows:
        raise InputError(f"X has {n_rows} rows and y {n_rows_of(y)}; give y a missing value where unknown.")
    y = as_column(y)
    if len(getattr(y, "shape", (n_rows,))) != 1:
        raise InputError(f"labels must have one dimension, got shape {y.shape}.")
    values = pd.Series(y.to_numpy() if hasattr(y, "to_numpy") else list(y), dtype=object)
    known = values.notna().to_numpy()
    if known.any():
        codes[known] = label_codes(values[known].infer_objects().to_numpy(), classes)
    return codes


def to_label_lists(sets: ArrayLike, classes: Iterable[Any]) -> list[list[Any]]:
    """Return the labels in each set as a list.

    >>> to_label_lists([[True, False, True], [False, False, False]], ["cat", "dog", "owl"])
    [['cat', 'owl'], []]
    """
    sets, names = np.asarray(sets, dtype=bool), as_names(tuple(classes))
    if sets.ndim != 2 or sets.shape[1] != len(names):
        raise InputError(f"sets must have a column for each of {len(names)} classes, got shape {sets.shape}.")
    _, label = np.nonzero(sets)
    ends = np.cumsum(sets.sum(axis=1))
    return [part.tolist() for part in np.split(names[label], ends)[:-1]]


def as_names(names: tuple[Any, ...]) -> NDArray[Any]:
    """Return names as an array of their own type, with text as objects as in scikit-learn."""
    kinds = {type(name) for name in names}
    plain = not any(issubclass(kind, tuple | str | bytes) for kind in kinds)
    array = np.array(names) if len(kinds) == 1 and plain else None
    if array is not None and array.dtype != object and {type(name) for name in array.tolist()} == kinds:
        return array
    return np.fromiter(names, dtype=object, count=len(names))


def n_rows_of(X: Any) -> int:
    """Return the number of rows of an array, a table or a list."""
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def check_fitted(model: Any) -> None:
    """Raise scikit-learn's error where a model is not fitted."""
    if not model.__sklearn_is_fitted__():
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(model).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
            "using this estimator."
        )
