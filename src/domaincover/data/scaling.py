"""Features brought to one scale, as learned from the training rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Scaling(NamedTuple):
    """Mean and standard deviation of every feature; a constant feature keeps its scale."""

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]

    @classmethod
    def of(cls, examples: NDArray[Any]) -> Scaling:
        """Learn the scale from examples."""
        mean, deviation = examples.mean(axis=0, dtype=np.float64), examples.std(axis=0, dtype=np.float64)
        return cls(mean.astype(np.float32), np.where(deviation > 0, deviation, 1).astype(np.float32))

    def apply(self, examples: NDArray[Any]) -> NDArray[np.float32]:
        """Return the examples with mean 0 and deviation 1, as float32."""
        scaled = np.subtract(examples, self.mean, dtype=np.float32)
        scaled /= self.deviation
        return scaled
