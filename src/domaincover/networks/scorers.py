"""A network in two parts: what turns an example into features, and what turns features into scores."""

from __future__ import annotations

from torch import Tensor, nn


class Scorer(nn.Module):
    """Scores examples, (example, …) to (example, label): `head(backbone(examples))`."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, examples: Tensor) -> Tensor:
        """Return one score per label."""
        scores: Tensor = self.head(self.backbone(examples))
        return scores
