"""Features of networks: backbones with a head, and what the last linear layer reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from domaincover.data.examples import LazyExamples
from domaincover.errors import InputError

if TYPE_CHECKING:
    from domaincover.data.feature_cache import Compute


class Scorer(nn.Module):
    """A backbone with a head: (example, …) to one score per label."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, examples: Tensor) -> Tensor:
        """Return one score per label."""
        scores: Tensor = self.head(self.backbone(examples))
        return scores


def features_by_block(
    backbone: nn.Module,
    examples: LazyExamples,
    *,
    block_size: int = 64,
    lengths: NDArray[Any] | None = None,
    device: str | torch.device = "cpu",
) -> Compute:
    """Return a function that computes frozen features of given rows, for `FeatureCache.features`.

    With `lengths`, such as those of texts, rows of similar length share a block to reduce padding; the longest come
    first, so that a lack of memory shows at once. Rows that cannot be read are NaN.
    """

    def compute(rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        ordered = rows if lengths is None else rows[np.argsort(-lengths[rows], kind="stable")]
        blocks = [ordered[start : start + block_size] for start in range(0, len(ordered), block_size)]
        was_training = backbone.training
        backbone.to(device).eval()
        try:
            for some, block in zip(blocks, examples.blocks(blocks), strict=True):
                with torch.inference_mode():
                    features = backbone(torch.from_numpy(block.values).to(device)).float().cpu().numpy()
                if block.readable is not None:
                    features[~block.readable] = np.nan
                yield some, features
        finally:
            backbone.train(was_training)

    return compute


def with_features(network: nn.Module, call: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Return the scores of a call of the network, and the input of the last linear layer that ran in it."""
    read: list[Tensor] = []

    def store_input(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        read[:] = [inputs[0] if inputs else named["input"]]

    linear = [part for part in network.modules() if isinstance(part, nn.Linear)]
    hooks = [part.register_forward_pre_hook(store_input, with_kwargs=True) for part in linear]
    try:
        scores = call()
    finally:
        for hook in hooks:
            hook.remove()
    if not read or read[0].shape[0] != scores.shape[0]:
        raise InputError("features are the inputs of the last torch.nn.Linear; this network has none per example.")
    return scores, read[0].flatten(1)


def mixes_examples(network: nn.Module) -> bool:
    """Return whether scores depend on the other examples of a batch, or its statistics are kept (BatchNorm)."""
    return any(
        isinstance(part, _BatchNorm) or getattr(part, "running_mean", None) is not None for part in network.modules()
    )


def one_at_a_time(
    forward: Callable[[Tensor], tuple[Tensor, Tensor]], examples: Tensor, domains: Tensor
) -> tuple[Tensor, Tensor]:
    """Return scores and features of a batch, passing one domain at a time through the network."""
    order = domains[0].argsort(stable=True)
    sizes = domains[0][order].unique_consecutive(return_counts=True)[1].tolist()
    outputs = [forward(part) for part in examples[:, order].split(sizes, dim=1)]
    back = order.argsort()
    scores, features = (torch.cat(parts, dim=1)[:, back] for parts in zip(*outputs, strict=True))
    return scores, features
