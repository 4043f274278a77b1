"""The features that labels of a new domain are learned by: a table's encoded columns, or a network's last features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.encoding import TableEncoder, learned_rows
from domaincover.errors import InputError
from domaincover.estimators.calibrated import Fitted
from domaincover.estimators.scorer_fits import taken
from domaincover.predictors.promised_predictor import encoded_by, last_features, reads_sources


class LabelFeatures(NamedTuple):
    """Rows, and what encodes them; without an encoder, it is the scorer of each part that gives features."""

    X: Any
    encoder: TableEncoder | None

    @classmethod
    def of(cls, X: Any, scored_by: Sequence[Fitted]) -> LabelFeatures:
        """Fit an encoder of tables to the rows that these parts calibrate."""
        if reads_sources(scored_by[0][0]):
            return cls(X, None)
        rows = np.sort(np.concatenate([part.calibrate for _, part in scored_by]))
        try:
            return cls(X, TableEncoder().fit(learned_rows(taken(X, rows))))
        except (InputError, ValueError, TypeError):  # texts, or a sparse matrix, which the scorer's own pipeline reads
            return cls(X, None)

    def encoded(self, model: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the features of some rows as they are."""
        own = taken(self.X, rows)
        return last_features(model, own) if self.encoder is None else encoded_by(self.encoder, own)
