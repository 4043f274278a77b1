"""Read images with Pillow as RGB arrays of bytes, and texts as token ids.

Images are rotated by their EXIF orientation, converted to RGB, cropped by a share of each side, then resized. Pixels
equal those of the usual pipelines (`convert("RGB")`, bilinear); scaling and normalisation belong to the network. Only
16-bit greyscale, which `convert` would clip, is rescaled; 32-bit greyscale has no fixed range and is not read. Images
that cannot be read are found before training.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.dataset import has_lone_surrogate
from domaincover.data.examples import Block, LazyExamples, row_blocks
from domaincover.errors import InputError, check_choice, check_installed

if TYPE_CHECKING:
    from PIL import Image as PillowImage

    Image = PillowImage.Image
    from tokenizers import Tokenizer

Resize = Literal["stretch", "crop", "imagenet"]
# Formats of plain pixels. Others, such as EPS, would make Pillow start another program.
FORMATS = ("PNG", "JPEG", "MPO", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000")
IMAGENET_MARGIN = 256 / 224  # of the resized to the kept size
# Maximum ratio of the resized to the wanted area before only the centre is resized; a 1 × 4000 strip would cover 4000.
MOST_COVERED = 16
IMAGES_AT_ONCE = 64
NAMED = 3


@dataclass(frozen=True)
class ImageReader:
    """Read images from paths or an array of bytes as an array (images, channels, height, width).

    `image_size` is (height, width); None keeps the original size, which must then be the same for all. `crop` is the
    share of an image that is first cut off each of its four sides. `resize="stretch"` resizes to exactly the given
    size, so that nothing at the edges is lost; `resize="crop"` keeps the aspect ratio and takes the centre;
    `resize="imagenet"` does so after enlarging the size by 8/7 (an image of any size is resized to 256, and the central
    224 are kept), as the transforms of networks pretrained on ImageNet do. An image that cannot be read is black, and
    not `readable`.

    >>> grey = np.full((2, 6, 4), 7, dtype=np.uint8)
    >>> ImageReader(image_size=(3, 2))(grey).values.shape
    (2, 3, 3, 2)
    """

    image_size: tuple[int, int] | None = None
    crop: float = 0.0
    resize: Resize = "stretch"

    def __post_init__(self) -> None:
        size = self.image_size
        if size is not None and (len(size) != 2 or not all(isinstance(s, int | np.integer) and s > 0 for s in size)):
            raise InputError(f"image_size must be a height and a width in pixels, not {size!r}.")
        if size is not None:  # JSON gives a list
            object.__setattr__(self, "image_size", (int(size[0]), int(size[1])))
        if not 0 <= self.crop < 0.5:
            raise InputError(f"crop is the share cut off each side, from 0 to below 0.5, not {self.crop!r}.")
        check_choice("resize", self.resize, get_args(Resize))

    def __call__(self, sources: NDArray[Any]) -> Block:
        """Return the images of the given sources, in order."""
        sources = np.asarray(sources)
        return self._from_array(sources) if are_pixels(sources) else self._from_files(sources)

    def cropped(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Return the box that cropping leaves of an image: left, top, right, bottom."""
        off, down = int(self.crop * width), int(self.crop * height)
        return off, down, width - off, height - down

    def _from_array(self, pixels: NDArray[np.uint8]) -> Block:
        left, top, right, bottom = self.cropped(*pixels.shape[1:3])
        pixels = (pixels[..., None] if pixels.ndim == 3 else pixels)[:, top:bottom, left:right, :3]
        rgb = np.broadcast_to(pixels, (*pixels.shape[:3], 3))
        if self._resizes(rgb.shape[1], rgb.shape[2]):
            from_array = _pillow().fromarray
            rgb = np.stack([np.asarray(self._resized(from_array(np.ascontiguousarray(image)))) for image in rgb])
        return Block(np.ascontiguousarray(rgb.transpose(0, 3, 1, 2)))

    def _from_files(self, sources: NDArray[Any]) -> Block:
        values: NDArray[np.uint8] | None = None
        readable = np.zeros(len(sources), dtype=bool)
        for row, source in enumerate(sources):
            image = load_or_reason(source, self._prepared)
            if isinstance(image, str):
                continue
            pixels = np.asarray(image)
            if values is None:
                values = np.zeros((len(sources), *pixels.shape), dtype=np.uint8)
            elif pixels.shape != values.shape[1:]:
                raise _different_sizes(sources[readable][0], values.shape[1:3], source, pixels.shape[:2])
            values[row], readable[row] = pixels, True
        if values is None:  # the size is unknown if no image could be read
            values = np.zeros((len(sources), *(self.image_size or (1, 1)), 3), dtype=np.uint8)
        return Block(np.ascontiguousarray(values.transpose(0, 3, 1, 2)), None if readable.all() else readable)

    def _prepared(self, image: Image) -> Image:
        box = self.cropped(image.height, image.width)
        image = image.crop(box) if self.crop else image
        return self._resized(image) if self._resizes(image.height, image.width) else image

    def _resizes(self, height: int, width: int) -> bool:
        """Whether an image of this size is resized."""
        return self.image_size is not None and (self.resize == "imagenet" or self.image_size != (height, width))

    def _resized(self, image: Image) -> Image:
        assert self.image_size is not None  # noqa: S101 - for the type checker
        height, width = self.image_size
        bilinear = _pillow().Resampling.BILINEAR
        if self.resize == "stretch":
            return image.resize((width, height), bilinear)
        # The side with the larger scale fits exactly; the other is rounded down, as in torchvision's Resize.
        tall, wide = (round(side * IMAGENET_MARGIN) if self.resize == "imagenet" else side for side in (height, width))
        if tall * image.width <= wide * image.height:
            covering = wide, max(tall, wide * image.height // image.width)
        else:
            covering = max(wide, tall * image.width // image.height), tall
        left, top = (round((covered - wanted) / 2) for covered, wanted in zip(covering, (width, height), strict=True))
        centre = left, top, left + width, top + height
        if covering[0] * covering[1] <= MOST_COVERED * height * width:
            return image.resize(covering, bilinear).crop(centre)
        # Equal up to rounding (one level of 255) without the memory for what is cut off.
        across, down = image.width / covering[0], image.height / covering[1]
        right, bottom = min(centre[2] * across, image.width), min(centre[3] * down, image.height)
        return image.resize((width, height), bilinear, (left * across, top * down, right, bottom))


def are_pixels(sources: NDArray[Any]) -> bool:
    """Return whether sources are an array of images; raise for an array that is neither images nor paths."""
    if sources.dtype.kind in "OUT":
        return False
    is_grey, is_colour = sources.ndim == 3, sources.ndim == 4 and sources.shape[3] in (1, 3, 4)
    if sources.dtype != np.uint8 or not (is_grey or is_colour):
        raise InputError(
            "images in an array must be uint8 of shape (images, height, width) or (images, height, width, 1, 3 or 4), "
            f"not {sources.dtype} of shape {sources.shape}."
        )
    return True


def load_or_reason(source: Any, prepare: Callable[[Image], Image] | None = None) -> Image | str:
    """Return an image file upright, in RGB and prepared, or the reason why not."""
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        return "no path was given"
    pillow = _pillow()
    from PIL import ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(source, formats=_formats()) as image:
                image.load()
                if image.mode == "F" or (image.mode == "I" and image.format == "TIFF"):
                    return "32-bit greyscale, which has no fixed range; save it with 8 or 16 bits"
                with suppress(Exception):  # an unreadable tag is ignored
                    ImageOps.exif_transpose(image, in_place=True)
                rgb = _as_rgb(image)
                return rgb if prepare is None else prepare(rgb)
    except MemoryError:
        raise
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        return f"too large to be safe: more pixels than Pillow's limit of {pillow.MAX_IMAGE_PIXELS:,}"
    except FileNotFoundError:
        return "no such file"
    except Exception as error:  # Pillow can raise almost anything on a corrupt file
        return _reason(source, error)


def _different_sizes(first: Any, first_size: Any, other: Any, other_size: Any) -> InputError:
    """Return the error that names two images of different sizes."""
    one, two = ("{} × {}".format(*size) for size in (first_size, other_size))
    return InputError(
        f"images must have one size where image_size is not given, but {first} is {one} (height × width) and {other} "
        f"is {two}; give image_size (--image-size)."
    )


def _reason(source: Any, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return str(os.strerror(error.errno)).lower()
    if os.path.isfile(source) and os.path.getsize(source) == 0:
        return "the file is empty (0 bytes)"
    if isinstance(error, _pillow().UnidentifiedImageError):
        return "not an image in a known format, or its header is corrupt"
    lines = str(error).splitlines() or [type(error).__name__]
    return f"truncated or corrupt ({lines[0]})"


def _as_rgb(image: Image) -> Image:
    """Return an image in RGB: transparency is dropped, and 16-bit greyscale keeps its upper 8 bits."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):  # convert would clip at 255
        grey = np.clip(np.asarray(image).astype(np.int64), 0, 2**16 - 1) >> 8
        return _pillow().fromarray(grey.astype(np.uint8)).convert("RGB")
    if "transparency" in image.info:
        image = image.convert("RGBA")  # avoids a warning of Pillow; the colours are the same
    return image.convert("RGB")


@cache
def _formats() -> tuple[str, ...]:
    pillow = _pillow()
    pillow.init()
    return tuple(name for name in FORMATS if name in pillow.OPEN)  # some builds of Pillow lack formats


def _pillow() -> Any:
    check_installed("PIL", "image files", "images")
    from PIL import Image

    return Image


def _sizes(reader: ImageReader, sources: NDArray[Any]) -> Block:
    """Decode images completely, but return only their size (height, width) after cropping, or why they cannot be."""
    found = np.empty(len(sources), dtype=object)
    for row, source in enumerate(sources):
        found[row] = image = load_or_reason(source)
        if not isinstance(image, str):
            left, top, right, bottom = reader.cropped(image.height, image.width)
            found[row] = bottom - top, right - left
    return Block(found)


def unreadable_images(
    sources: NDArray[Any], reader: ImageReader, max_share: float, workers: int = 0
) -> tuple[NDArray[np.bool_], str]:
    """Decode every distinct image once; return a mask of rows that cannot be read, and a line that names the first.

    Raise an InputError if these are more than a share of all, or if the reader keeps the original size and two images
    differ in it.
    """
    if are_pixels(sources):
        return np.zeros(len(sources), dtype=bool), ""
    codes, distinct = pd.factorize(np.asarray(sources, dtype=object), use_na_sentinel=False)
    blocks = LazyExamples(distinct, partial(_sizes, reader), workers).blocks(row_blocks(len(distinct), IMAGES_AT_ONCE))
    found = [size for block in blocks for size in block.values]
    sizes = {size: source for source, size in zip(distinct[::-1], found[::-1], strict=True) if type(size) is tuple}
    if reader.image_size is None and len(sizes) > 1:
        (one, first), (two, other) = [*reversed(sizes.items())][:2]
        raise _different_sizes(first, one, other, two)
    reasons = {str(source): why for source, why in zip(distinct, found, strict=True) if isinstance(why, str)}
    rows = np.array([isinstance(why, str) for why in found], dtype=bool)[codes]
    if not reasons:
        return rows, ""
    share, n_others = rows.mean(), len(reasons) - NAMED
    which = "; ".join(f"{name} ({reason})" for name, reason in [*reasons.items()][:NAMED])
    which += f"; and {n_others:,} other{'s' * (n_others > 1)}" if n_others > 0 else ""
    count = f"{rows.sum():,} of {len(rows):,} images ({share:.2%}) cannot be read"
    if share > max_share:
        raise InputError(
            f"{count}, more than the {max_share:.2%} that may be left out: {which}; repair or remove them, or allow "
            "more (--max-unreadable)."
        )
    return rows, f"{count} and are left out: {which}."


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
