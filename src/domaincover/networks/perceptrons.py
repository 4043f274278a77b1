"""Small networks on numeric features, with one score per label."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import torch
from torch import nn


def linear(n_features: int, n_labels: int, rng: np.random.Generator) -> nn.Sequential:
    """Return a linear model."""
    return nn.Sequential(_linear_layer(n_features, n_labels, torch_generator(rng)))


def perceptron(n_features: int, hidden: int | Sequence[int], n_labels: int, rng: np.random.Generator) -> nn.Sequential:
    """Return a multilayer perceptron; the paper's has one hidden layer."""
    generator = torch_generator(rng)
    widths = [n_features, *([hidden] if isinstance(hidden, int | np.integer) else hidden)]
    layers = [part for pair in pairwise(widths) for part in (_linear_layer(*pair, generator), nn.ReLU())]
    return nn.Sequential(*layers, _linear_layer(widths[-1], n_labels, generator))


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch in one thread: small products gain nothing from more, and rounding depends on the number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
