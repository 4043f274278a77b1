"""Networks and trees as classifiers of tables, and a table's encoding before trees."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.criteria import Sets, sets_from_scores
from domaincover.data.columns import read_numbers
from domaincover.data.table_encoding import TableEncoding
from domaincover.data.tables import DiskTable
from domaincover.errors import InputError
from domaincover.networks.dense_layers import DenseLayers
from domaincover.predictors.calibrated_predictors import ReadsColumns
from domaincover.predictors.forest import Forest
from domaincover.predictors.set_predictor import MostLikelyLabel, SetPredictor, check_fitted
from domaincover.terminal.processes import in_threads, n_threads

ROWS_AT_ONCE = 16_384  # scored per block, so that encoded rows stay in the processor's cache


class NetworkPredictor(SetPredictor):
    """A table's columns as numbers, then layers that give one score per label."""

    standardize: bool
    encoder_: TableEncoding
    layers_: DenseLayers

    def label_scores(self, X: Any) -> NDArray[np.float32]:
        """Return the network's scores, examples × labels in the order of `classes_`."""
        check_fitted(self)
        X = self._checked(X)
        scores = np.empty((len(X), len(self.classes_)), dtype=np.float32)
        for places, block in X.blocks() if isinstance(X, DiskTable) else [(slice(None), X)]:
            scores[places] = self._scores_in_memory(block)
        unread: NDArray[np.bool_] = np.isposinf(scores[:, 0])
        if unread.any():
            warnings.warn(self._unread_in_words(X, unread), stacklevel=3)
        return scores

    def _scores_in_memory(self, X: Any) -> NDArray[np.float32]:
        scores = np.empty((len(X), len(self.classes_)), dtype=np.float32)
        rows = X.iloc if hasattr(X, "iloc") else X

        def fill(start: int) -> None:
            scores[start : start + ROWS_AT_ONCE] = self._score(rows[start : start + ROWS_AT_ONCE])

        in_threads(fill, range(0, len(X), ROWS_AT_ONCE), self._n_threads)
        return scores

    @property
    def _n_threads(self) -> int:
        """How many blocks are encoded and scored at once; scores do not depend on it."""
        return n_threads()

    def _checked(self, X: Any) -> Any:
        """Return the examples: a table with the model's columns."""
        return X

    def _score(self, part: Any) -> NDArray[np.float32]:
        return self.layers_.scores(self._encoded(part))

    def _encoded(self, X: Any) -> NDArray[np.float32]:
        """Return the network's inputs; reject missing values without standardisation, which would impute them."""
        encoded = self.encoder_.encode(X)
        if not self.standardize and np.isnan(encoded).any():
            raise InputError(
                "the inputs contain missing values (NaN), which standardize=False leaves as they are; impute them, or "
                "use standardize=True."
            )
        return encoded

    def _unread_in_words(self, X: Any, unread: NDArray[np.bool_]) -> str:  # noqa: ARG002
        return f"{int(unread.sum())} rows have infinite scores; their sets contain every label."

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "layers_")


class SetCoverPredictor(NetworkPredictor):
    """The sets of SET-COVER: labels whose scores reach their thresholds."""

    thresholds_: NDArray[np.float64]
    scores_are_margins = True  # the hinges give every label's score the same unit

    def predict_set(self, X: Any) -> Sets:
        """Return the sets as booleans, examples × labels in the order of `classes_`."""
        check_fitted(self)
        return sets_from_scores(self.label_scores(X), self.thresholds_.astype(np.float32))


class SingleLabelPredictor(MostLikelyLabel, NetworkPredictor):
    """Networks whose scores are log-probabilities."""

    def label_scores(self, X: Any) -> NDArray[np.float32]:
        """Return log-probabilities, examples × labels in the order of `classes_`; +∞ where one is unreadable."""
        scores = super().label_scores(X)
        unread = np.isposinf(scores)
        # In double precision and then in the scores' own, so that no library's exponential can be told from another's
        finite = np.where(unread, 0, scores).astype(np.float64)
        below = finite - finite.max(axis=1, keepdims=True, initial=-np.inf)
        found = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
        return np.where(unread, scores, found.astype(scores.dtype))


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
