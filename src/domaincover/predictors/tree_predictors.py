"""Trees as a classifier of tables, and a table's encoding before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.columns import read_numbers
from domaincover.errors import InputError
from domaincover.predictors.forest import Forest
from domaincover.predictors.label_scores import ReadsColumns
from domaincover.predictors.names import check_fitted


class TreesPredictor:
    """Probabilities of a forest, from an array, or from a table of numbers by the names of its columns."""

    classes_: NDArray[Any]
    forest_: Forest
    reads_numbers = True  # and no text, so a table needs no encoder

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label, examples × labels in the order of `classes_`."""
        check_fitted(self)
        return self.forest_.probabilities(self._numbers(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each example."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen in `fit`."""
        return self.forest_.n_features

    def _numbers(self, X: Any) -> NDArray[Any]:
        if not isinstance(X, pd.DataFrame):
            X = np.asarray(X)
            return X if X.dtype.kind == "f" else X.astype(np.float64)
        names = getattr(self, "feature_names_in_", X.columns)
        if not set(names) <= set(X.columns):  # LightGBM keeps names without blanks
            X = X.rename(columns=lambda name: str(name).replace(" ", "_"))
        if absent := [name for name in names if name not in X]:
            raise InputError(f"the table has no column {str(absent[0])!r}, which the model was fitted on.")
        return np.stack([read_numbers(X[name]) for name in names], axis=1).astype(np.float64)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    def __sklearn_clone__(self) -> Any:
        """Say what is needed to fit; what can be fitted again has a `clone` of its own."""
        package = {"LGBMClassifier": "lightgbm", "XGBClassifier": "xgboost"}[vars(self)["_saved_as"]]
        raise InputError(f"{package} is not installed, and the model is to be fitted: pip install {package}.")


class NumbersPredictor(TreesPredictor):
    """Numbers of a forest that a regressor fitted."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the number of each example."""
        check_fitted(self)
        return self.forest_.numbers(self._numbers(X))


class PipelinePredictor(ReadsColumns):
    """A table's encoding, and trees that predict from its numbers."""

    steps: list[tuple[str, Any]]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each example, or its number."""
        (_, encoding), (_, trees) = self.steps
        return trees.predict(encoding.encode(X))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each label, examples × labels in the order of `classes_`."""
        (_, encoding), (_, trees) = self.steps
        return trees.predict_proba(encoding.encode(X))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return self.steps[-1][1].classes_

    @property
    def _reader(self) -> Any:
        return self.steps[0][1]

    def __getitem__(self, place: int) -> Any:
        return self.steps[place][1]
