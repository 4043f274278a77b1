"""Image networks of `transformers` as backbones: images in, features out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.networks.image_settings import USUAL, as_size, check_settings, preprocessing
from domaincover.networks.pretrained import (
    config_as_data,
    config_from_data,
    first_line,
    load_config,
    load_model,
    model_folder,
    transformers_for,
)
from domaincover.networks.torchvision_weights import load_torchvision_weights

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

RESNET_18: dict[str, Any] = {
    "model_type": "resnet",
    "embedding_size": 64,
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "layer_type": "basic",
    "downsample_in_first_stage": False,
}


class ImageBackbone(nn.Module):
    """Features of images: (image, 3, height, width) from 0 to 255, bytes or floats, to (image, feature).

    It normalises by itself, and `config` with its tensors is all that is needed to rebuild it. `image_size` (height,
    width) is what the network was made for; most take others.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: PreTrainedModel, config: dict[str, Any]) -> None:
        super().__init__()
        self.network, self.config = network, config
        self.image_size: tuple[int, int] = (config["image_size"][0], config["image_size"][1])
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(config[name]).view(3, 1, 1), persistent=False)
        # Networks with positions compute them for one size and interpolate for others if told to.
        self._interpolates = "interpolate_pos_encoding" in inspect.signature(network.forward).parameters
        self.n_features = _count_features(network.config, config)

    def forward(self, images: Tensor) -> Tensor:
        """Return the pooled features."""
        normalised = (images.to(self.mean.dtype) / 255 - self.mean) / self.std
        return _features(self.network, normalised, self.config, self._interpolates)


def image_backbone(
    model: str | Path = "resnet-18",
    weights: str | Path | None = None,
    *,
    download: bool = False,
    generator: np.random.Generator | int | None = None,
) -> ImageBackbone:
    """Return a network for images without a head.

    "resnet-18" is drawn at random from the generator, or has the `weights` of a torchvision file (.pth or
    .safetensors). Any other model is a folder that `save_pretrained` of transformers wrote or, only with
    `download=True`, a name on the Hugging Face hub.
    """
    transformers_for("images")
    if str(model) == "resnet-18":
        return _resnet_18(weights, np.random.default_rng(generator))
    if weights is not None:
        raise InputError(f"weights are for 'resnet-18'; {str(model)!r} comes with its own.")
    folder = model_folder(model, download=download)
    config = load_config(folder)
    _check_kind(config, folder)
    with torch.random.fork_rng(devices=[]):  # transformers draws what a folder lacks
        network, missing = load_model(folder)
    lacking = sorted(name for name in missing if not name.startswith("pooler."))
    if lacking:
        raise InputError(f"{folder} lacks the weights {lacking[0]!r}; give a folder that holds the whole network.")
    settings = preprocessing(folder, getattr(config, "image_size", None))
    return _backbone(network, {**settings, "pooling": "mean" if missing else "pooler"})


