"""The paper's synthetic Gaussian domains, in which a label shifts the mean by a common and a domain-specific part.

Z_e ~ U[low, high], Y ~ Bernoulli(1/2), X = Y·(mean + Z_e·direction) + N(0, Σ_e).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from domaincover.data.dataset import DomainDataset
from domaincover.errors import InputError, check_choice
from domaincover.options import Covariance

SPREAD_OF_DEVIATIONS = 0.05  # of a domain's standard deviations under random covariance (the paper's)


@dataclass(frozen=True, eq=False)
class GaussianDomains:
    """Generator of Gaussian domains; `mean` and `direction` have one entry per feature."""

    mean: ArrayLike
    direction: ArrayLike
    low: float
    high: float
    deviation: float
    covariance: Covariance = "shared"

    def __post_init__(self) -> None:
        if np.ndim(self.mean) != 1 or np.shape(self.mean) != np.shape(self.direction):
            raise InputError(
                f"mean and direction need one entry per feature each, got shapes {np.shape(self.mean)} "
                f"and {np.shape(self.direction)}."
            )
        if np.size(self.mean) == 0 or not np.isfinite(np.array([self.mean, self.direction], dtype=float)).all():
            raise InputError("mean and direction need at least one feature, and finite numbers only.")
        if not -np.inf < self.low <= self.high < np.inf:
            raise InputError(f"the range of the domains must not be empty or infinite, got {self.low} to {self.high}.")
        if not 0 < self.deviation < np.inf:
            raise InputError(f"deviation must be above 0 and finite, got {self.deviation}.")
        check_choice("covariance", self.covariance, get_args(Covariance))

    @classmethod
    def of_paper(cls, n_features: int, covariance: Covariance = "shared") -> GaussianDomains:
        """Return the paper's parameters for 10 or 50 features; other numbers use those of the nearer one."""
        if n_features < 2 or n_features % 2:
            raise InputError(f"the paper's direction is (1, …, -1, …): n_features must be even, got {n_features}.")
        small = n_features <= 30
        half = np.ones(n_features // 2)
        return cls(
            mean=np.full(n_features, 0.1 if small else 0.05),
            direction=np.concatenate([half, -half]),
            low=-0.5 if small else -0.3,
            high=0.5 if small else 0.3,
            deviation=0.2 if small else 0.25,
            covariance=covariance,
        )

    def positions(self, n_domains: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the positions Z of new domains."""
        return rng.uniform(self.low, self.high, n_domains)

    def means(self, positions: ArrayLike) -> NDArray[np.float64]:
        """Return the mean of both labels at the given positions, shape (domains, labels, features)."""
        mean, direction = np.asarray(self.mean, dtype=float), np.asarray(self.direction, dtype=float)
        shift = mean + np.multiply.outer(np.asarray(positions, dtype=float), direction)
        return np.stack([np.zeros_like(shift), shift], axis=1)

    def sample(self, n_domains: int, n_per_domain: int, rng: np.random.Generator) -> DomainDataset:
        """Draw domains and `n_per_domain` examples from each, as float32."""
        return self.sample_at(self.positions(n_domains, rng), n_per_domain, rng)

    def sample_at(self, positions: ArrayLike, n_per_domain: int, rng: np.random.Generator) -> DomainDataset:
        """Draw `n_per_domain` examples from domains at the given positions, as float32."""
        n_domains = np.size(positions)
        if min(n_domains, n_per_domain) < 1:
            raise InputError(f"at least one domain and one example are needed, got {n_domains} and {n_per_domain}.")
        shift = self.means(positions)[:, 1].astype(np.float32)
        n_features = shift.shape[1]
        labels = rng.integers(0, 2, (n_domains, n_per_domain))
        noise = self._noise(n_domains, n_per_domain, n_features, rng)
        noise += labels[:, :, None].astype(np.float32) * shift[:, None, :]
        return DomainDataset(
            noise.reshape(-1, n_features),
            labels.reshape(-1),
            np.repeat(np.arange(n_domains), n_per_domain),
            label_names=(0, 1),
            domain_names=tuple(range(n_domains)),
        )

    def _noise(self, n_domains: int, n: int, n_features: int, rng: np.random.Generator) -> NDArray[Any]:
        noise = rng.standard_normal((n_domains, n, n_features), dtype=np.float32)
        if self.covariance == "shared":
            noise *= np.float32(self.deviation)
            return noise
        deviations = rng.normal(self.deviation, SPREAD_OF_DEVIATIONS, (n_domains, n_features))
        rotated = deviations[:, :, None] * random_rotations(n_domains, n_features, rng)
        # not matmul, whose rounding depends on the number of threads
        return np.einsum("eni,eij->enj", noise, rotated.astype(np.float32))


def random_rotations(n: int, n_features: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw uniform rotation matrices: QR of Gaussians with fixed signs (Mezzadri 2007) and determinant 1."""
    q, r = np.linalg.qr(rng.standard_normal((n, n_features, n_features)))
    q *= np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    q[:, :, 0] *= np.linalg.det(q)[:, None]
    return q
