"""A network in two parts: what turns an example into features, and what turns features into scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from domaincover.networks.image_settings import USUAL


class Scorer(nn.Module):
    """Scores examples, (example, …) to (example, label): `head(backbone(examples))`."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, examples: Tensor) -> Tensor:
        """Return one score per label."""
        scores: Tensor = self.head(self.backbone(examples))
        return scores


class Normalised(nn.Module):
    """A network of the user's own on images: bytes are divided and normalised as for ImageNet's networks first."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(USUAL["mean"]).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(USUAL["std"]).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return one score per label."""
        scores: Tensor = self.network((images / 255 - self.mean) / self.std)
        return scores