def backbone_state(backbone: ImageBackbone) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a backbone as data: a configuration for JSON, and tensors."""
    return backbone.config, {name: tensor.detach() for name, tensor in _all_tensors(backbone.network).items()}


def backbone_from_state(config: Any, tensors: Mapping[str, Tensor]) -> ImageBackbone:
    """Return the backbone that data from a file describe.

    No code is run and no memory is taken but for the tensors: the network is laid out without any and must fit them.
    """
    transformers_for("images")
    check_settings(config)
    architecture = config_from_data(config["network"], _kinds())
    _check_depth(config["network"], len(tensors))
    network = _empty(architecture, config["pooling"])
    for name, tensor in _all_tensors(network).items():
        given = tensors.get(name)
        if given is None or given.shape != tensor.shape or given.dtype != tensor.dtype:
            found = "missing" if given is None else f"{given.dtype} {tuple(given.shape)}"
            raise InputError(f"weights do not fit the network: {name} is {found}, not {tuple(tensor.shape)}.")
    extra = set(tensors) - set(_all_tensors(network))
    if extra:
        raise InputError(f"weights do not fit the network: it has no {min(extra)!r}.")
    persistent = set(network.state_dict())
    network.load_state_dict({name: tensors[name] for name in persistent}, assign=True)
    for name in tensors.keys() - persistent:
        owner, _, last = name.rpartition(".")
        network.get_submodule(owner).register_buffer(last, tensors[name], persistent=False)
    return ImageBackbone(network.eval(), config)


def _resnet_18(weights: str | Path | None, rng: np.random.Generator) -> ImageBackbone:
    from transformers import AutoConfig, AutoModel

    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(int(rng.integers(2**63)))
        network = AutoModel.from_config(AutoConfig.for_model(**RESNET_18))
    if weights is not None:
        load_torchvision_weights(network, weights)
    return _backbone(network, USUAL)


def _backbone(network: PreTrainedModel, settings: dict[str, Any]) -> ImageBackbone:
    config = {"network": config_as_data(network.config), **settings}
    check_settings(config)
    _drop_unused_pooler(network, config["pooling"])
    return ImageBackbone(network.eval(), config)


def _features(network: nn.Module, images: Tensor, config: Mapping[str, Any], interpolates: bool) -> Tensor:
    is_other_size = list(images.shape[-2:]) != as_size(getattr(network.config, "image_size", None))
    options = {"interpolate_pos_encoding": True} if interpolates and is_other_size else {}
    output = network(pixel_values=images, **options)
    pooled: Tensor | None = output.get("pooler_output") if config["pooling"] == "pooler" else None
    if pooled is not None:
        return pooled.flatten(1)
    hidden: Tensor = output.last_hidden_state
    return hidden.mean(dim=(2, 3) if hidden.ndim == 4 else 1)


def _count_features(architecture: PretrainedConfig, config: Mapping[str, Any]) -> int:
    """Return how many features come out, from a run of the same network that holds no numbers."""
    network = _empty(architecture, config["pooling"])
    interpolates = "interpolate_pos_encoding" in inspect.signature(network.forward).parameters
    try:
        with torch.no_grad():
            image = torch.zeros(1, 3, *config["image_size"], device="meta")
            return int(_features(network.eval(), image, config, interpolates).shape[1])
    except Exception as error:  # each network has its own way to say that it does not take images
        raise InputError(f"a {architecture.model_type!r} cannot be used on images: {first_line(error)}") from error


def _empty(architecture: PretrainedConfig, pooling: str) -> PreTrainedModel:
    """Return a network whose tensors have shapes but take no memory."""
    from transformers import AutoModel

    try:
        with torch.device("meta"):
            network: PreTrainedModel = AutoModel.from_config(architecture, trust_remote_code=False)
    except Exception as error:
        raise InputError(f"no {architecture.model_type!r} can be made so: {first_line(error)}") from error
    _drop_unused_pooler(network, pooling)
    return network


def _drop_unused_pooler(network: nn.Module, pooling: str) -> None:
    """Take out a pooler that has no trained weights: a classifier's folder has none of them."""
    if pooling == "mean" and isinstance(getattr(network, "pooler", None), nn.Module):
        setattr(network, "pooler", None)  # noqa: B010 - torch's types know of no modules that go


def _all_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, also those that a state dict leaves out, such as positions."""
    return {**dict(network.named_buffers()), **network.state_dict()}


def _check_kind(config: PretrainedConfig, folder: str) -> None:
    if config.model_type not in _kinds():
        raise InputError(f"{folder} holds a {config.model_type!r}, which is no image network.")
    if getattr(config, "num_channels", 3) != 3:
        raise InputError(f"{folder} holds a network for {config.num_channels} channels; images here have 3.")


def _check_depth(content: Any, n_tensors: int) -> None:
    """Refuse more layers than there are tensors: each would take time and memory to lay out."""
    for name, value in content.items():
        if any(word in name for word in ("depth", "layers", "stages", "blocks")):
            numbers = value if isinstance(value, list) else [value]
            if any(isinstance(number, int | float) and number > n_tensors for number in numbers):
                raise InputError(f"weights do not fit the network: {name} is {value!r} for {n_tensors} tensors.")


def _kinds() -> frozenset[str]:
    """Return transformers' kinds of image networks, without those that another package makes by a name."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

    encoders = {"clip_vision_model", "siglip_vision_model", "dinov3_vit", "dinov3_convnext", "vit_mae"}
    return frozenset(CLASSIFIERS) - {"timm_wrapper"} | encoders
