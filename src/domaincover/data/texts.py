"""Read texts as token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.dataset import has_lone_surrogate
from domaincover.data.examples import Block
from domaincover.errors import InputError, check_installed

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class TextReader:
    """Encode texts as token ids, truncated to `max_tokens` and padded with `pad_id` to the longest.

    `tokenizer` is the content of a `tokenizer.json`, whose own truncation and padding settings are ignored.
    """

    tokenizer: str
    pad_id: int
    max_tokens: int

    def __call__(self, sources: Sequence[str] | NDArray[Any]) -> Block:
        """Return the token ids, shape (texts, tokens)."""
        encoded = _tokenizer(self.tokenizer, self.pad_id, self.max_tokens).encode_batch_fast(list(sources))
        width = max((len(text.ids) for text in encoded), default=0)
        ids = np.array([text.ids for text in encoded], dtype=np.int64).reshape(len(encoded), width)
        # Models need at least one position, and some tokenizers return none for an empty text.
        return Block(ids if width else np.full((len(encoded), 1), self.pad_id, dtype=np.int64))


def check_texts(values: Iterable[Any], name: str = "text") -> NDArray[np.object_]:
    """Return the texts as an array of str; raise for values that are not text. Empty texts are allowed.

    >>> check_texts(["good", ""]).tolist()
    ['good', '']
    """
    if isinstance(values, str) or getattr(values, "ndim", 1) != 1:
        raise InputError(f"{name} must be a list or column of texts, one per example.")
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    texts = np.empty(len(listed), dtype=object)
    texts[:] = listed
    missing = [not isinstance(text, str) and pd.api.types.is_scalar(text) and pd.isna(text) for text in listed]
    _reject(texts, missing, f"of column {name!r} are missing", "drop these rows, or fill in empty text ('')")
    others = [not isinstance(text, str) for text in listed]
    _reject(texts, others, f"of column {name!r} are not text, such as {{}}", "convert them to str if intended")
    broken = [has_lone_surrogate(text) for text in listed]
    _reject(texts, broken, f"of column {name!r} contain a lone surrogate", "read the file in its own encoding")
    return texts


def _reject(texts: NDArray[np.object_], wrong: list[bool], fault: str, remedy: str) -> None:
    if any(wrong):
        first = wrong.index(True)
        described = fault.replace("{}", repr(texts[first])[:50])
        raise InputError(f"{sum(wrong)} of {len(texts)} values {described}, first at row {first}; {remedy}.")


def n_tokens(tokenizer: str) -> int:
    """Return the number of token ids of a tokenizer: its highest id plus one."""
    return 1 + max(_built(tokenizer).get_vocab(with_added_tokens=True).values(), default=-1)


@lru_cache(maxsize=4)
def _tokenizer(content: str, pad_id: int, max_tokens: int) -> Tokenizer:
    """Build a tokenizer once per process, since that takes longer than encoding a block of texts."""
    tokenizer = _built(content)
    n_special = tokenizer.num_special_tokens_to_add(is_pair=False)
    if max_tokens <= n_special:
        raise InputError(f"max_tokens must be above {n_special}, the number of special tokens; got {max_tokens}.")
    tokenizer.enable_truncation(max_tokens)
    tokenizer.enable_padding(pad_id=pad_id)
    return tokenizer


def _built(content: str) -> Tokenizer:
    check_installed("tokenizers", "texts", "text")
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(content)
    except Exception as error:  # the library raises plain Exceptions
        raise InputError(f"the tokenizer cannot be read: {str(error).splitlines()[0]}.") from error
