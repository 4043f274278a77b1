"""Networks on texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.data.examples import Reader
from domaincover.data.readers import check_texts
from domaincover.errors import InputError, check_installed
from domaincover.estimators.source_network import Backbone, SourceNetwork, backbone_of
from domaincover.options import SourceKind, TextFeatures


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
