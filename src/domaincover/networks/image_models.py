"""Image models as backbones that return features: those of `transformers`, and a small one of our own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from domaincover.errors import InputError, check_installed
from domaincover.files import plain_json
from domaincover.networks import pretrained
from domaincover.networks.perceptrons import torch_generator

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RESNET_18: dict[str, Any] = {
    "model_type": "resnet",
    "embedding_size": 64,
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "layer_type": "basic",
    "downsample_in_first_stage": False,
}
# ImageNet's, per channel, for images from 0 to 1
IMAGENET: dict[str, Any] = {
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "image_size": [224, 224],
    "pooling": "pooler",
}
SETTINGS = {"network", *IMAGENET}
TOO_LARGE = 1e6  # also rejects infinity
SMALL_CONV = "small-conv"
WIDTHS = (16, 32, 64)
POOLED = 4  # height and width of the last layer's output; images of 25 to 32 pixels have it without pooling


class PixelNetwork(nn.Module):
    """A network on images (n, 3, height, width) with values from 0 to 255, which it normalises."""

    mean: Tensor
    std: Tensor
    config: dict[str, Any]

    def __init__(self, settings: Mapping[str, Any] = IMAGENET) -> None:
        super().__init__()
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(settings[name]).view(3, 1, 1), persistent=False)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the network as a JSON-serializable configuration and tensors."""
        return self.config, self.state_dict()

    def normalised(self, images: Tensor) -> Tensor:
        """Return the images as the network takes them."""
        return (images.to(self.mean.dtype) / 255 - self.mean) / self.std


class Normalised(PixelNetwork):
    """A user's image network, applied to images after ImageNet's normalisation."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return what the network returns: scores, or features."""
        outputs: Tensor = self.network(self.normalised(images))
        return outputs


