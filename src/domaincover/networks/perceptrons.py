"""Small networks on numeric features, with one score per label, and several of one architecture as a stack."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from domaincover.errors import InputError
from domaincover.networks.dense_layers import DenseLayers

NO_FEATURES = (
    "MMD and CORAL compare learned features, and this network has no trained layer before its last linear one; "
    "add a hidden layer, or train the entire network."
)


class Perceptron(nn.Sequential):
    """Linear layers with ReLUs between them, made here; several of one architecture can be trained as a stack."""

    @property
    def linear_layers(self) -> tuple[nn.Linear, ...]:
        """The linear layers."""
        return tuple(layer for layer in self if isinstance(layer, nn.Linear))


def linear(n_features: int, n_labels: int, rng: np.random.Generator) -> Perceptron:
    """Return a linear model."""
    return perceptron(n_features, (), n_labels, rng)


def perceptron(n_features: int, hidden: int | Sequence[int], n_labels: int, rng: np.random.Generator) -> Perceptron:
    """Return a multilayer perceptron, linear without hidden layers; the paper's has one."""
    generator = torch_generator(rng)
    widths = [n_features, *([hidden] if isinstance(hidden, int | np.integer) else hidden)]
    layers = [part for pair in pairwise(widths) for part in (_linear_layer(*pair, generator), nn.ReLU())]
    return Perceptron(*layers, _linear_layer(widths[-1], n_labels, generator))


def empty_perceptron(n_features: int, hidden: Sequence[int], n_labels: int) -> Perceptron:
    """Return the layers of `perceptron` on the meta device, so that a forged width takes no memory."""
    widths = pairwise([n_features, *hidden, n_labels])
    layers = [part for a, b in widths for part in (nn.Linear(a, b, device="meta", dtype=torch.float32), nn.ReLU())]
    return Perceptron(*layers[:-1])


def from_layers(layers: DenseLayers) -> Perceptron:
    """Return layers as a network that shares their memory."""
    hidden = [len(bias) for bias in layers.biases[:-1]]
    network = empty_perceptron(layers.weights[0].shape[1], hidden, len(layers.biases[-1]))
    network.load_state_dict({name: torch.from_numpy(part) for name, part in layers.tensors.items()}, assign=True)
    return network.eval()


def to_layers(network: nn.Module) -> DenseLayers:
    """Return the layers of a network on the CPU, which share its memory."""
    return DenseLayers.of({name: part.numpy() for name, part in network.state_dict().items()})


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """Return a torch generator seeded from a numpy generator."""
    return torch.Generator().manual_seed(int(rng.integers(2**63)))


def _linear_layer(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    """Return a layer with PyTorch's default initialisation, drawn from the given generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_in, n_out)
    bound = 1 / math.sqrt(n_in)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


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

    @abstractmethod
    def training_pass(self, examples: Tensor, domains: Tensor, needs_features: bool) -> Pass:
        """Return scores, and if needed features: the input of each network's last linear layer."""

    def by_replica(self, values: Tensor, parameter: Tensor) -> Tensor:
        """Reshape one value per replica to broadcast with a stacked parameter."""
        return values.to(parameter.device).view(-1, *[1] * (parameter.ndim - 1))

    def write_back(self) -> None:
        """Copy the stack's weights to the original networks, unless they are shared."""


class _Alone(Stack):
    """A stack of one network, which shares its weights; with batch statistics, domains go through it one by one."""

    owns_parameters = False

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self._one_by_one = network, mixes_examples(network)

    def forward(self, examples: Tensor) -> Tensor:
        scores: Tensor = self.network(examples[0])
        return scores[None]

    def training_pass(self, examples: Tensor, domains: Tensor, needs_features: bool) -> Pass:
        outputs = self._with_features(examples, domains) if needs_features else (self(examples),)
        if needs_features and not outputs[-1].requires_grad:
            raise InputError(NO_FEATURES)
        return Pass(outputs, partial(torch.autograd.backward, outputs))

    def _with_features(self, examples: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
        if not self._one_by_one:
            return tuple(part[None] for part in _with_features(self.network, examples[0]))
        order = domains[0].argsort(stable=True)
        sizes = domains[0][order].unique_consecutive(return_counts=True)[1].tolist()
        by_domain = [_with_features(self.network, part) for part in examples[0, order].split(sizes)]
        back = order.argsort()
        return tuple(torch.cat(parts)[None, back] for parts in zip(*by_domain, strict=True))

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

    def training_pass(self, examples: Tensor, domains: Tensor, needs_features: bool) -> Pass:  # noqa: ARG002
        """Return a pass without autograd, a third of whose time would be its overhead."""
        if needs_features and len(self._layers) == 1:
            raise InputError(NO_FEATURES)
        with torch.no_grad():
            values = self._values(examples)
        outputs = values[-1].transpose(1, 2), values[-2].transpose(1, 2)
        return Pass(outputs[: 1 + needs_features], partial(self._backward, values))

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


def _with_features(network: nn.Module, examples: Tensor) -> tuple[Tensor, Tensor]:
    """Return a network's scores, and the input of the last linear layer that ran."""
    read: list[Tensor] = []

    def store_input(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        read[:] = [inputs[0] if inputs else named["input"]]

    linear = [part for part in network.modules() if isinstance(part, nn.Linear)]
    hooks = [part.register_forward_pre_hook(store_input, with_kwargs=True) for part in linear]
    try:
        scores = network(examples)
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
