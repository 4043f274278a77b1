"""Vocabularies of text models: the tokenizer and its special tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from domaincover.data.texts import n_tokens
from domaincover.errors import InputError
from domaincover.networks.pretrained import first_line, quietly

if TYPE_CHECKING:
    from transformers import PretrainedConfig

NO_LIMIT = 10**6  # tokenizers without a limit state a larger number
DEFAULT_TOKENS = 512  # if neither the model nor its tokenizer states a limit


class Vocabulary(NamedTuple):
    """A tokenizer as JSON text, its padding and special tokens, and the maximum number of tokens per text."""

    tokenizer: str
    pad_id: int
    special_ids: tuple[int, ...]
    max_tokens: int


def read_vocabulary(folder: str, config: PretrainedConfig) -> Vocabulary:
    """Return the vocabulary of the tokenizer in a model's folder."""
    from transformers import AutoTokenizer

    try:
        with quietly():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        content: str = tokenizer.backend_tokenizer.to_str()
    except Exception as error:  # tokenizers fail in different ways
        raise InputError(f"{folder} contains no readable tokenizer: {first_line(error)}") from error
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
