"""Compute scores in blocks, without gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.data.examples import LazyExamples, row_blocks
from domaincover.training.pools import LazyPool


def score(network: nn.Module, examples: NDArray[Any] | LazyExamples, rows_at_once: int = 65_536) -> NDArray[Any]:
    """Return the network's scores, (example, label); unreadable examples score infinity for every label."""
    network.eval()
    weights = next(network.parameters())
    return score_blocks(network, examples, weights.device, weights.dtype, rows_at_once)


@torch.no_grad()
def score_blocks(
    network: Callable[[Tensor], Tensor],
    examples: NDArray[Any] | LazyExamples,
    device: torch.device | str,
    dtype: torch.dtype = torch.float32,
    rows_at_once: int = 65_536,
) -> NDArray[Any]:
    """Return scores computed in blocks, without gradient; lazy examples are read on demand."""
    if not isinstance(examples, LazyExamples):
        rows = row_blocks(len(examples), rows_at_once)
        blocks = [network(torch.as_tensor(examples[some[0] : some[-1] + 1]).to(device, dtype)).cpu() for some in rows]
        return torch.cat(blocks).numpy()
    scores = []
    for block in examples.blocks(row_blocks(len(examples), LazyPool.rows_at_once)):
        some = network(torch.from_numpy(block.values).to(device)).float().cpu()
        if block.readable is not None:  # nothing is known of them, so their sets contain every label
            some[torch.from_numpy(~block.readable)] = torch.inf
        scores.append(some)
    return torch.cat(scores).numpy()
