"""Train several networks of one architecture as a single module."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from domaincover.errors import InputError
from domaincover.networks.perceptrons import Perceptron

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

    Replica r computes the same as `networks[r]`, with its own weights. Only our own perceptrons and linear models are
    stacked: layers of other networks may be tied, frozen or have hooks. A single network may be any module, and is
    trained as it is.
    """
    if all(type(network) is Perceptron for network in networks):
        return _StackedPerceptrons(networks)  # type: ignore[arg-type]
    if len(networks) > 1:
        raise InputError("only perceptrons and linear models of domaincover train as a stack; train others one by one.")
    return _Alone(networks[0])


class Stack(nn.Module):
    """Several networks as one module, with parameters stacked along a leading axis."""

    owns_parameters = True  # False if shared with the original network

    def by_replica(self, values: Tensor, parameter: Tensor) -> Tensor:
        """Reshape one value per replica to broadcast with a stacked parameter."""
        return values.to(parameter.device).view(-1, *[1] * (parameter.ndim - 1))

    @abstractmethod
    def with_features(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores, and the input of each network's last linear layer: (replica, example, feature)."""

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


class _StackedPerceptrons(Stack):
    """Linear layers as batched matrix products, with ReLUs between them.

    Values between layers are (replica, feature, example): matrix products of small networks are up to five times as
    fast as with examples before features.
    """

    def __init__(self, networks: Sequence[Perceptron]) -> None:
        super().__init__()
        # Tuples, so that torch does not register the networks' own layers as submodules
        self._originals = tuple(zip(*(network.linear_layers for network in networks), strict=True))
        self.weights = nn.ParameterList(torch.stack([one.weight.detach() for one in own]) for own in self._originals)
        self.biases = nn.ParameterList(
            torch.stack([one.bias.detach()[:, None] for one in own]) for own in self._originals
        )
        self._layers: Any = tuple(zip(self.weights, self.biases, strict=True))  # ParameterList is slow to index

    def forward(self, examples: Tensor) -> Tensor:
        return self._values(examples)[-1].transpose(1, 2)

    def with_features(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        *_, features, scores = self._values(examples)
        return scores.transpose(1, 2), features.transpose(1, 2)

    def by_hand(self, examples: Tensor, with_features: bool) -> Pass:
        """Return a pass without autograd, whose overhead is a third of a small network's training time."""
        if with_features and len(self._layers) == 1:
            raise InputError(NO_FEATURES)
        with torch.no_grad():
            values = self._values(examples)
        outputs = values[-1].transpose(1, 2), values[-2].transpose(1, 2)
        return Pass(outputs[: 1 + with_features], partial(self._backward, values))

    @torch.no_grad()
    def _backward(self, values: list[Tensor], slopes: Sequence[Tensor]) -> None:
        """Add to the gradients of all parameters, given those of scores and, if given, features."""
        slope = slopes[0].transpose(1, 2)
        for number, inputs in reversed([*enumerate(values[:-1])]):
            weight, bias = self._layers[number]
            weight.grad.baddbmm_(slope, inputs.transpose(1, 2))
            bias.grad.add_(slope.sum(2, keepdim=True))
            if number == 0:
                return
            slope = torch.bmm(weight.transpose(1, 2), slope)
            if len(slopes) > 1 and number == len(self._layers) - 1:
                slope = slope + slopes[1].transpose(1, 2)
            slope = torch.ops.aten.threshold_backward(slope, inputs, 0)  # of the ReLU before the layer

    def _values(self, examples: Tensor) -> list[Tensor]:
        """Return the input of every layer, and the scores: (replica, feature, example)."""
        values = [examples.transpose(1, 2)]
        for number, (weight, bias) in enumerate(self._layers, start=1):
            outputs = torch.baddbmm(bias, weight, values[-1])
            values.append(outputs.relu_() if number < len(self._layers) else outputs)
        return values

    @torch.no_grad()
    def write_back(self) -> None:
        for originals, (weights, biases) in zip(self._originals, self._layers, strict=True):
            for original, weight, bias in zip(originals, weights, biases, strict=True):
                original.weight.copy_(weight)
                original.bias.copy_(bias[:, 0])


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
        if isinstance(self.stacked, _StackedPerceptrons):
            return self.stacked.by_hand(examples, self._with_features)
        outputs = self(examples, domains)
        return Pass(outputs, partial(torch.autograd.backward, outputs))


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
