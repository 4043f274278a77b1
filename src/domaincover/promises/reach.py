"""Which promise is within reach of a number of domains, before anything is fitted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.calibration.confidence import confidence_text, domains_needed
from domaincover.data.splits import n_held_out


class Reach(NamedTuple):
    """The domains that calibrate a promise: all but those held out to evaluate and those kept to train on."""

    n_domains: int
    hold_out_domains: float = 0.0
    n_to_train: int = 0

    @property
    def n_evaluate(self) -> int:
        """How many domains are held out to evaluate."""
        return n_held_out(self.n_domains, self.hold_out_domains) if self.hold_out_domains > 0 else 0

    @property
    def n_left(self) -> int:
        """How many domains calibrate."""
        return self.n_domains - self.n_evaluate - self.n_to_train

    @property
    def highest(self) -> str:
        """The highest confidence that they allow."""
        return confidence_text(self.n_left)

    def allows(self, confidence: float) -> bool:
        """Return whether a promise with this confidence is within reach."""
        return self.n_left >= domains_needed(confidence)


def domains_with_enough(counts: NDArray[Any], min_cell_size: int) -> NDArray[np.int64]:
    """Return in how many domains each label counts; `counts` are rows, domains × labels."""
    return (np.asarray(counts) >= min_cell_size).sum(axis=0)