class ImageBackbone(PixelNetwork):
    """Map images (n, 3, height, width) with values from 0 to 255 to features (n, n_features).

    Normalisation is included, and `config` with the tensors suffices to rebuild the backbone. `image_size` (height,
    width) is the size that the network was trained for; most accept others.
    """

    def __init__(self, network: PreTrainedModel, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.network, self.config = network, config
        self.image_size: tuple[int, int] = (config["image_size"][0], config["image_size"][1])
        # Networks with position embeddings interpolate them for other sizes only on request.
        self._interpolates = "interpolate_pos_encoding" in inspect.signature(network.forward).parameters
        self.n_features = self._count_features()

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the network as a JSON-serializable configuration and tensors."""
        return self.config, pretrained.all_tensors(self.network)

    def forward(self, images: Tensor) -> Tensor:
        """Return the pooled features."""
        is_other_size = list(images.shape[-2:]) != as_size(getattr(self.network.config, "image_size", None))
        options = {"interpolate_pos_encoding": True} if self._interpolates and is_other_size else {}
        output = self.network(pixel_values=self.normalised(images), **options)
        pooled: Tensor | None = output.get("pooler_output") if self.config["pooling"] == "pooler" else None
        if pooled is not None:
            return pooled.flatten(1)
        hidden: Tensor = output.last_hidden_state
        return hidden.mean(dim=(2, 3) if hidden.ndim == 4 else 1)

    def _count_features(self) -> int:
        """Return the number of features, from a forward pass on the meta device."""
        without_memory = {name: tensor.to("meta") for name, tensor in pretrained.all_tensors(self).items()}
        image = torch.zeros(1, 3, *self.image_size, device="meta")
        try:
            with torch.no_grad():
                return int(functional_call(self, without_memory, image).shape[1])
        except Exception as error:  # networks that do not accept images fail in different ways
            kind = self.network.config.model_type
            raise InputError(f"a {kind!r} cannot be used on images: {pretrained.first_line(error)}") from error


def image_backbone(
    model: str | Path = "resnet-18",
    *,
    download: bool = False,
    generator: np.random.Generator | int | None = None,
) -> ImageBackbone | SmallConvolution:
    """Return an image network without a head.

    "small-conv" and "resnet-18" are initialised at random. Any other model is a folder written by `save_pretrained` of
    transformers or, only with `download=True`, a name on the Hugging Face hub.
    """
    if str(model) == SMALL_CONV:
        return small_convolution(np.random.default_rng(generator))
    check_installed("transformers", "networks on images", "images")
    if str(model) == "resnet-18":
        return _resnet_18(np.random.default_rng(generator))
    folder = pretrained.model_folder(model, download=download)
    config = pretrained.load_config(folder, _kinds(), "an image")
    if getattr(config, "num_channels", 3) != 3:
        raise InputError(f"{folder} contains a network for {config.num_channels} channels; images have 3.")
    network, has_pooler = pretrained.complete_model(folder)
    settings = preprocessing(folder, getattr(config, "image_size", None))
    return _backbone(network, {**settings, "pooling": "pooler" if has_pooler else "mean"})


def backbone_from_state(config: Any, tensors: Mapping[str, Tensor]) -> ImageBackbone | SmallConvolution:
    """Rebuild a backbone from its configuration and tensors.

    No code in them is executed, and the network is built without memory and must match the tensors, so forged data
    cannot exhaust memory.
    """
    if config == {"network": SMALL_CONV}:
        small = SmallConvolution()
        pretrained.copy_tensors(small, tensors, SMALL_CONV)
        return small
    check_installed("transformers", "networks on images", "images")
    check_settings(config)
    network = pretrained.empty_model(config["network"], _kinds(), len(tensors))
    _drop_unused_pooler(network, config["pooling"])
    pretrained.assign_tensors(network, tensors, "the saved backbone")
    return ImageBackbone(network.eval(), config)


def _resnet_18(rng: np.random.Generator) -> ImageBackbone:
    from transformers import AutoConfig, AutoModel

    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(int(rng.integers(2**63)))
        network = AutoModel.from_config(AutoConfig.for_model(**RESNET_18))
    return _backbone(network, IMAGENET)


def _backbone(network: PreTrainedModel, settings: dict[str, Any]) -> ImageBackbone:
    config = {"network": pretrained.config_as_data(network.config), **settings}
    check_settings(config)
    _drop_unused_pooler(network, config["pooling"])
    return ImageBackbone(network.eval(), config)


def _drop_unused_pooler(network: nn.Module, pooling: str) -> None:
    """Remove a pooler without trained weights, as in a classifier's folder."""
    if pooling == "mean" and isinstance(getattr(network, "pooler", None), nn.Module):
        setattr(network, "pooler", None)  # noqa: B010 - torch's types do not allow removing modules


def _kinds() -> frozenset[str]:
    """Return the image model types of transformers, without those that load another package."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

    encoders = {"clip_vision_model", "siglip_vision_model", "dinov3_vit", "dinov3_convnext", "vit_mae"}
    return frozenset(CLASSIFIERS) - {"timm_wrapper"} | encoders


class SmallConvolution(PixelNetwork):
    """Map images (n, 3, height, width) with values from 0 to 255 to features (n, 1024).

    Three convolutions of 3 × 3 with stride 2 and 16, 32 and 64 channels, each with a ReLU, then a mean over 4 × 4 parts
    of the image. No layer depends on the other examples of a batch, nor on the size of the images.
    """

    def __init__(self) -> None:
        super().__init__()
        channels = (3, *WIDTHS)
        self.layers = nn.ModuleList(
            nn.utils.skip_init(nn.Conv2d, n_in, n_out, 3, stride=2, padding=1)
            for n_in, n_out in zip(channels, WIDTHS, strict=False)
        )
        self.n_features = WIDTHS[-1] * POOLED**2
        self.config = {"network": SMALL_CONV}

    def forward(self, images: Tensor) -> Tensor:
        """Return the features."""
        hidden = self.normalised(images)
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


def preprocessing(folder: str, size_of_network: Any) -> dict[str, Any]:
    """Return mean, standard deviation and size from a model's folder, or else ImageNet's."""
    path = Path(folder) / "preprocessor_config.json"
    try:
        given = plain_json(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return _settings(given, size_of_network)
    except (ValueError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise InputError(
            f"{path} is not a valid image preprocessor configuration: {pretrained.first_line(error)}"
        ) from error


def _settings(given: Any, size_of_network: Any) -> dict[str, Any]:
    """Convert the settings to those for images from 0 to 1."""
    normalises, rescales = given.get("do_normalize", True), given.get("do_rescale", True)
    mean = given.get("image_mean", IMAGENET["mean"]) if normalises else [0, 0, 0]
    std = given.get("image_std", IMAGENET["std"]) if normalises else [1, 1, 1]
    largest = 255 * given.get("rescale_factor", 1 / 255) if rescales else 255  # what 255 is scaled to; here to 1
    offset = 1 if rescales and given.get("rescale_offset", False) else 0
    sizes = (given.get("crop_size"), given.get("size"), size_of_network)
    return {
        "mean": [(value + offset) / largest for value in mean],
        "std": [value / largest for value in std],
        "image_size": next((size for size in map(as_size, sizes) if size), IMAGENET["image_size"]),
    }


def as_size(given: Any) -> list[int] | None:
    """Return a size in any of the common forms as [height, width]."""
    if isinstance(given, dict):
        edge = given.get("shortest_edge")
        given = [given.get("height", edge), given.get("width", edge)]
    elif isinstance(given, int):
        given = [given, given]
    return list(given) if isinstance(given, list | tuple) and len(given) == 2 and None not in given else None


def check_settings(config: Any) -> None:
    """Raise if a configuration, possibly from a file, is invalid."""
    if not isinstance(config, dict) or set(config) != SETTINGS:
        raise InputError(f"an image network's configuration must have the keys {', '.join(sorted(SETTINGS))}.")
    for name, least, length in (("mean", None, 3), ("std", 0, 3), ("image_size", 0, 2)):
        values, kinds = config[name], int if name == "image_size" else int | float
        is_right = isinstance(values, list) and len(values) == length and all(type(v) is not bool for v in values)
        is_right = is_right and all(isinstance(v, kinds) and abs(v) < TOO_LARGE for v in values)
        if not is_right or (least is not None and min(values) <= least):
            raise InputError(f"invalid {name} of an image network: {values!r}.")
    if config["pooling"] not in ("pooler", "mean"):
        raise InputError(f"pooling of an image network must be 'pooler' or 'mean', not {config['pooling']!r}.")
