"""What a network classifier asks of its `network`: which examples it reads, and how its network is made."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor, nn


class NetworkInputs:
    """Base class of networks on tables, images and texts; settings only, so that it needs no torch."""

    is_dense: ClassVar[bool] = False  # layers and ReLUs, which numpy scores
    reads_sources: ClassVar[bool] = False  # files or texts, some of which may be unreadable

    @property
    def is_small(self) -> bool:
        """Whether the entire network is trained in seconds, so that a default schedule can be long."""
        return False

    @abstractmethod
    def stacks(self, device: str) -> bool:
        """Whether several networks are trained as one stack."""

    @abstractmethod
    def check(self) -> None:
        """Raise if settings are invalid."""

    @abstractmethod
    def device(self, device: str) -> str:
        """Return the device to train on."""

    @abstractmethod
    def checked(self, model: Any, X: Any, *, reset: bool) -> Any:
        """Validate examples, or learn what later ones must be like."""

    @abstractmethod
    def readable(self, model: Any, X: Any) -> NDArray[np.bool_] | None:
        """Return a mask of readable examples; None means all."""

    @abstractmethod
    def fitted_encoder(self, X: Any, device: str, name: str = "", standardize: bool = True) -> Any:
        """Return an encoder fitted to the examples."""

    @abstractmethod
    def make(self, encoder: Any, n_labels: int, rng: np.random.Generator) -> nn.Module:
        """Return an initialised network."""

    @abstractmethod
    def tensors(self, network: nn.Module) -> dict[str, Any]:
        """Return a network's tensors by name."""

    @abstractmethod
    def rebuilt(self, encoder: Any, n_labels: int, tensors: Mapping[str, Tensor], name: str) -> nn.Module:
        """Rebuild a network from saved tensors."""

    @abstractmethod
    def unread_in_words(self, X: Any, unread: NDArray[np.bool_]) -> str:
        """Describe the examples with infinite scores."""
