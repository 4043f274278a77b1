"""Train several networks of one architecture as a single module."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from domaincover.errors import InputError
from domaincover.networks.features import has_batch_statistics, mixes_examples, one_at_a_time, with_features

# Elementwise modules without parameters: they work on a stack unchanged.
ELEMENTWISE = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Identity)


def stack(networks: Sequence[nn.Module]) -> Stack:
    """Stack networks of one architecture: (replica, example, …) to (replica, example, label).

    Replica r computes the same as `networks[r]`, with its own weights. A single network may be any module; several
    must be sequences of linear layers and activations, or else support `torch.func.vmap`.
    """
    if _are_plain(networks):
        return _BatchedLayers(networks)
    if len(networks) == 1:
        return _Alone(networks[0])
    if has_batch_statistics(networks[0]):
        raise InputError("networks with running statistics (BatchNorm) cannot be stacked; train them one at a time.")
    return _Vmapped(networks)


class Stack(nn.Module):
    """Several networks as one module, with parameters stacked along a leading axis."""

    owns_parameters = True  # False if shared with the original network

    def by_replica(self, values: Tensor, parameter: Tensor) -> Tensor:
        """Reshape one value per replica to broadcast with a stacked parameter."""
        return values.to(parameter.device).view(-1, *[1] * (parameter.ndim - 1))

    @abstractmethod
    def with_features(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores, and the input of each network's last linear layer: (replica, example, feature)."""

    @abstractmethod
    def of_replica(self, replica: int, examples: Tensor) -> Tensor:
        """Return the scores of one network, (example, label)."""

    def write_back(self) -> None:
        """Copy the stack's weights to the original networks, unless they are shared."""


class _Alone(Stack):
    """A stack of one network, which shares its weights."""

    owns_parameters = False

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, examples: Tensor) -> Tensor:
        scores: Tensor = self.network(examples[0])
        return scores[None]

    def with_features(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        scores, features = with_features(self.network, lambda: self.network(examples[0]))
        return scores[None], features[None]

    def by_replica(self, values: Tensor, parameter: Tensor) -> Tensor:  # noqa: ARG002 - no leading axis here
        return values[0]

    def of_replica(self, replica: int, examples: Tensor) -> Tensor:  # noqa: ARG002
        scores: Tensor = self.network(examples)
        return scores


class _BatchedLayers(Stack):
    """Linear layers as batched matrix products, at a third of vmap's cost for small networks."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        columns = zip(*map(tuple, networks), strict=True)  # type: ignore[arg-type]
        self.layers = nn.Sequential(
            *(_BatchedLinear(layers) if isinstance(layers[0], nn.Linear) else layers[0] for layers in columns)
        )
        self._head = max(k for k, layer in enumerate(self.layers) if isinstance(layer, _BatchedLinear))

    def forward(self, examples: Tensor) -> Tensor:
        scores: Tensor = self.layers(examples)
        return scores

    def with_features(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        features = scores = examples
        for number, layer in enumerate(self.layers):
            features = scores if number == self._head else features
            scores = layer(scores)
        return scores, features

    def of_replica(self, replica: int, examples: Tensor) -> Tensor:
        for layer in self.layers:
            is_linear = isinstance(layer, _BatchedLinear)
            examples = layer.of_replica(replica, examples) if is_linear else layer(examples)  # type: ignore[operator]
        return examples

    def write_back(self) -> None:
        for layer in self.layers:
            if isinstance(layer, _BatchedLinear):
                layer.write_back()


class _BatchedLinear(nn.Module):
    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self._originals = tuple(layers)  # a tuple, so that torch does not register them as submodules
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]).contiguous())
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, examples: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, examples, self.weight)

    def of_replica(self, replica: int, examples: Tensor) -> Tensor:
        return torch.addmm(self.bias[replica], examples, self.weight[replica])

    @torch.no_grad()
    def write_back(self) -> None:
        for original, weight, bias in zip(self._originals, self.weight, self.bias, strict=True):
            original.weight.copy_(weight.T)
            original.bias.copy_(bias[0])


class _Vmapped(Stack):
    """Any architecture that supports vmap."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self._originals = tuple(networks)
        parameters, self._constants = stack_module_state(list(networks))
        self._names = tuple(parameters)
        self._stacked = nn.ParameterList(
            nn.Parameter(stacked.detach(), requires_grad=networks[0].get_parameter(name).requires_grad)
            for name, stacked in parameters.items()
        )

    def train(self, mode: bool = True) -> _Vmapped:
        for original in self._originals:
            original.train(mode)
        return super().train(mode)

    def forward(self, examples: Tensor) -> Tensor:
        scores: Tensor = self._mapped(self._score, examples)
        return scores

    def with_features(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        def both(*given: Any) -> tuple[Tensor, Tensor]:
            return with_features(self._originals[0], lambda: self._score(*given))

        scores, features = self._mapped(both, examples)
        return scores, features

    def _score(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], examples: Tensor) -> Tensor:
        scores: Tensor = functional_call(self._originals[0], (parameters, buffers), (examples,))
        return scores

    def _mapped(self, function: Callable[..., Any], examples: Tensor) -> Any:
        """Apply a function of parameters, buffers and examples to each replica."""
        stacked = dict(zip(self._names, self._stacked, strict=True))
        return vmap(function, randomness="different")(stacked, self._constants, examples)

    def of_replica(self, replica: int, examples: Tensor) -> Tensor:
        parameters = dict(zip(self._names, (stacked[replica] for stacked in self._stacked), strict=True))
        buffers = {name: stacked[replica] for name, stacked in self._constants.items()}
        return self._score(parameters, buffers, examples)

    @torch.no_grad()
    def write_back(self) -> None:
        for name, stacked in zip(self._names, self._stacked, strict=True):
            for original, weights in zip(self._originals, stacked, strict=True):
                original.get_parameter(name).copy_(weights)


class WithFeatures(nn.Module):
    """A stack that returns scores and features; with batch statistics, domains are passed one at a time."""

    def __init__(self, stacked: Stack) -> None:
        super().__init__()
        self.stacked = stacked
        self._one_by_one = mixes_examples(stacked)

    def forward(self, examples: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores and features."""
        if self._one_by_one:
            return one_at_a_time(self.stacked.with_features, examples, domains)
        return self.stacked.with_features(examples)


def _are_plain(networks: Sequence[nn.Module]) -> bool:
    return all(
        type(network) is nn.Sequential
        and all(parameter.requires_grad for parameter in network.parameters())
        and all(isinstance(layer, ELEMENTWISE) or _has_bias(layer) for layer in network)
        and any(_has_bias(layer) for layer in network)
        for network in networks
    )


def _has_bias(layer: nn.Module) -> bool:
    return type(layer) is nn.Linear and layer.bias is not None
