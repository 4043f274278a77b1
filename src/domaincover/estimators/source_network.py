"""Networks on images and texts: which one, how examples are made ready for it, and which part of it learns."""

from __future__ import annotations

import json
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.data.examples import Reader, usual_workers
from domaincover.data.image_checks import check_images, refuse_unreadable
from domaincover.data.images import Fit, ImageReader, are_pixels
from domaincover.data.texts import check_texts
from domaincover.errors import InputError
from domaincover.estimators.backbones import (
    Backbone,
    MakeBackbone,
    image_backbone_of,
    text_backbone_of,
)
from domaincover.estimators.source_encoder import SourceEncoder
from domaincover.estimators.table_network import check_fit, empty_perceptron, made_by
from domaincover.networks.perceptrons import linear, perceptron
from domaincover.networks.pretrained import model_folder
from domaincover.networks.scorers import Normalised, Scorer

Learn = Literal["auto", "head", "all"]
MakeModule = Callable[[int], nn.Module]
NAMED = 3
USUAL_SIZE = (224, 224)


@dataclass(frozen=True, kw_only=True)
class SourceNetwork:
    """What networks on images and on texts share.

    With `learn="all"` the whole network is trained, and examples are read anew for every batch. With "head" it stays
    as it is: its features are computed once, kept on disk, and only the layers after them are trained, which is much
    cheaper. "auto" trains the head where the network is pretrained and no GPU is found, and all otherwise.
    """

    learn: Learn = "auto"
    hidden: int | Sequence[int] = ()
    download: bool = False
    cache: str | Path | None = "auto"
    workers: int | None = None
    kind: Literal["image", "text"] = "image"

    def check(self) -> None:
        """Refuse settings that cannot be."""
        if self.learn not in get_args(Learn):
            raise InputError(f"learn must be one of {', '.join(map(repr, get_args(Learn)))}, got {self.learn!r}.")
        if not all(isinstance(width, int | np.integer) and width >= 1 for width in self._widths):
            raise InputError(f"hidden must be one width or several, whole numbers from 1, got {self.hidden!r}.")
        if self.workers is not None and self.workers < 0:
            raise InputError(f"workers must be 0 or more, got {self.workers}.")
        if self._named_model is not None:
            model_folder(self._named_model, download=self.download)

    @property
    def _widths(self) -> tuple[int, ...]:
        hidden: Any = self.hidden
        return tuple(hidden) if isinstance(hidden, Sequence) else (hidden,)

    def device(self, device: str) -> str:
        """Return where to train: a GPU if there is one."""
        return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device

    def stacks(self, device: str) -> bool:
        """Whether several train as one: heads do."""
        return self.learns(device) == "head"

    def learns(self, device: str) -> Literal["head", "all"]:
        """Return which part of the network learns."""
        if self.learn != "auto":
            return self.learn
        return "head" if self.is_pretrained and self.device(device) == "cpu" else "all"

    def in_words(self, device: str) -> str:
        """Say what is going to be trained, and why."""
        if self.learns(device) == "all":
            slow = " That takes long without a GPU; of a pretrained network, only a head need be trained."
            where = self.device(device)
            return f"The whole network is trained, on {where}." + (
                slow if where == "cpu" and self.learn == "auto" else ""
            )
        why = "" if self.learn == "head" else "No GPU was found: "
        return (
            f"{why}the network stays as it is and a head is trained on its features, which are computed once and "
            "kept; learn='all' (--learn all) trains the whole network."
        )

    @property
    def n_workers(self) -> int:
        """How many processes read examples ahead."""
        return usual_workers() if self.workers is None else self.workers

    def checked(self, model: Any, X: Any, *, reset: bool) -> NDArray[Any]:
        """Return the sources as an array, from a list, an array, or a table's one column, whose name is learned."""
        names = getattr(X, "columns", None)
        if names is not None:
            if len(names) != 1:
                raise InputError(
                    f"{self.kind}s are one column of a table, got {len(names)}: {', '.join(map(str, names))}."
                )
            X = X[names[0]]
        if reset:
            model.n_features_in_ = 1
            model.__dict__.pop("feature_names_in_", None)
            if names is not None and isinstance(names[0], str):
                model.feature_names_in_ = np.array([names[0]], dtype=object)
        sources = self._sources(X, str(names[0]) if names is not None else self.kind)
        if len(sources) == 0:
            raise InputError(f"the data has 0 sample(s): there are no {self.kind}s.")
        return sources

    def fitted_encoder(self, X: NDArray[Any], device: str, name: str = "") -> SourceEncoder:
        """Return what makes numbers of such sources."""
        is_head = self.learns(device) == "head"
        backbone = self._backbone() if is_head or self._takes_backbone else None
        encoder = SourceEncoder(self.kind, self._reader(backbone, X), self.workers, self.cache)
        return encoder.fit(X, backbone, is_head, self.device(device), name)

    def make(self, encoder: SourceEncoder, n_labels: int, rng: np.random.Generator) -> nn.Module:
        """Return a network with its first weights: a head, or all of it."""
        if not encoder.is_lazy:
            return _head(encoder.n_features_out, self._widths, n_labels, rng)
        if (module := self._module(n_labels)) is not None:
            self._check_module(module, encoder, n_labels)
            return module
        backbone = self._fresh_backbone(rng)
        return Scorer(backbone, _head(backbone.n_features, self._widths, n_labels, rng))  # type: ignore[arg-type]

    def _check_module(self, module: nn.Module, encoder: SourceEncoder, n_labels: int) -> None:
        """Refuse a user's network that does not give one score per label."""
        module.eval()
        with torch.no_grad():
            shape = tuple(module(self._trial(encoder)).shape)
        if shape != (2, n_labels):
            raise InputError(
                f"module must give one score per label, {n_labels}; for two {self.kind}s it gives {shape}."
            )

    def tensors(self, network: nn.Module) -> dict[str, Tensor]:
        """Return a network's numbers by name."""
        if not isinstance(network, Scorer) or self._module_function is not None:
            return network.state_dict()
        _, backbone = Backbone.of(self.kind, network.backbone).state()
        head = {f"head.{name}": tensor for name, tensor in network.head.state_dict().items()}
        return {f"backbone.{name}": tensor for name, tensor in backbone.items()} | head

    def rebuilt(self, encoder: SourceEncoder, n_labels: int, tensors: Mapping[str, Tensor], name: str) -> nn.Module:
        """Return a network with the numbers that a file has for it."""
        if not encoder.is_lazy:
            network: nn.Module = empty_perceptron(encoder.n_features_out, self._widths, n_labels)
            return check_fit(network, tensors, name, assign=True)
        if self._module_function is not None:
            with torch.random.fork_rng(devices=[]):
                module = self._module(n_labels)
            assert module is not None  # noqa: S101 - for the type checker
            return check_fit(module, tensors, name, assign=False)
        of_backbone, of_head = (
            {key[len(part) :]: value for key, value in tensors.items() if key.startswith(part)}
            for part in ("backbone.", "head.")
        )
        backbone = self._rebuilt_backbone(json.loads(encoder.config_ or "null"), of_backbone).module
        head = empty_perceptron(backbone.n_features, self._widths, n_labels)  # type: ignore[arg-type]
        return Scorer(backbone, check_fit(head, of_head, name, assign=True))

    def _rebuilt_backbone(self, config: Any, tensors: Mapping[str, Tensor]) -> Backbone:
        return Backbone.from_state(self.kind, config, tensors)

    def unread_in_words(self, X: NDArray[Any], unread: NDArray[np.bool_]) -> str:
        """Say which sources could not be read, and what became of them."""
        named = ", ".join(map(str, X[unread][:NAMED])) + (", …" if unread.sum() > NAMED else "")
        return f"{int(unread.sum())} of {len(X)} {self.kind}s cannot be read ({named}); their sets hold every label."

    @property
    @abstractmethod
    def _named_model(self) -> str | Path | None:
        """The folder or name of the model, where there is one to be found."""

    @property
    @abstractmethod
    def is_pretrained(self) -> bool:
        """Whether the network has learned something before."""

    @abstractmethod
    def readable(self, model: Any, X: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return which sources can be read; None means all."""

    @abstractmethod
    def _sources(self, X: Any, name: str) -> NDArray[Any]: ...

    @abstractmethod
    def _reader(self, backbone: Backbone | None, X: NDArray[Any]) -> Reader: ...

    @abstractmethod
    def _trial(self, encoder: SourceEncoder) -> Tensor: ...

    @abstractmethod
    def _backbone(self) -> Backbone: ...

    @abstractmethod
    def _fresh_backbone(self, rng: np.random.Generator) -> nn.Module: ...

    @property
    @abstractmethod
    def _module_function(self) -> MakeModule | None: ...

    @abstractmethod
    def _module(self, n_labels: int) -> nn.Module | None: ...

    @property
    @abstractmethod
    def _takes_backbone(self) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class ImageNetwork(SourceNetwork):
    """A network on images: `fit` takes their paths, or an array of uint8, (image, height, width[, channel]).

    Parameters
    ----------
    model : "resnet-18", path or name
        ResNet-18, the default, has random weights unless `weights` gives some. A folder is one that `save_pretrained`
        of transformers wrote; a name is one on the Hugging Face hub, for which `download=True` must permit it.
    weights : path or None
        A file of torchvision's weights for ResNet-18, .pth or .safetensors.
    module : function or None
        In place of a model: takes the number of labels and returns a `torch.nn.Module` from normalised images,
        (image, 3, height, width), to scores.
    backbone : function or None
        In place of a model: returns a pretrained `torch.nn.Module` from such images to features, (image, feature).
    image_size : int, (height, width) or None
        To which images are resized; None is the size that a folder's model was made for, and otherwise that of the
        images that `fit` is given, which must be one.
    crop : float
        Share cut off each side of an image's own size, before it is resized.
    fit : "stretch" or "crop"
        Resize to the size exactly, or cover it and take the centre.
    learn, hidden, download, cache, workers
        Which part learns; hidden layers of the head; permission to fetch from the hub; folder for features ("auto" is
        the user's cache, None keeps none); processes that read ahead.
    max_unreadable : float
        The share of images that may be unreadable. They are named and left out; more than that stops `fit`.
    """

    model: str | Path = "resnet-18"
    weights: str | Path | None = None
    module: MakeModule | None = None
    backbone: MakeBackbone | None = None
    image_size: int | tuple[int, int] | None = None
    crop: float = 0.0
    fit: Fit = "stretch"
    max_unreadable: float = 0.01

    def check(self) -> None:
        """Refuse settings that cannot be."""
        super().check()
        if not 0 <= self.max_unreadable <= 1:
            raise InputError(f"max_unreadable is a share from 0 to 1, got {self.max_unreadable:g}.")
        if self.learn == "head" and not self.is_pretrained:
            raise InputError(
                "learn='head' keeps the network as it is, but nothing has trained it yet; give weights, or a "
                "pretrained model's folder."
            )
        if self.module is not None and self.backbone is not None:
            raise InputError("module and backbone are two networks in place of a model; give one of them.")
        if self.weights is not None and not Path(self.weights).is_file():
            raise InputError(f"there is no file {self.weights}; weights are a file of torchvision's for ResNet-18.")
        ImageReader(self._size, self.crop, self.fit)

    @property
    def is_pretrained(self) -> bool:
        """Whether the network has learned something before."""
        if self.module is not None:
            return False
        return self.backbone is not None or self.weights is not None or str(self.model) != "resnet-18"

    @property
    def _named_model(self) -> str | Path | None:
        own = self.module is not None or self.backbone is not None
        return None if own or str(self.model) == "resnet-18" else self.model

    def readable(self, model: Any, X: NDArray[Any]) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Return which images can be read; refuses more unreadable ones than may be."""
        own_size = self._size is None and self._named_model is None and self.backbone is None
        reader = ImageReader(None if own_size else (1, 1), self.crop, self.fit)  # which refuses images of two sizes
        found = check_images(X, reader, self.n_workers)
        told = refuse_unreadable(found, len(X), self.max_unreadable)
        if told is None:
            return None
        warnings.warn(told, stacklevel=2)
        return ~found.rows

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
        paths = pd.Series(list(X), dtype=object)
        if paths.isna().any():
            row = int(paths.isna().argmax())
            raise InputError(
                f"{int(paths.isna().sum())} of {len(paths)} paths in {name!r} are missing, first at row {row}."
            )
        no_paths = ~paths.map(lambda path: isinstance(path, str | os.PathLike)).to_numpy(dtype=bool)
        if no_paths.any():
            row = int(no_paths.argmax())
            raise InputError(f"{name!r} holds {paths[row]!r} at row {row}, which is no path of an image.")
        return paths.map(os.fspath).to_numpy(dtype=object)

    def _trial(self, encoder: SourceEncoder) -> Tensor:
        height, width = encoder.reader.image_size  # type: ignore[union-attr]
        return torch.zeros(2, 3, height, width, dtype=torch.uint8)

    def _reader(self, backbone: Backbone | None, X: NDArray[Any]) -> ImageReader:
        size = self._size
        if size is None and backbone is not None and str(self.model) != "resnet-18":
            size = backbone.module.image_size  # type: ignore[assignment]
        reader = ImageReader(size, self.crop, self.fit)
        if size is None:  # new images are resized to what training has met
            reader = replace(reader, image_size=reader(X[:1]).values.shape[2:])
        return reader

    def _backbone(self) -> Backbone:
        if self.backbone is not None:
            return Backbone.of_function(self.backbone, self._size or USUAL_SIZE)
        return image_backbone_of(self.model, self.weights, self.download)

    def _rebuilt_backbone(self, config: Any, tensors: Mapping[str, Tensor]) -> Backbone:
        if self.backbone is None:
            return super()._rebuilt_backbone(config, tensors)
        own = Backbone.of_function(self.backbone, self._size or USUAL_SIZE)
        check_fit(own.module, tensors, "the network's file", assign=False)
        return own

    def _fresh_backbone(self, rng: np.random.Generator) -> nn.Module:
        if self.backbone is not None:
            return Backbone.of_function(self.backbone, self._size or USUAL_SIZE).module
        from domaincover.networks.image_models import image_backbone

        return image_backbone(self.model, self.weights, download=self.download, generator=rng)

    @property
    def _takes_backbone(self) -> bool:
        return self.module is None

    @property
    def _module_function(self) -> MakeModule | None:
        return self.module

    def _module(self, n_labels: int) -> nn.Module | None:
        return None if self.module is None else Normalised(made_by(self.module, n_labels))


@dataclass(frozen=True, kw_only=True)
class TextNetwork(SourceNetwork):
    """A network on texts: `fit` takes a list or a column of them.

    Parameters
    ----------
    model : path or name
        A folder that `save_pretrained` of transformers wrote, with its tokenizer; or a name on the Hugging Face hub,
        for which `download=True` must permit it.
    features : "word-embeddings" or "encoder"
        The mean word embedding over real tokens, as in the paper, or the mean of a full encoder's last states.
    module : function or None
        In place of the model's network, on the tokens of its tokenizer: takes the number of labels and returns a
        `torch.nn.Module` from token numbers, (text, token), to scores.
    max_tokens : int or None
        Where texts are cut; None is the model's own limit.
    learn, hidden, download, cache, workers
        As for `ImageNetwork`. The paper has 10 hidden units after the mean embedding.
    """

    model: str | Path = ""
    features: Literal["word-embeddings", "encoder"] = "word-embeddings"
    module: MakeModule | None = None
    max_tokens: int | None = None
    kind: Literal["image", "text"] = "text"

    @property
    def is_pretrained(self) -> bool:
        """Whether the network has learned something before."""
        return self.module is None

    @property
    def _named_model(self) -> str | Path | None:
        return self.model

    def check(self) -> None:
        """Refuse settings that cannot be."""
        if not str(self.model):
            raise InputError("a TextNetwork needs a model: a folder with its weights and tokenizer.")
        super().check()
        if self.module is not None and self.learn == "head":
            raise InputError("learn='head' keeps a network as it is, but nothing has trained the module yet.")

    def readable(self, model: Any, X: NDArray[Any]) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Return None: every text can be read."""
        return None

    def _sources(self, X: Any, name: str) -> NDArray[Any]:
        return check_texts(X, name)

    def _trial(self, encoder: SourceEncoder) -> Tensor:
        return torch.full((2, 4), encoder.reader.pad_id)  # type: ignore[union-attr]

    def _reader(self, backbone: Backbone | None, X: NDArray[Any]) -> Reader:  # noqa: ARG002
        assert backbone is not None  # noqa: S101 - for the type checker: texts always have one, for its tokenizer
        return backbone.module.reader(self.max_tokens)  # type: ignore[operator]

    def _backbone(self) -> Backbone:
        return text_backbone_of(self.model, self.features, self.download)

    def _fresh_backbone(self, rng: np.random.Generator) -> nn.Module:  # noqa: ARG002
        from domaincover.networks.text_models import text_backbone

        return text_backbone(self.model, self.features, download=self.download)

    @property
    def _takes_backbone(self) -> bool:
        return True

    @property
    def _module_function(self) -> MakeModule | None:
        return self.module

    def _module(self, n_labels: int) -> nn.Module | None:
        return None if self.module is None else made_by(self.module, n_labels)


def _head(n_features: int, hidden: Sequence[int], n_labels: int, rng: np.random.Generator) -> nn.Module:
    return perceptron(n_features, hidden, n_labels, rng) if hidden else linear(n_features, n_labels, rng)
