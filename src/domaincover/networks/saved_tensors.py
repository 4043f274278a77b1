"""Tensors of a file, and the network that they are for: names, shapes and types have to fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn


def check_tensors(own: Mapping[str, Any], saved: Mapping[str, Any], name: str) -> None:
    """Raise unless saved arrays or tensors fit those of a network."""
    faults = [f"{key!r} is not in the file" for key in own if key not in saved]
    faults += [f"{key!r} is not in the network" for key in saved if key not in own]
    for key in own.keys() & saved.keys():
        kinds = [f"{tuple(value.shape)} of {value.dtype}" for value in (saved[key], own[key])]
        if kinds[0] != kinds[1]:
            faults.append(f"{key!r} is {kinds[0]} in the file and {kinds[1]} in the network")
    if faults:
        raise InputError(f"{name} does not fit the network: {'; '.join(faults[:3])}.")


def copy_tensors(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Copy saved tensors into the network's own, some of which may be tied."""
    check_tensors(network.state_dict(), tensors, name)
    network.load_state_dict(dict(tensors))


def assign_tensors(network: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Replace all tensors on the meta device by saved ones, without copying."""
    from torch.nn import Parameter

    check_tensors({key: tensor for key, tensor in all_tensors(network).items() if tensor.is_meta}, tensors, name)
    for key, tensor in tensors.items():
        owner, _, leaf = key.rpartition(".")
        part = network.get_submodule(owner)
        setattr(part, leaf, Parameter(tensor) if leaf in part._parameters else tensor)


def all_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, including non-persistent ones such as positions."""
    tensors: dict[str, Tensor] = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return {key: tensor.detach() for key, tensor in tensors.items()}
