"""Networks on images and texts: the model, its preprocessing, and which part of it is trained."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from domaincover.data.examples import Reader, default_workers
from domaincover.errors import InputError, check_choice
from domaincover.estimators.backbones import (
    Backbone,
)
from domaincover.estimators.network_inputs import NetworkInputs
from domaincover.estimators.source_encoder import SourceEncoder
from domaincover.estimators.table_network import check_fit
from domaincover.networks.features import Scorer
from domaincover.networks.perceptrons import empty_perceptron, linear, perceptron
from domaincover.networks.pretrained import model_folder
from domaincover.options import Learn, LearnedPart, SourceKind

MakeModule = Callable[[int], nn.Module]
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
        backbone = self._backbone() if is_head or self._takes_backbone else None
        encoder = SourceEncoder(self.kind, self._reader(backbone, X), self.workers, self.cache)
        return encoder.fit(X, backbone, is_head, self.device(device), name, standardize)

    def frozen_features(self, X: NDArray[Any], device: str) -> NDArray[np.float32]:
        """Return the frozen network's features of the sources, before standardisation."""
        backbone = self._backbone()
        encoder = SourceEncoder(self.kind, self._reader(backbone, X), self.workers, self.cache)
        return encoder.freeze(backbone, self.device(device)).features(X)

    def make(self, encoder: SourceEncoder, n_labels: int, rng: np.random.Generator) -> nn.Module:
        """Return an initialised network: a head, or the entire network."""
        if not encoder.is_lazy:
            return _head(encoder.n_features_out, self._widths, n_labels, rng)
        if (module := self._module(n_labels)) is not None:
            self._check_module(module, encoder, n_labels)
            return module
        backbone = self._fresh_backbone(rng)
        return Scorer(backbone, _head(backbone.n_features, self._widths, n_labels, rng))  # type: ignore[arg-type]

    def _check_module(self, module: nn.Module, encoder: SourceEncoder, n_labels: int) -> None:
        """Raise if a user's network does not return one score per label."""
        module.eval()
        with torch.no_grad():
            shape = tuple(module(self._trial(encoder)).shape)
        if shape != (2, n_labels):
            raise InputError(
                f"module must return one score per label, {n_labels}; for two {self.kind}s it returns {shape}."
            )

    def tensors(self, network: nn.Module) -> dict[str, Tensor]:
        """Return a network's tensors by name."""
        if not isinstance(network, Scorer) or self._module_function is not None:
            return network.state_dict()
        _, backbone = Backbone.of(self.kind, network.backbone).state()
        head = {f"head.{name}": tensor for name, tensor in network.head.state_dict().items()}
        return {f"backbone.{name}": tensor for name, tensor in backbone.items()} | head

    def rebuilt(self, encoder: SourceEncoder, n_labels: int, tensors: Mapping[str, Tensor], name: str) -> nn.Module:
        """Rebuild a network from saved tensors."""
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
    def readable(self, model: Any, X: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return a mask of readable sources; None means all."""

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


def _head(n_features: int, hidden: Sequence[int], n_labels: int, rng: np.random.Generator) -> nn.Module:
    return perceptron(n_features, hidden, n_labels, rng) if hidden else linear(n_features, n_labels, rng)
