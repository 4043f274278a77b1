"""Tensors of a file, and the network that they are for: names, shapes and types have to fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from domaincover.networks.dense_layers import check_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn


def copy_tensors(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Copy saved tensors into the network's own, some of which may be tied."""
    check_tensors(network.state_dict(), tensors, name)
    network.load_state_dict(dict(tensors))


def assign_tensors(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Replace all tensors on the meta device by saved ones, without copying."""
    from torch import nn

    check_tensors({key: tensor for key, tensor in all_tensors(network).items() if tensor.is_meta}, tensors, name)
    for key, tensor in tensors.items():
        owner, _, leaf = key.rpartition(".")
        part = network.get_submodule(owner)
        setattr(part, leaf, nn.Parameter(tensor) if leaf in part._parameters else tensor)


def all_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, including non-persistent ones such as positions."""
    tensors: dict[str, Tensor] = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return {key: tensor.detach() for key, tensor in tensors.items()}
