"""The data sets of the study by name, with the paper's sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset
from domaincover.data.synthetic import Covariance, GaussianDomains
from domaincover.errors import InputError

if TYPE_CHECKING:
    from torch import nn

SYNTHETIC_NAME = re.compile(r"synthetic-(\d{1,4})(-random)?")


@dataclass(frozen=True)
class StudyDataset:
    """Where the examples come from, how they are split, and the perceptron's hidden units."""

    name: str
    source: GaussianDomains
    hidden: int
    n_train_domains: int = 25
    n_unseen_domains: int = 25
    max_train_rows: int = 2_000
    max_test_rows: int = 1_000
    trains_whole_networks = False

    @property
    def seeds_per_stack(self) -> int:
        """How many seeds train together: all share memory, and an interruption loses a stack."""
        return max(1, min(20, 1_000 // len(np.asarray(self.source.mean))))

    def load(self, rng: np.random.Generator) -> DomainDataset:
        """Draw the examples: as many domains, and rows of each, as the split can use."""
        n_domains = self.n_train_domains + self.n_unseen_domains
        return self.source.sample(n_domains, self.max_train_rows + self.max_test_rows, rng)

    def encode(
        self,
        examples: NDArray[Any],
        train_rows: NDArray[np.int64],  # noqa: ARG002 - numbers have their scale already
        n_labels: int,
    ) -> tuple[Any, Callable[[np.random.Generator], nn.Module]]:
        """Return the examples as they are, and what makes a network on them."""
        from domaincover.networks.perceptrons import perceptron

        return examples, lambda rng: perceptron(examples.shape[1], self.hidden, n_labels, rng)


def synthetic_name(n_features: int, covariance: Covariance) -> str:
    """Return the name of a synthetic data set: synthetic-10, synthetic-50-random."""
    return f"synthetic-{n_features}" + ("-random" if covariance == "random" else "")


def study_dataset(name: str) -> StudyDataset:
    """Find a data set by its name."""
    found = SYNTHETIC_NAME.fullmatch(name)
    if not found:
        raise InputError(f"no data set {name!r}; there are synthetic-10, synthetic-50, and both with -random.")
    n_features = int(found[1])
    source = GaussianDomains.of_paper(n_features, "random" if found[2] else "shared")
    return StudyDataset(name, source, hidden=n_features // 2)
