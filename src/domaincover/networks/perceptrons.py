"""Small networks on numeric features, with one score per label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from domaincover.networks.dense_layers import DenseLayers


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
