"""Image models of `transformers` as backbones that return features."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from domaincover.errors import InputError
from domaincover.networks.image_settings import IMAGENET, as_size, check_settings, preprocessing
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
    """Map images (n, 3, height, width) with values from 0 to 255 to features (n, n_features).

    Normalisation is included, and `config` with the tensors suffices to rebuild the backbone. `image_size` (height,
    width) is the size that the network was trained for; most accept others.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: PreTrainedModel, config: dict[str, Any]) -> None:
        super().__init__()
        self.network, self.config = network, config
        self.image_size: tuple[int, int] = (config["image_size"][0], config["image_size"][1])
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(config[name]).view(3, 1, 1), persistent=False)
        # Networks with position embeddings interpolate them for other sizes only on request.
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
    """Return an image network without a head.

    "resnet-18" is initialised at random, or from the `weights` of a torchvision file (.pth or .safetensors). Any other
    model is a folder written by `save_pretrained` of transformers or, only with `download=True`, a name on the Hugging
    Face hub.
    """
    transformers_for("images")
    if str(model) == "resnet-18":
        return _resnet_18(weights, np.random.default_rng(generator))
    if weights is not None:
        raise InputError(f"weights are for 'resnet-18'; {str(model)!r} comes with its own.")
    folder = model_folder(model, download=download)
    config = load_config(folder)
    _check_kind(config, folder)
    with torch.random.fork_rng(devices=[]):  # transformers initialises missing weights at random
        network, missing = load_model(folder)
    lacking = sorted(name for name in missing if not name.startswith("pooler."))
    if lacking:
        raise InputError(f"{folder} lacks the weights {lacking[0]!r}; pass a folder with the complete network.")
    settings = preprocessing(folder, getattr(config, "image_size", None))
    return _backbone(network, {**settings, "pooling": "mean" if missing else "pooler"})


def backbone_state(backbone: ImageBackbone) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a backbone as a JSON-serializable configuration and tensors."""
    return backbone.config, {name: tensor.detach() for name, tensor in _all_tensors(backbone.network).items()}


def backbone_from_state(config: Any, tensors: Mapping[str, Tensor]) -> ImageBackbone:
    """Rebuild a backbone from its configuration and tensors.

    No code in them is executed, and the network is built without memory and must match the tensors, so forged data
    cannot exhaust memory.
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
    return _backbone(network, IMAGENET)


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
    """Return the number of features, from a forward pass on the meta device."""
    network = _empty(architecture, config["pooling"])
    interpolates = "interpolate_pos_encoding" in inspect.signature(network.forward).parameters
    try:
        with torch.no_grad():
            image = torch.zeros(1, 3, *config["image_size"], device="meta")
            return int(_features(network.eval(), image, config, interpolates).shape[1])
    except Exception as error:  # networks that do not accept images fail in different ways
        raise InputError(f"a {architecture.model_type!r} cannot be used on images: {first_line(error)}") from error


def _empty(architecture: PretrainedConfig, pooling: str) -> PreTrainedModel:
    """Return a network on the meta device, whose tensors have shapes but no memory."""
    from transformers import AutoModel

    try:
        with torch.device("meta"):
            network: PreTrainedModel = AutoModel.from_config(architecture, trust_remote_code=False)
    except Exception as error:
        raise InputError(f"a {architecture.model_type!r} cannot be built: {first_line(error)}") from error
    _drop_unused_pooler(network, pooling)
    return network


def _drop_unused_pooler(network: nn.Module, pooling: str) -> None:
    """Remove a pooler without trained weights, as in a classifier's folder."""
    if pooling == "mean" and isinstance(getattr(network, "pooler", None), nn.Module):
        setattr(network, "pooler", None)  # noqa: B010 - torch's types do not allow removing modules


def _all_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers, including non-persistent ones such as positions."""
    return {**dict(network.named_buffers()), **network.state_dict()}


def _check_kind(config: PretrainedConfig, folder: str) -> None:
    if config.model_type not in _kinds():
        raise InputError(f"{folder} contains a {config.model_type!r}, which is not an image model.")
    if getattr(config, "num_channels", 3) != 3:
        raise InputError(f"{folder} contains a network for {config.num_channels} channels; images have 3.")


def _check_depth(content: Any, n_tensors: int) -> None:
    """Reject more layers than there are tensors, since building them takes time and memory."""
    for name, value in content.items():
        if any(word in name for word in ("depth", "layers", "stages", "blocks")):
            numbers = value if isinstance(value, list) else [value]
            if any(isinstance(number, int | float) and number > n_tensors for number in numbers):
                raise InputError(f"weights do not fit the network: {name} is {value!r} for {n_tensors} tensors.")


def _kinds() -> frozenset[str]:
    """Return the image model types of transformers, without those that load another package."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

    encoders = {"clip_vision_model", "siglip_vision_model", "dinov3_vit", "dinov3_convnext", "vit_mae"}
    return frozenset(CLASSIFIERS) - {"timm_wrapper"} | encoders
