"""Train several networks of one architecture as a single module."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from domaincover.errors import InputError
from domaincover.networks.features import has_batch_statistics, mixes_examples, one_at_a_time, with_features

aten = torch.ops.aten

# Elementwise modules without parameters work on a stack unchanged. For each, the gradient with respect to its input,
# given the module, the gradient with respect to its output, its input and its output.
ELEMENTWISE: dict[type[nn.Module], Callable[[Any, Tensor, Tensor, Tensor], Tensor]] = {
    nn.ReLU: lambda _, slope, __, after: aten.threshold_backward(slope, after, 0),
    nn.GELU: lambda gelu, slope, before, _: aten.gelu_backward(slope, before, approximate=gelu.approximate),
    nn.SiLU: lambda _, slope, before, __: aten.silu_backward(slope, before),
    nn.Tanh: lambda _, slope, __, after: aten.tanh_backward(slope, after),
    nn.Sigmoid: lambda _, slope, __, after: aten.sigmoid_backward(slope, after),
    nn.Identity: lambda _, slope, *__: slope,
}
NO_FEATURES = (
    "MMD and CORAL compare learned features, and this network has no trained layer before its last linear one; "
    "add a hidden layer, or train the entire network."
)


class Pass(NamedTuple):
    """A pass in training: outputs, and a function that accumulates the parameters' gradients from those of outputs."""

    outputs: tuple[Tensor, ...]  # scores; features, if asked for
    backward: Callable[[Sequence[Tensor]], None]


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
    """Linear layers as batched matrix products, at a third of vmap's cost for small networks.

    Values between layers are (replica, feature, example): matrix products of small networks are up to five times as
    fast as with examples before features.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        columns = zip(*map(tuple, networks), strict=True)  # type: ignore[arg-type]
        self.layers = nn.Sequential(
            *(_BatchedLinear(layers) if isinstance(layers[0], nn.Linear) else layers[0] for layers in columns)
        )
        linear = [k for k, layer in enumerate(self.layers) if isinstance(layer, _BatchedLinear)]
        self._first, self._head = linear[0], linear[-1]

    def forward(self, examples: Tensor) -> Tensor:
        return self._values(examples)[-1].transpose(1, 2)

    def with_features(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        values = self._values(examples)
        return values[-1].transpose(1, 2), values[self._head].transpose(1, 2)

    def by_hand(self, examples: Tensor, with_features: bool) -> Pass:
        """Return a pass without autograd, whose overhead is a third of a small network's training time."""
        if with_features and self._head == self._first:
            raise InputError(NO_FEATURES)
        with torch.no_grad():
            values = self._values(examples)
        outputs = values[-1].transpose(1, 2), values[self._head].transpose(1, 2)
        return Pass(outputs[: 1 + with_features], partial(self._backward, values))

    @torch.no_grad()
    def _backward(self, values: list[Tensor], slopes: Sequence[Tensor]) -> None:
        """Add to the gradients of all parameters, given those of scores and, if given, features."""
        slope, layers = slopes[0].transpose(1, 2), tuple(self.layers)
        for number in range(len(layers) - 1, self._first - 1, -1):
            layer, before, after = layers[number], values[number], values[number + 1]
            if not isinstance(layer, _BatchedLinear):
                slope = ELEMENTWISE[type(layer)](layer, slope, before, after)
                continue
            layer.add_gradient(slope, before)
            if number > self._first:
                slope = torch.bmm(layer.weight.transpose(1, 2), slope)
            if number == self._head and len(slopes) > 1:
                slope = slope + slopes[1].transpose(1, 2)

    def _values(self, examples: Tensor) -> list[Tensor]:
        """Return the input of every layer, and the scores: (replica, feature, example)."""
        values = [examples.transpose(1, 2)]
        for layer in self.layers:
            values.append(layer(values[-1]))
        return values

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
    """Linear layers of several networks, from (replica, input, example) to (replica, output, example)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self._originals = tuple(layers)  # a tuple, so that torch does not register them as submodules
        self.weight = nn.Parameter(torch.stack([layer.weight.detach() for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[:, None] for layer in layers]))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, self.weight, inputs)

    def add_gradient(self, slope: Tensor, inputs: Tensor) -> None:
        """Add to the gradients of weights and biases, given that of the outputs."""
        self.weight.grad.baddbmm_(slope, inputs.transpose(1, 2))  # type: ignore[union-attr]
        self.bias.grad.add_(slope.sum(2, keepdim=True))  # type: ignore[union-attr]

    def of_replica(self, replica: int, examples: Tensor) -> Tensor:
        return nn.functional.linear(examples, self.weight[replica], self.bias[replica, :, 0])

    @torch.no_grad()
    def write_back(self) -> None:
        for original, weight, bias in zip(self._originals, self.weight, self.bias, strict=True):
            original.weight.copy_(weight)
            original.bias.copy_(bias[:, 0])


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


class StackOutputs(nn.Module):
    """A stack's scores and, if asked for, features; with batch statistics, domains are then passed one at a time."""

    def __init__(self, stacked: Stack, with_features: bool) -> None:
        super().__init__()
        self.stacked, self._with_features = stacked, with_features
        self._one_by_one = with_features and mixes_examples(stacked)

    def forward(self, examples: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs."""
        if not self._with_features:
            return (self.stacked(examples),)
        if self._one_by_one:
            scores, features = one_at_a_time(self.stacked.with_features, examples, domains)
        else:
            scores, features = self.stacked.with_features(examples)
        if not features.requires_grad:
            raise InputError(NO_FEATURES)
        return scores, features

    def training_pass(self, examples: Tensor, domains: Tensor) -> Pass:
        """Return the outputs, and how to go back from them to the parameters, which must have gradients to add to."""
        if isinstance(self.stacked, _BatchedLayers):
            return self.stacked.by_hand(examples, self._with_features)
        outputs = self(examples, domains)
        return Pass(outputs, partial(torch.autograd.backward, outputs))


def _are_plain(networks: Sequence[nn.Module]) -> bool:
    return all(
        type(network) is nn.Sequential
        and all(parameter.requires_grad for parameter in network.parameters())
        and all(_is_elementwise(layer) or _has_bias(layer) for layer in network)
        and any(_has_bias(layer) for layer in network)
        for network in networks
    )


def _is_elementwise(layer: nn.Module) -> bool:
    # in place, SiLU overwrites the input from which its gradient is computed
    return type(layer) in ELEMENTWISE and not (isinstance(layer, nn.SiLU) and layer.inplace)


def _has_bias(layer: nn.Module) -> bool:
    return type(layer) is nn.Linear and layer.bias is not None
