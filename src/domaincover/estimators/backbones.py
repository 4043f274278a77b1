"""Pretrained feature extractors, loaded once per process and saved within a model's folder."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from domaincover.data.examples import LazyExamples
from domaincover.data.feature_cache import Compute, model_key
from domaincover.errors import InputError
from domaincover.estimators.table_network import made_by
from domaincover.networks import image_models, text_models
from domaincover.networks.image_models import Normalised
from domaincover.networks.saved_tensors import copy_tensors
from domaincover.options import SourceKind

MakeBackbone = Callable[[], nn.Module]


class Backbone(BaseEstimator):
    """A feature extractor for images or token ids; models that share one save it once."""

    module: Any  # ImageBackbone, SmallConvolution, TextBackbone or OwnBackbone
    config_: str  # JSON text

    def __init__(self, kind: SourceKind = "image") -> None:
        self.kind = kind

    @classmethod
    def of(cls, kind: SourceKind, module: Any) -> Backbone:
        """Wrap a network."""
        backbone = cls(kind)
        backbone.module, backbone.config_ = module, json.dumps(module.config)
        return backbone

    @classmethod
    def from_state(
        cls, kind: SourceKind, config: Any, tensors: Mapping[str, Tensor], function: MakeBackbone | None = None
    ) -> Backbone:
        """Rebuild a saved network without executing code; a user's own is made by its function."""
        if function is not None:
            height, width = config["image_size"]
            own = OwnBackbone(function, (int(height), int(width)))
            copy_tensors(own, tensors, "the saved backbone")
            return cls.of("image", own)
        rebuild: Any = image_models.backbone_from_state if kind == "image" else text_models.text_backbone_from_state
        return cls.of(kind, rebuild(config, tensors))

    def key(self, settings: Mapping[str, Any]) -> str:
        """Return the cache key of its features under the given settings."""
        return model_key({"network": self._digest}, {}, settings)

    @cached_property
    def _digest(self) -> str:
        # Cached: hashing a large network's weights takes half a second.
        about = self.module.fingerprint() if isinstance(self.module, OwnBackbone) else {}
        config, tensors = self.module.state()
        return model_key(config, tensors, about)


class OwnBackbone(Normalised):
    """A user's network that maps normalised images to features."""

    def __init__(self, function: MakeBackbone, image_size: tuple[int, int]) -> None:
        with torch.random.fork_rng(devices=[]):
            super().__init__(made_by(function))
        self.eval()
        with torch.no_grad():
            features = self(torch.zeros(1, 3, *image_size, dtype=torch.uint8))
        if features.ndim != 2:
            shape = tuple(features.shape)
            raise InputError(f"backbone must return features of shape (image, feature), got {shape} for one image.")
        self.n_features, self.image_size = int(features.shape[1]), image_size
        name = getattr(function, "__name__", type(function).__name__)
        self.config = {"function": name, "image_size": list(image_size)}

    @torch.no_grad()
    def fingerprint(self) -> dict[str, Any]:
        """Return data that distinguishes networks with equal weights: their repr and their output for one image."""
        height, width = self.image_size
        pixels = torch.arange(3 * height * width).view(1, 3, height, width) % 256
        device = next((tensor.device for tensor in self.state_dict().values()), "cpu")
        answer = self.eval()(pixels.to(torch.uint8).to(device))[0].double().cpu()
        return {"network": repr(self.network), "answer": [f"{value:.3g}" for value in answer.tolist()]}


def backbone_of(
    kind: SourceKind, model: str | Path, rng: np.random.Generator | None = None, **options: Any
) -> Backbone:
    """Return a model's network without its head: cached until its files change, or given a generator a new one."""
    if rng is None:
        return _cached_backbone(kind, model, (_stamp(model), _stamp(options.get("weights"))), **options)
    return _new_backbone(kind, model, rng, **options)


@lru_cache(maxsize=4)
def _cached_backbone(kind: SourceKind, model: str | Path, _: Any, **options: Any) -> Backbone:
    return _new_backbone(kind, model, 0, **options)


def _new_backbone(kind: SourceKind, model: str | Path, rng: Any, **options: Any) -> Backbone:
    if kind == "text":
        return Backbone.of(kind, text_models.text_backbone(model, **options))
    return Backbone.of(kind, image_models.image_backbone(model, **options, generator=rng))


def _stamp(path: str | Path | None) -> Any:
    """Return the names, sizes and modification times of a file or of the files in a folder."""
    if path is None or not Path(path).exists():
        return None
    files = [Path(path)] if Path(path).is_file() else sorted(Path(path).iterdir())
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def with_head(backbone: nn.Module, head: nn.Module) -> nn.Sequential:
    """Return a backbone with a head: (example, …) to one score per label."""
    return nn.Sequential(OrderedDict(backbone=backbone, head=head))


def features_by_block(
    backbone: nn.Module,
    examples: LazyExamples,
    *,
    block_size: int = 64,
    lengths: NDArray[Any] | None = None,
    device: str | torch.device = "cpu",
) -> Compute:
    """Return a function that computes frozen features of given rows, for `FeatureCache.features`.

    With `lengths`, such as those of texts, rows of similar length share a block to reduce padding; the longest come
    first, so that a lack of memory shows at once. Rows that cannot be read are NaN.
    """

    def compute(rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        ordered = rows if lengths is None else rows[np.argsort(-lengths[rows], kind="stable")]
        blocks = [ordered[start : start + block_size] for start in range(0, len(ordered), block_size)]
        was_training = backbone.training
        backbone.to(device).eval()
        try:
            for some, block in zip(blocks, examples.blocks(blocks), strict=True):
                with torch.inference_mode():
                    features = backbone(torch.from_numpy(block.values).to(device)).float().cpu().numpy()
                if block.readable is not None:
                    features[~block.readable] = np.nan
                yield some, features
        finally:
            backbone.train(was_training)

    return compute
