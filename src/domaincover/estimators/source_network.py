"""Networks on images and texts: the model, how sources are encoded for it, and which part of it is trained."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from domaincover.data.encoding import TableEncoder
from domaincover.data.examples import (
    Compute,
    LazyExamples,
    Reader,
    array_keys,
    cached_features,
    default_cache_folder,
    default_workers,
    file_keys,
    model_key,
    text_keys,
)
from domaincover.errors import InputError, check_choice
from domaincover.estimators.network import NetworkInputs, made_by
from domaincover.networks import image_models, text_models
from domaincover.networks.image_models import Normalised
from domaincover.networks.perceptrons import empty_perceptron, perceptron
from domaincover.networks.pretrained import assign_tensors, copy_tensors, model_folder
from domaincover.options import Learn, LearnedPart, SourceKind

MakeModule = Callable[[int], nn.Module]
MakeBackbone = Callable[[], nn.Module]
NAMED = 3


@dataclass(frozen=True, kw_only=True)
class SourceNetwork(NetworkInputs):
    """Base class of networks on images and texts.

    With `learn="all"` the entire network is trained, and examples are read anew for every batch. With "head" it is
    frozen: its features are computed once, cached on disk, and only the layers after them are trained, which is much
    cheaper. "auto" trains the head if the network is pretrained and no GPU is found, and all otherwise.
    """

    learn: Learn = "auto"
    hidden: int | Sequence[int] = ()
    download: bool = False
    cache: str | Path | None = "auto"
    workers: int | None = None
    kind: SourceKind = "image"
    model: str | Path = ""
    module: MakeModule | None = None

    reads_sources: ClassVar = True

    def check(self) -> None:
        """Raise if settings are invalid."""
        check_choice("learn", self.learn, get_args(Learn))
        if not all(isinstance(width, int | np.integer) and width >= 1 for width in self._widths):
            raise InputError(f"hidden must be one or several positive integers, got {self.hidden!r}.")
        if self.workers is not None and self.workers < 0:
            raise InputError(f"workers must be 0 or more, got {self.workers}.")
        if self._named_model is not None:
            model_folder(self._named_model, download=self.download)

    @property
    def _widths(self) -> tuple[int, ...]:
        hidden: Any = self.hidden
        return tuple(hidden) if isinstance(hidden, Sequence) else (hidden,)

    def device(self, device: str) -> str:
        """Return the device: by default a GPU if there is one."""
        return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device

    def stacks(self, device: str) -> bool:
        """Whether several networks are trained as one stack: only heads are."""
        return self.learns(device) == "head"

    def learns(self, device: str) -> LearnedPart:
        """Return which part of the network is trained."""
        if self.learn != "auto":
            return self.learn
        return "head" if self.is_pretrained and self.device(device) == "cpu" else "all"

    def in_words(self, device: str) -> str:
        """Describe what will be trained, and why."""
        if self.learns(device) == "all":
            slow = " This is slow without a GPU; with a pretrained network, training a head is enough."
            where = self.device(device)
            return f"Training the entire network on {where}." + (
                slow if where == "cpu" and self.learn == "auto" else ""
            )
        why = "" if self.learn == "head" else "No GPU was found: "
        return (
            f"{why}training a head on the frozen network's features, which are computed once and cached; "
            "learn='all' (--learn all) trains the entire network."
        )

    @property
    def n_workers(self) -> int:
        """Number of worker processes that read examples."""
        return default_workers() if self.workers is None else self.workers

    def checked(self, model: Any, X: Any, *, reset: bool) -> NDArray[Any]:
        """Return the sources as an array, from a list, an array or a table of one column, whose name is learned."""
        names = getattr(X, "columns", None)
        if names is not None:
            if len(names) != 1:
                raise InputError(
                    f"{self.kind}s must be one column of a table, got {len(names)}: {', '.join(map(str, names))}."
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

    def fitted_encoder(self, X: NDArray[Any], device: str, name: str = "", standardize: bool = True) -> SourceEncoder:
        """Return an encoder fitted to the sources."""
        is_head = self.learns(device) == "head"
        needs_backbone = is_head or self.module is None or self.kind == "text"  # whose tokenizer reads texts
        backbone = self._backbone() if needs_backbone else None
        encoder = self._encoder(X, backbone, self.device(device))
        encoder.kinds_ = {name: self.kind} if name else {}
        encoder.config_ = None if backbone is None or is_head else backbone.config_
        if is_head:
            encoder.backbone_ = backbone
            encoder.scaler_ = TableEncoder(scale=standardize).fit(encoder.features(X))
        return encoder

    def frozen_features(self, X: NDArray[Any], device: str) -> NDArray[np.float32]:
        """Return the frozen network's features of the sources, before standardisation."""
        backbone = self._backbone()
        encoder = self._encoder(X, backbone, self.device(device))
        encoder.backbone_ = backbone
        return encoder.features(X)

    def _encoder(self, X: NDArray[Any], backbone: Backbone | None, device: str) -> SourceEncoder:
        encoder = SourceEncoder(self.kind, self._reader(backbone, X), self.workers, self.cache)
        encoder.use(device)
        return encoder

    def last_features(
        self, encoder: SourceEncoder, network: nn.Module, X: NDArray[Any], device: str
    ) -> NDArray[np.float32]:
        """Return frozen features, or those before the head of a network that was trained as a whole.

        There are none of a user's own network. NaN for sources that cannot be read.
        """
        encoder.use(device)
        if not encoder.is_lazy:
            return np.asarray(encoder.encode(X))
        if self.module is not None:
            return np.empty((len(X), 0), dtype=np.float32)
        backbone: Any = network.backbone
        compute = features_by_block(backbone, encoder._lazy(X), lengths=encoder.lengths(X), device=device)
        found = np.empty((len(X), backbone.n_features), dtype=np.float32)
        for rows, features in compute(np.arange(len(X))):
            found[rows] = features
        return found

    def make(self, encoder: SourceEncoder, n_labels: int, rng: np.random.Generator) -> nn.Module:
        """Return an initialised network: a head, or the entire network."""
        if not encoder.is_lazy:
            return perceptron(encoder.n_features_out, self._widths, n_labels, rng)
        if self.module is None:
            backbone = self._backbone(rng).module
            return with_head(backbone, perceptron(backbone.n_features, self._widths, n_labels, rng))
        network = self._made(n_labels).eval()
        reader: Any = encoder.reader
        trial = torch.zeros(2, 3, *reader.image_size) if self.kind == "image" else torch.full((2, 4), reader.pad_id)
        with torch.no_grad():
            shape = tuple(network(trial).shape)
        if shape != (2, n_labels):
            raise InputError(
                f"module must return one score per label, {n_labels}; for two {self.kind}s it returns {shape}."
            )
        return network

    def _made(self, n_labels: int) -> nn.Module:
        """Return the network of the user's function."""
        network = made_by(self.module, n_labels)
        return Normalised(network) if self.kind == "image" else network

    def tensors(self, network: nn.Module) -> dict[str, Tensor]:
        """Return a network's tensors by name."""
        if self.module is not None or not hasattr(network, "backbone"):
            return network.state_dict()
        parts: Any = network
        backbone = parts.backbone.state()[1]
        head = {f"head.{name}": tensor for name, tensor in parts.head.state_dict().items()}
        return {f"backbone.{name}": tensor for name, tensor in backbone.items()} | head

    def rebuilt(self, encoder: SourceEncoder, n_labels: int, tensors: Mapping[str, Tensor], name: str) -> nn.Module:
        """Rebuild a network from saved tensors."""
        if not encoder.is_lazy:
            return _saved_head(encoder.n_features_out, self._widths, n_labels, tensors, name)
        if self.module is not None:
            with torch.random.fork_rng(devices=[]):  # its initial weights are discarded
                network = self._made(n_labels)
            copy_tensors(network, tensors, name)
            return network
        of_backbone, of_head = (
            {key[len(part) :]: value for key, value in tensors.items() if key.startswith(part)}
            for part in ("backbone.", "head.")
        )
        own = getattr(self, "backbone", None)
        backbone = Backbone.from_state(self.kind, json.loads(encoder.config_ or "null"), of_backbone, own).module
        head = _saved_head(backbone.n_features, self._widths, n_labels, of_head, name)
        return with_head(backbone, head)

    def unread_in_words(self, X: NDArray[Any], unread: NDArray[np.bool_]) -> str:
        """Describe the unreadable sources."""
        named = ", ".join(map(str, X[unread][:NAMED])) + (", …" if unread.sum() > NAMED else "")
        return f"{int(unread.sum())} of {len(X)} {self.kind}s cannot be read ({named}); their sets contain every label."

    @property
    @abstractmethod
    def _named_model(self) -> str | Path | None:
        """The folder or hub name of the model, if any."""

    @property
    @abstractmethod
    def is_pretrained(self) -> bool:
        """Whether the network is pretrained."""

    @abstractmethod
    def _sources(self, X: Any, name: str) -> NDArray[Any]: ...

    @abstractmethod
    def _reader(self, backbone: Backbone | None, X: NDArray[Any]) -> Reader: ...

    @abstractmethod
    def _backbone(self, rng: np.random.Generator | None = None) -> Backbone:
        """Return the pretrained network, cached; given a generator a new one, which may be trained."""


