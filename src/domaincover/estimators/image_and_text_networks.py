"""Networks on images and networks on texts."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.examples import Reader
from domaincover.data.readers import (
    ImageReader,
    Resize,
    are_pixels,
    check_texts,
    unreadable_images,
)
from domaincover.errors import InputError, check_installed
from domaincover.estimators.source_network import Backbone, MakeBackbone, OwnBackbone, SourceNetwork, backbone_of
from domaincover.networks.image_models import SMALL_CONV
from domaincover.options import SourceKind, TextFeatures

FROM_RANDOM_WEIGHTS = ("resnet-18", SMALL_CONV)
DEFAULT_SIZE = (224, 224)


@dataclass(frozen=True, kw_only=True)
class ImageNetwork(SourceNetwork):
    """A network on images, given as paths or a uint8 array (image, height, width[, channel]).

    Parameters
    ----------
    model : "resnet-18", "small-conv", path or name
        ResNet-18, the default, has random weights. So has "small-conv", three convolutions; on a processor it trains in
        seconds, and suits images of up to about 100 pixels. A path is a folder written by `save_pretrained` of
        transformers; a name is one on the Hugging Face hub and requires `download=True`.
    module : function or None
        Instead of a model: a function of the number of labels that returns a `torch.nn.Module` from normalised images
        (image, 3, height, width) to scores.
    backbone : function or None
        Instead of a model: a function that returns a pretrained `torch.nn.Module` from such images to features
        (image, feature).
    image_size : int, (height, width) or None
        Size to which images are resized; None is the pretrained model's own size, or else that of the training images,
        which must all be the same.
    crop : float
        Share of an image that is cut off each side before resizing.
    resize : "stretch", "crop" or "imagenet"
        Resize to the size exactly; cover it and take the centre; or cover 8/7 of it and take the centre (256 and 224
        pixels), as the transforms of networks pretrained on ImageNet do.
    learn, hidden, download, cache, workers
        Which part is trained; hidden layers of the head; permission to download from the hub; folder of cached
        features ("auto" is the user's cache, None disables it); number of worker processes.
    max_unreadable : float or None
        Maximum share of unreadable images. Up to it they are reported and left out; more is an error. None skips this
        check, which decodes every image once before training.
    """

    model: str | Path = "resnet-18"
    backbone: MakeBackbone | None = None
    image_size: int | tuple[int, int] | None = None
    crop: float = 0.0
    resize: Resize = "stretch"
    max_unreadable: float | None = 0.01

    def check(self) -> None:
        """Raise if settings are invalid."""
        if self.module is None and self.backbone is None and not self.is_small:
            check_installed("transformers", "networks on images", "images")
        super().check()
        if self.max_unreadable is not None and not 0 <= self.max_unreadable <= 1:
            raise InputError(f"max_unreadable must be from 0 to 1, got {self.max_unreadable:g}.")
        if self.learn == "head" and not self.is_pretrained:
            raise InputError(
                "learn='head' needs a pretrained network, but this one has random weights; pass a pretrained model's "
                "folder."
            )
        if self.module is not None and self.backbone is not None:
            raise InputError("module and backbone cannot be combined; pass one of them.")
        ImageReader(self._size, self.crop, self.resize)

    @property
    def is_pretrained(self) -> bool:
        """Whether the network is pretrained."""
        return self.module is None and (self.backbone is not None or str(self.model) not in FROM_RANDOM_WEIGHTS)

    @property
    def is_small(self) -> bool:  # type: ignore[override]
        """Whether an epoch takes seconds on a processor."""
        return self.module is None and self.backbone is None and str(self.model) == SMALL_CONV

    @property
    def _named_model(self) -> str | Path | None:
        own = self.module is not None or self.backbone is not None
        return None if own or str(self.model) in FROM_RANDOM_WEIGHTS else self.model

    def readable(self, X: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return a mask of readable images; raise if more than `max_unreadable` are not."""
        if self.max_unreadable is None:
            return None
        own_size = self._size is None and self._named_model is None and self.backbone is None
        reader = ImageReader(None if own_size else (1, 1), self.crop, self.resize)  # None rejects mixed sizes
        rows, message = unreadable_images(X, reader, self.max_unreadable, self.n_workers)
        if not message:
            return None
        warnings.warn(message, stacklevel=2)
        return ~rows

    @property
    def _size(self) -> tuple[int, int] | None:
        size = self.image_size
        return (int(size), int(size)) if isinstance(size, int | np.integer) else size

    def _sources(self, X: Any, name: str) -> NDArray[Any]:
        if isinstance(X, np.ndarray) and X.dtype != object and X.dtype.kind not in "US":
            are_pixels(X)
            return X
        if getattr(X, "ndim", 1) == 2 and X.shape[1] == 1:
            X = X[:, 0]
        check_installed("PIL", "image files", "images")  # arrays of pixels do not need it
        paths = pd.Series(list(X), dtype=object)
        if paths.isna().any():
            row = int(paths.isna().argmax())
            raise InputError(
                f"{int(paths.isna().sum())} of {len(paths)} paths in {name!r} are missing, first at row {row}."
            )
        no_paths = ~paths.map(lambda path: isinstance(path, str | os.PathLike)).to_numpy(dtype=bool)
        if no_paths.any():
            row = int(no_paths.argmax())
            raise InputError(f"{name!r} contains {paths[row]!r} at row {row}, which is not a path.")
        return paths.map(os.fspath).to_numpy(dtype=object)

    def _reader(self, backbone: Backbone | None, X: NDArray[Any]) -> ImageReader:
        size = self._size
        if size is None and backbone is not None and str(self.model) not in FROM_RANDOM_WEIGHTS:
            size = backbone.module.image_size
        reader = ImageReader(size, self.crop, self.resize)
        if size is None:  # new images are resized to the size of the training images
            reader = replace(reader, image_size=reader(X[:1]).values.shape[2:])
        return reader

    def _backbone(self, rng: np.random.Generator | None = None) -> Backbone:
        if self.backbone is not None:
            return Backbone.of("image", OwnBackbone(self.backbone, self._size or DEFAULT_SIZE))
        return backbone_of("image", self.model, rng, download=self.download)


@dataclass(frozen=True, kw_only=True)
class TextNetwork(SourceNetwork):
    """A network on texts, given as a list or a column.

    Parameters
    ----------
    model : path or name
        A folder written by `save_pretrained` of transformers, with its tokenizer; or a name on the Hugging Face hub,
        which requires `download=True`.
    features : "word-embeddings" or "encoder"
        The mean word embedding, as in the paper, or the mean of an encoder's last hidden states.
    module : function or None
        Instead of the model's network: a function of the number of labels that returns a `torch.nn.Module` from the
        tokenizer's token ids (text, token) to scores.
    max_tokens : int or None
        Number of tokens to which texts are truncated; None is the model's own limit.
    learn, hidden, download, cache, workers
        As for `ImageNetwork`. The paper has 10 hidden units after the mean embedding.
    """

    features: TextFeatures = "word-embeddings"
    max_tokens: int | None = None
    kind: SourceKind = "text"

    @property
    def is_pretrained(self) -> bool:
        """Whether the network is pretrained."""
        return self.module is None

    @property
    def _named_model(self) -> str | Path | None:
        return self.model

    def check(self) -> None:
        """Raise if settings are invalid."""
        if not str(self.model):
            raise InputError("a TextNetwork needs a model: a folder with its weights and tokenizer.")
        check_installed("transformers", "networks on texts", "text")
        super().check()
        if self.module is not None and self.learn == "head":
            raise InputError("learn='head' needs a pretrained network, but module has random weights.")

    def _sources(self, X: Any, name: str) -> NDArray[Any]:
        return check_texts(X, name)

    def _reader(self, backbone: Backbone | None, X: NDArray[Any]) -> Reader:  # noqa: ARG002
        assert backbone is not None  # noqa: S101 - for the type checker
        return backbone.module.reader(self.max_tokens)

    def _backbone(self, rng: np.random.Generator | None = None) -> Backbone:
        return backbone_of("text", self.model, rng, features=self.features, download=self.download)
