"""Text models as backbones: the mean of word embeddings, as in the paper, or a transformer encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import torch
from torch import Tensor, nn

from domaincover.data.readers import TextReader, n_tokens
from domaincover.errors import InputError, check_installed
from domaincover.networks import pretrained
from domaincover.options import TextFeatures

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


NO_LIMIT = 10**6  # tokenizers without a limit state a larger number
DEFAULT_TOKENS = 512  # if neither the model nor its tokenizer states a limit


class Vocabulary(NamedTuple):
    """A tokenizer as JSON text, its padding and special tokens, and the maximum number of tokens per text."""

    tokenizer: str
    pad_id: int
    special_ids: tuple[int, ...]
    max_tokens: int


class TextBackbone(nn.Module):
    """Map token ids (n, tokens) to features (n, n_features)."""

    features: TextFeatures
    n_features: int

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    @property
    def config(self) -> dict[str, Any]:
        """JSON-serializable configuration, which rebuilds the backbone together with its tensors."""
        vocabulary = {**self.vocabulary._asdict(), "special_ids": list(self.vocabulary.special_ids)}
        return {"features": self.features, "vocabulary": vocabulary}

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the backbone as a JSON-serializable configuration and tensors."""
        tensors = pretrained.all_tensors(self)
        tensors.pop("is_word", None)  # told by the vocabulary
        return self.config, tensors

    def reader(self, max_tokens: int | None = None) -> TextReader:
        """Return a reader that encodes texts, truncated to `max_tokens` or the model's own limit."""
        most = self.vocabulary.max_tokens if max_tokens is None else max_tokens
        return TextReader(self.vocabulary.tokenizer, self.vocabulary.pad_id, most)


class WordEmbeddings(TextBackbone):
    """The mean word embedding of a text's tokens, or zeros if it has none.

    Special tokens such as [CLS], [SEP], [MASK] and padding are excluded; unknown words are included.
    """

    features = "word-embeddings"
    is_word: Tensor

    def __init__(self, vocabulary: Vocabulary, embeddings: Tensor) -> None:
        super().__init__(vocabulary)
        check_fits(vocabulary, len(embeddings))
        self.embeddings = nn.Parameter(embeddings)
        is_word = torch.ones(len(embeddings), dtype=torch.bool)
        is_word[list(vocabulary.special_ids)] = False
        self.register_buffer("is_word", is_word, persistent=False)
        self.n_features = embeddings.shape[1]

    def forward(self, ids: Tensor) -> Tensor:
        """Return the features, shape (texts, features)."""
        weights = self.is_word[ids].to(self.embeddings.dtype)
        sums = nn.functional.embedding_bag(ids, self.embeddings, mode="sum", per_sample_weights=weights)
        return sums / weights.sum(dim=1, keepdim=True).clamp(min=1)


