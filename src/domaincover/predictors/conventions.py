"""What scikit-learn expects of an estimator, without importing it before it is needed."""

from __future__ import annotations

from typing import Any

import numpy as np


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


def column_vector_warning() -> type[Warning]:
    """Return the category of the warning about labels in a column."""
    from sklearn.exceptions import DataConversionWarning

    return DataConversionWarning
