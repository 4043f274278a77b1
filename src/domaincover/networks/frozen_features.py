"""The features that a network which is not trained gives examples, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from domaincover.data.examples import LazyExamples
from domaincover.data.feature_cache import Compute


def features_by_block(
    backbone: nn.Module,
    examples: LazyExamples,
    *,
    block_size: int = 64,
    lengths: NDArray[Any] | None = None,
    device: str | torch.device = "cpu",
) -> Compute:
    """Return what computes the features of given rows, as `FeatureCache.features` calls it.

    With `lengths`, such as those of texts, rows of about one length share a block, so that little of it is filled up;
    the longest come first, so that too little memory is known at once. Rows that cannot be read are NaN.
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
