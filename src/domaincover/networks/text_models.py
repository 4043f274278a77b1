"""Text models as backbones: the mean of word embeddings, as in the paper, or a transformer encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from domaincover.data.texts import TextReader
from domaincover.errors import InputError
from domaincover.networks.pretrained import (
    config_as_data,
    config_from_data,
    first_line,
    load_config,
    load_model,
    model_folder,
    transformers_for,
)
from domaincover.networks.text_vocabulary import Vocabulary, check_fits, read_vocabulary, vocabulary_from_data
from domaincover.options import TextFeatures

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


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
        self._architecture = config_as_data(model.config)
        self.encoder = _encoder_alone(model)
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
    transformers_for("text")
    folder = model_folder(model, download=download)
    config = load_config(folder)
    if config.model_type not in _kinds():
        raise InputError(f"{folder} contains a {config.model_type!r}, which is not a text model.")
    vocabulary = read_vocabulary(folder, config)
    if features == "encoder":
        return TextEncoder(vocabulary, _complete_model(folder)).eval()
    return WordEmbeddings(vocabulary, _embeddings(folder, config)).eval()


def backbone_state(backbone: TextBackbone) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a backbone as a JSON-serializable configuration and tensors."""
    named: dict[str, Tensor] = dict(backbone.named_parameters())
    if isinstance(backbone, TextEncoder):
        named |= backbone.named_buffers()  # a state_dict omits non-persistent ones, such as positions
    return backbone.config, {name: tensor.detach() for name, tensor in named.items()}


def text_backbone_from_state(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TextBackbone:
    """Rebuild a backbone from its configuration and tensors, without executing code or reading other files."""
    transformers_for("text")
    vocabulary = vocabulary_from_data(content.get("vocabulary"))
    match content.get("features"):
        case "word-embeddings" if "embeddings" in tensors and tensors["embeddings"].ndim == 2:
            empty = torch.empty(tensors["embeddings"].shape, device="meta")
            backbone: TextBackbone = WordEmbeddings(vocabulary, empty)
        case "encoder":
            backbone = TextEncoder(vocabulary, _without_memory(_architecture(content.get("model"), len(tensors))))
        case _:
            raise InputError("the saved network is not a known text model.")
    _assign(backbone, tensors)
    return backbone.eval()


def _embeddings(folder: str, config: PretrainedConfig) -> Tensor:
    """Return the matrix of word embeddings; if found by name, no other weights are read."""
    model = _without_memory(config)
    inputs = _input_embeddings(model)
    name = next(name for name, part in model.named_modules() if part is inputs) + ".weight"
    found = _tensors_named(name, folder)
    if len(found) == 1 and found[0].shape == inputs.weight.shape:
        return found[0].float()
    return _input_embeddings(_complete_model(folder)).weight.detach()


def _tensors_named(name: str, folder: str) -> list[Tensor]:
    """Return the tensors of a given name in a folder; models with a head add a prefix such as `bert.` to names."""
    found = []
    for path in sorted(Path(folder).glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as weights:
                found += [weights.get_tensor(key) for key in weights.keys() if f".{key}".endswith(f".{name}")]  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise InputError(f"the weights in {path} could not be read: {first_line(error)}") from error
    return found


def _input_embeddings(model: PreTrainedModel) -> nn.Embedding:
    inputs: Any = model.get_input_embeddings()
    return inputs


def _complete_model(folder: str) -> PreTrainedModel:
    """Return the model in a folder; raise if weights are missing, which transformers would initialise at random."""
    with torch.random.fork_rng(devices=[]):
        model, missing = load_model(folder)
    lacking = sorted(name for name in missing if not name.startswith("pooler."))  # the pooler is not used
    if lacking:
        raise InputError(f"{folder} lacks the weights {lacking[0]!r}; pass a folder with the complete network.")
    return model


def _without_memory(config: PretrainedConfig) -> PreTrainedModel:
    """Return a model on the meta device, whose tensors have shapes but no memory."""
    from transformers import AutoModel

    try:
        with torch.device("meta"):
            return AutoModel.from_config(config, trust_remote_code=False)
    except Exception as error:  # model types validate their options in different ways
        raise InputError(f"a {config.model_type!r} cannot be built: {first_line(error)}") from error


def _architecture(content: Any, n_tensors: int) -> PretrainedConfig:
    """Return a saved configuration; reject more layers than tensors, since building them takes time and memory."""
    config = config_from_data(content, _kinds())
    depths = (value for name, value in content.items() if "layers" in name and isinstance(value, int | float))
    if max(depths, default=0) > n_tensors:
        raise InputError("the saved weights do not match the saved architecture.")
    return config


def _kinds() -> frozenset[str]:
    """Return the text model types of transformers."""
    from transformers.models.auto import modeling_auto as kinds

    return frozenset(kinds.MODEL_FOR_MASKED_LM_MAPPING_NAMES) | frozenset(
        {**kinds.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, **kinds.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES}
    )


def _encoder_alone(model: PreTrainedModel) -> PreTrainedModel:
    """Return the encoder without parts that do not contribute to the hidden states."""
    encoder: Any = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def _assign(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Replace the tensors on the meta device by the given ones, without copying."""
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    expected = {name: _shape(tensor) for name, tensor in named.items() if tensor.is_meta}
    if expected != {name: _shape(tensor) for name, tensor in tensors.items()}:
        raise InputError("the saved weights do not match the saved architecture.")
    for name, tensor in tensors.items():
        owner, _, leaf = name.rpartition(".")
        part = module.get_submodule(owner)
        setattr(part, leaf, nn.Parameter(tensor) if leaf in part._parameters else tensor)


def _shape(tensor: Tensor) -> tuple[bool, torch.Size]:
    return tensor.is_floating_point(), tensor.shape
