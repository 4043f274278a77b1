"""Features: what a network's last linear layer reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from domaincover.errors import InputError


def with_features(network: nn.Module, call: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Return the scores that a call of the network gives, and what the last linear layer to run in it has read.

    So any network has features and a head, however its parts are called.
    """
    read: list[Tensor] = []

    def take_note(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        read[:] = [inputs[0] if inputs else named["input"]]

    linear = [part for part in network.modules() if isinstance(part, nn.Linear)]
    hooks = [part.register_forward_pre_hook(take_note, with_kwargs=True) for part in linear]
    try:
        scores = call()
    finally:
        for hook in hooks:
            hook.remove()
    if not read or read[0].shape[0] != scores.shape[0]:
        raise InputError("features are what the last torch.nn.Linear reads of each example; this network has none.")
    return scores, read[0].flatten(1)


def mixes_examples(network: nn.Module) -> bool:
    """Tell whether an example's scores depend on the others in its batch, as with BatchNorm, also one that forgets."""
    return has_batch_statistics(network) or any(isinstance(part, _BatchNorm) for part in network.modules())


def has_batch_statistics(network: nn.Module) -> bool:
    """Tell whether a network keeps statistics of batches, as BatchNorm does."""
    return any(getattr(part, "running_mean", None) is not None for part in network.modules())


def one_at_a_time(
    forward: Callable[[Tensor], tuple[Tensor, Tensor]], examples: Tensor, domains: Tensor
) -> tuple[Tensor, Tensor]:
    """Return scores and features of a batch whose domains go through the network one after the other."""
    order = domains[0].argsort(stable=True)
    sizes = domains[0][order].unique_consecutive(return_counts=True)[1].tolist()
    outputs = [forward(part) for part in examples[:, order].split(sizes, dim=1)]
    back = order.argsort()
    scores, features = (torch.cat(parts, dim=1)[:, back] for parts in zip(*outputs, strict=True))
    return scores, features
