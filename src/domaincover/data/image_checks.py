"""Find and report unreadable images before training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.data.examples import Block, LazyExamples
from domaincover.data.images import (
    ImageReader,
    are_pixels,
    bombs_as_errors,
    load_or_reason,
    raise_different_sizes,
    why_unreadable,
)
from domaincover.errors import InputError

IMAGES_AT_ONCE = 64
NAMED = 3


@dataclass(frozen=True, eq=False)
class Unreadable:
    """Images that cannot be read: a mask of rows, and each distinct file with the reason."""

    rows: NDArray[np.bool_] = field(repr=False)
    names: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows with an unreadable image."""
        return int(self.rows.sum())


@dataclass(frozen=True)
class _SizeReader:
    """Decode images completely, but return only their size (height, width) after cropping."""

    reader: ImageReader

    def __call__(self, sources: NDArray[Any]) -> Block:
        sizes = np.zeros((len(sources), 2), dtype=np.int64)
        with bombs_as_errors():
            for row, source in enumerate(sources):
                image = load_or_reason(source)
                if not isinstance(image, str):
                    left, top, right, bottom = self.reader.cropped(image.height, image.width)
                    sizes[row] = bottom - top, right - left
        return Block(sizes, sizes[:, 0] > 0)


def check_images(sources: NDArray[Any], reader: ImageReader, workers: int = 0) -> Unreadable:
    """Decode every distinct image once and return the unreadable ones.

    Raise an InputError if the reader keeps the original size and two images differ in it.
    """
    sources = np.asarray(sources)
    if are_pixels(sources):
        return Unreadable(np.zeros(len(sources), dtype=bool), (), ())
    distinct, codes = _distinct(sources)
    starts = range(0, len(distinct), IMAGES_AT_ONCE)
    chunks = (np.arange(start, min(start + IMAGES_AT_ONCE, len(distinct))) for start in starts)
    blocks = list(LazyExamples(distinct, _SizeReader(reader), workers).blocks(chunks))
    sizes = np.concatenate([np.zeros((0, 2), dtype=np.int64), *(block.values for block in blocks)])
    readable = sizes[:, 0] > 0
    if reader.image_size is None and readable.any():
        first = int(readable.argmax())
        differs = readable & (sizes != sizes[first]).any(axis=1)
        if differs.any():
            other = int(differs.argmax())
            raise_different_sizes(distinct[first], tuple(sizes[first]), distinct[other], tuple(sizes[other]))
    unreadable = distinct[~readable]
    reasons = tuple(why_unreadable(source) or "reading failed once" for source in unreadable)
    return Unreadable(~readable[codes], tuple(map(str, unreadable)), reasons)


def report_unreadable(found: Unreadable, n_total: int, max_share: float) -> str | None:
    """Return a one-line description of unreadable images, None without any; raise if they exceed a share of all."""
    if not found.n_rows:
        return None
    share = found.n_rows / n_total
    named = [f"{name} ({reason})" for name, reason in zip(found.names[:NAMED], found.reasons[:NAMED], strict=True)]
    others = len(found.names) - len(named)
    which = "; ".join(named) + (f"; and {others:,} other{'s' * (others > 1)}" if others > 0 else "")
    count = f"{found.n_rows:,} of {n_total:,} images ({share:.2%}) cannot be read"
    if share > max_share:
        raise InputError(
            f"{count}, more than the {max_share:.2%} that may be left out: {which}; repair or remove them, or allow "
            "more (--max-unreadable)."
        )
    return f"{count} and are left out: {which}."


def _distinct(sources: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct sources in order of appearance and each row's position among them; sources may be missing."""
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(source, len(numbers)) for source in sources], dtype=np.int64)
    distinct = np.empty(len(numbers), dtype=object)
    distinct[:] = list(numbers)
    return distinct, codes