def _saved_head(
    n_features: int, hidden: Sequence[int], n_labels: int, tensors: Mapping[str, Tensor], name: str
) -> nn.Module:
    head = empty_perceptron(n_features, hidden, n_labels)
    assign_tensors(head, tensors, name)
    return head


class SourceEncoder(BaseEstimator):
    """Read sources lazily to train an entire network, or compute standardised features to train a head."""

    kinds_: dict[str, SourceKind]  # the column's name, if any, and what it holds
    config_: str | None  # of the network that is trained
    backbone_: Any  # the frozen network, if only a head is trained
    scaler_: TableEncoder  # of its features
    _device = "cpu"

    def __init__(
        self, kind: SourceKind = "image", reader: Any = None, workers: int | None = None, cache: Any = "auto"
    ) -> None:
        self.kind, self.reader, self.workers, self.cache = kind, reader, workers, cache

    def use(self, device: str) -> str:
        """Set the device, falling back to the CPU if there is no GPU, and return it."""
        self._device = "cpu" if device.startswith("cuda") and not torch.cuda.is_available() else device
        return self._device

    @property
    def is_lazy(self) -> bool:
        """Whether examples are read on demand rather than encoded as features."""
        return not hasattr(self, "backbone_")

    @property
    def n_features_out(self) -> int:
        """Number of input features of the head."""
        return int(self.scaler_.n_features_out)

    def encode(self, X: NDArray[Any]) -> NDArray[np.float32] | LazyExamples:
        """Return lazy examples, or features, which are NaN for unreadable sources."""
        if self.is_lazy:
            return self._lazy(X)
        features = self.features(X)
        encoded = self.scaler_.encode(features)
        encoded[np.isnan(features).any(axis=1)] = np.nan
        return encoded

    def _lazy(self, X: NDArray[Any]) -> LazyExamples:
        workers = default_workers() if self.workers is None else self.workers
        return LazyExamples(X, self.reader, workers if self.kind == "image" and X.dtype == object else 0)

    def lengths(self, X: NDArray[Any]) -> NDArray[np.int64] | None:
        """Return the lengths of texts, None of images."""
        return np.array([len(text) for text in X]) if self.kind == "text" else None

    def features(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Return the frozen network's features, from the cache if possible."""
        cache = default_cache_folder() / "features" if self.cache == "auto" else self.cache
        lazy, module = self._lazy(X), self.backbone_.module
        key = self.backbone_.key({"reader": repr(self.reader) if self.kind == "image" else str(self.reader.max_tokens)})
        keys = {"text": text_keys, "image": file_keys if X.dtype == object else array_keys}[self.kind](X)

        compute = features_by_block(module, lazy, lengths=self.lengths(X), device=self._device)
        return cached_features(cache, key, keys, module.n_features, compute)


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
        return _cached_backbone(kind, model, 0, _stamp(model), **options)
    return _cached_backbone.__wrapped__(kind, model, rng, None, **options)


@lru_cache(maxsize=4)
def _cached_backbone(kind: SourceKind, model: str | Path, rng: Any, _: Any, **options: Any) -> Backbone:
    if kind == "text":
        return Backbone.of(kind, text_models.text_backbone(model, **options))
    return Backbone.of(kind, image_models.image_backbone(model, **options, generator=rng))


def _stamp(path: str | Path) -> Any:
    """Return the names, sizes and modification times of a file or of the files in a folder."""
    if not Path(path).exists():
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
    """Return a function that computes frozen features of given rows, for `cached_features`.

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