class TextEncoder(TextBackbone):
    """The mean of a transformer encoder's last hidden states over all tokens except padding."""

    features = "encoder"

    def __init__(self, vocabulary: Vocabulary, model: PreTrainedModel) -> None:
        super().__init__(vocabulary)
        self._architecture = pretrained.config_as_data(model.config)
        self.encoder: Any = model.get_encoder() if model.config.is_encoder_decoder else model
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None  # it does not contribute to the hidden states
        check_fits(vocabulary, _input_embeddings(self.encoder).num_embeddings)
        self.n_features = int(model.config.hidden_size)

    @property
    def config(self) -> dict[str, Any]:
        """JSON-serializable configuration, which rebuilds the backbone together with its tensors."""
        return {**super().config, "model": self._architecture}

    def reader(self, max_tokens: int | None = None) -> TextReader:
        """Return a reader that encodes texts; `max_tokens` cannot exceed the encoder's limit."""
        if max_tokens is not None and max_tokens > self.vocabulary.max_tokens:
            raise InputError(f"max_tokens is {max_tokens}, but the encoder's limit is {self.vocabulary.max_tokens}.")
        return super().reader(max_tokens)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the features, shape (texts, features)."""
        is_token = ids != self.vocabulary.pad_id
        states = self.encoder(input_ids=ids, attention_mask=is_token.long(), return_dict=True).last_hidden_state
        sums = states.masked_fill(~is_token[:, :, None], 0).sum(dim=1)
        return sums / is_token.sum(dim=1, keepdim=True).clamp(min=1)


def text_backbone(
    model: str | Path, features: TextFeatures = "word-embeddings", *, download: bool = False
) -> TextBackbone:
    """Return a text backbone from a folder or, if `download` permits it, from the Hugging Face hub."""
    if features not in get_args(TextFeatures):
        raise InputError(f"features must be 'word-embeddings' or 'encoder', got {features!r}.")
    check_installed("transformers", "networks on texts", "text")
    folder = pretrained.model_folder(model, download=download)
    config = pretrained.load_config(folder, _kinds(), "a text")
    vocabulary = read_vocabulary(folder, config)
    network, _ = pretrained.complete_model(folder)
    if features == "encoder":
        return TextEncoder(vocabulary, network).eval()
    return WordEmbeddings(vocabulary, _input_embeddings(network).weight.detach()).eval()


def text_backbone_from_state(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TextBackbone:
    """Rebuild a backbone from its configuration and tensors, without executing code or reading other files."""
    check_installed("transformers", "networks on texts", "text")
    vocabulary = vocabulary_from_data(content.get("vocabulary"))
    match content.get("features"):
        case "word-embeddings" if "embeddings" in tensors and tensors["embeddings"].ndim == 2:
            empty = torch.empty(tensors["embeddings"].shape, device="meta")
            backbone: TextBackbone = WordEmbeddings(vocabulary, empty)
        case "encoder":
            backbone = TextEncoder(vocabulary, pretrained.empty_model(content.get("model"), _kinds(), len(tensors)))
        case _:
            raise InputError("the saved network is not a known text model.")
    pretrained.assign_tensors(backbone, tensors, "the saved backbone")
    return backbone.eval()


def _input_embeddings(model: PreTrainedModel) -> nn.Embedding:
    inputs: Any = model.get_input_embeddings()
    return inputs


def _kinds() -> frozenset[str]:
    """Return the text model types of transformers."""
    from transformers.models.auto import modeling_auto as kinds

    return frozenset(kinds.MODEL_FOR_MASKED_LM_MAPPING_NAMES) | frozenset(
        {**kinds.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, **kinds.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES}
    )


def read_vocabulary(folder: str, config: PretrainedConfig) -> Vocabulary:
    """Return the vocabulary of the tokenizer in a model's folder."""
    from transformers import AutoTokenizer

    try:
        with pretrained.quietly():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        content: str = tokenizer.backend_tokenizer.to_str()
    except Exception as error:  # tokenizers fail in different ways
        raise InputError(f"{folder} contains no readable tokenizer: {pretrained.first_line(error)}") from error
    numbers = tokenizer.get_vocab()
    roles = [str(token) for role, token in tokenizer.special_tokens_map.items() if role != "unk_token"]
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    special |= {numbers[token] for token in roles if token in numbers}  # also one that doubles as the unknown token
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers returns an empty one if files are missing
        raise InputError(f"the tokenizer in {folder} has an empty vocabulary; copy tokenizer.json there as well.")
    ends = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.sep_token_id)
    pad_id = next((end for end in ends if end is not None), None)
    if pad_id is None:
        raise InputError(f"the tokenizer in {folder} has no padding token; set its pad_token.")
    limits = (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None))
    max_tokens = min((limit for limit in limits if limit and 0 < limit < NO_LIMIT), default=DEFAULT_TOKENS)
    return Vocabulary(content, pad_id, tuple(sorted(special)), max_tokens)


def vocabulary_from_data(content: Any) -> Vocabulary:
    """Rebuild a vocabulary from saved data."""
    match content:
        case {"tokenizer": str(text), "pad_id": int(pad), "special_ids": [*special], "max_tokens": int(most)}:
            if pad >= 0 and all(isinstance(token, int) and token >= 0 for token in special):
                return Vocabulary(text, pad, tuple(special), most)
    raise InputError("the saved network has no valid vocabulary.")


def check_fits(vocabulary: Vocabulary, n_embeddings: int) -> None:
    """Raise if the tokenizer has tokens without an embedding in the model."""
    n_needed = 1 + max(n_tokens(vocabulary.tokenizer) - 1, vocabulary.pad_id, *vocabulary.special_ids)
    if n_needed > n_embeddings:
        raise InputError(
            f"the tokenizer has {n_needed} tokens but the model embeds {n_embeddings}; use both from one model."
        )
