"""Encode images and texts for a network: pixels or tokens read on demand, or frozen features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from domaincover.data.encoding import TableEncoder
from domaincover.data.examples import LazyExamples, Reader, default_workers
from domaincover.data.feature_cache import FeatureCache, array_keys, default_cache_folder, file_keys, text_keys
from domaincover.estimators.backbones import Backbone
from domaincover.networks.features import features_by_block
from domaincover.options import SourceKind


class SourceEncoder(BaseEstimator):
    """Read sources lazily to train an entire network, or compute standardised features to train a head."""

    def __init__(
        self,
        kind: SourceKind = "image",
        reader: Reader | None = None,
        workers: int | None = None,
        cache: str | Path | None = "auto",
    ) -> None:
        self.kind = kind
        self.reader = reader
        self.workers = workers
        self.cache = cache

    def fit(
        self,
        X: NDArray[Any],
        backbone: Backbone | None,
        freezes: bool,
        device: str,
        name: str,
        standardize: bool = True,
    ) -> SourceEncoder:
        """Learn the scale of the features, if the backbone is frozen."""
        self.kinds_ = {name: self.kind} if name else {}
        self.config_ = None if backbone is None or freezes else backbone.config_
        self._device = device
        if freezes:
            assert backbone is not None  # noqa: S101 - for the type checker
            self.freeze(backbone, device)
            self.scaler_ = TableEncoder(scale=standardize).fit(self.features(X))
        return self

    def freeze(self, backbone: Backbone, device: str) -> SourceEncoder:
        """Set the frozen network that computes features."""
        self.backbone_, self._device = backbone, device
        return self

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
        assert self.reader is not None  # noqa: S101 - for the type checker
        workers = default_workers() if self.workers is None else self.workers
        return LazyExamples(X, self.reader, workers if self.kind == "image" and X.dtype == object else 0)

    def features(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Return the frozen network's features, from the cache if possible."""
        cache = default_cache_folder() / "features" if self.cache == "auto" else self.cache
        lazy, module = self._lazy(X), self.backbone_.module
        key = self.backbone_.key({"reader": repr(self.reader) if self.kind == "image" else str(self.reader.max_tokens)})  # type: ignore[union-attr]
        keys = {"text": text_keys, "image": file_keys if X.dtype == object else array_keys}[self.kind](X)

        lengths = np.array([len(text) for text in X]) if self.kind == "text" else None
        compute = features_by_block(module, lazy, lengths=lengths, device=getattr(self, "_device", "cpu"))
        return FeatureCache(cache).features(key, keys, module.n_features, compute)  # type: ignore[arg-type]
