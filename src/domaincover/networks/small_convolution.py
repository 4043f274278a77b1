"""A small convolutional network on images, which trains on a processor in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.networks.image_settings import IMAGENET
from domaincover.networks.perceptrons import torch_generator

SMALL_CONV = "small-conv"
WIDTHS = (16, 32, 64)
POOLED = 4  # height and width of the last layer's output; images of 25 to 32 pixels have it without pooling


class SmallConvolution(nn.Module):
    """Map images (n, 3, height, width) with values from 0 to 255 to features (n, 1024).

    Three convolutions of 3 × 3 with stride 2 and 16, 32 and 64 channels, each with a ReLU, then a mean over 4 × 4 parts
    of the image. No layer depends on the other examples of a batch, nor on the size of the images.
    """

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        channels = (3, *WIDTHS)
        self.layers = nn.ModuleList(
            nn.utils.skip_init(nn.Conv2d, n_in, n_out, 3, stride=2, padding=1)
            for n_in, n_out in zip(channels, WIDTHS, strict=False)
        )
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(IMAGENET[name]).view(3, 1, 1), persistent=False)
        self.n_features = WIDTHS[-1] * POOLED**2
        self.config: dict[str, Any] = {"network": SMALL_CONV}

    def forward(self, images: Tensor) -> Tensor:
        """Return the features."""
        hidden = (images.to(self.mean.dtype) / 255 - self.mean) / self.std
        for layer in self.layers:
            hidden = layer(hidden).relu_()
        if hidden.shape[-2:] != (POOLED, POOLED):
            hidden = nn.functional.adaptive_avg_pool2d(hidden, POOLED)
        return hidden.flatten(1)


def small_convolution(rng: np.random.Generator) -> SmallConvolution:
    """Return the network with He's initialisation, drawn from the given generator; biases are 0."""
    network, generator = SmallConvolution(), torch_generator(rng)
    with torch.no_grad():
        for layer in network.layers:
            weight: Tensor = layer.weight  # type: ignore[assignment]
            weight.normal_(0, math.sqrt(2 / weight[0].numel()), generator=generator)
            layer.bias.zero_()  # type: ignore[operator]
    return network


def small_convolution_from_state(tensors: Mapping[str, Tensor]) -> SmallConvolution:
    """Rebuild the network from its tensors."""
    network = SmallConvolution()
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if given != shapes:
        name = min(key for key in shapes | given if given.get(key) != shapes.get(key))
        raise InputError(f"weights do not fit the network: {name} is {given.get(name)}, not {shapes.get(name)}.")
    network.load_state_dict(dict(tensors))
    return network
