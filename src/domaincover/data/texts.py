"""Texts as numbered tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.examples import Block
from domaincover.errors import InputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MISSING = "texts need the tokenizers package: pip install 'domaincover[text]'."


@dataclass(frozen=True)
class TextReader:
    """Turns texts into rows of token numbers, cut at `max_tokens` and filled up with `pad_id` to the longest row.

    The tokenizer is given as its JSON text, as `tokenizer.json` holds it; what that says on cutting and
    filling does not count.
    """

    tokenizer: str
    pad_id: int
    max_tokens: int

    def __call__(self, sources: Sequence[str] | NDArray[Any]) -> Block:
        """Return the token numbers, (text, token)."""
        encoded = _tokenizer(self.tokenizer, self.pad_id, self.max_tokens).encode_batch_fast(list(sources))
        width = max((len(text.ids) for text in encoded), default=0)
        ids = np.array([text.ids for text in encoded], dtype=np.int64).reshape(len(encoded), width)
        # Models need at least one position, and some tokenizers make none of an empty text.
        return Block(ids if width else np.full((len(encoded), 1), self.pad_id, dtype=np.int64))


def check_texts(values: Iterable[Any], name: str = "text") -> NDArray[np.object_]:
    """Return the texts as an array of str; refuse whatever is no text. An empty text is one.

    >>> check_texts(["good", ""]).tolist()
    ['good', '']
    """
    if isinstance(values, str) or getattr(values, "ndim", 1) != 1:
        raise InputError(f"{name} must be a list or column of texts, one per example.")
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    texts = np.empty(len(listed), dtype=object)
    texts[:] = listed
    _refuse(texts, _is_null, f"of column {name!r} are missing", "drop these rows, or fill in empty text ('')")
    _refuse(
        texts, _is_no_text, f"of column {name!r} are no text, such as {{}}", "convert them to str if they are meant"
    )
    _refuse(
        texts, _is_broken, f"of column {name!r} hold half a character (a lone surrogate)", "decode the file once more"
    )
    return texts


def _refuse(texts: NDArray[np.object_], is_wrong: Callable[[Any], bool], fault: str, remedy: str) -> None:
    wrong = np.fromiter(map(is_wrong, texts), dtype=bool, count=len(texts))
    if wrong.any():
        first = int(wrong.argmax())
        told = fault.replace("{}", repr(texts[first])[:50])
        raise InputError(f"{int(wrong.sum())} of {len(texts)} values {told}, first at row {first}; {remedy}.")


def _is_null(text: Any) -> bool:
    return not isinstance(text, str) and pd.api.types.is_scalar(text) and bool(pd.isna(text))


def _is_no_text(text: Any) -> bool:
    return not isinstance(text, str)


def _is_broken(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def n_tokens(tokenizer: str) -> int:
    """Return how many token numbers a tokenizer may give: one more than its highest."""
    return 1 + max(_built(tokenizer).get_vocab(with_added_tokens=True).values(), default=-1)


@lru_cache(maxsize=4)
def _tokenizer(content: str, pad_id: int, max_tokens: int) -> Tokenizer:
    """Build a tokenizer once in every process, since that takes longer than reading a block of texts."""
    tokenizer = _built(content)
    n_special = tokenizer.num_special_tokens_to_add(is_pair=False)
    if max_tokens <= n_special:
        raise InputError(f"max_tokens must be above {n_special}, or no word fits in; got {max_tokens}.")
    tokenizer.enable_truncation(max_tokens)
    tokenizer.enable_padding(pad_id=pad_id)
    return tokenizer


def _built(content: str) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InputError(MISSING) from error
    try:
        return Tokenizer.from_str(content)
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"the tokenizer cannot be read: {str(error).splitlines()[0]}.") from error
