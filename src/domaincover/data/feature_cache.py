"""Disk cache of features, computed once for every distinct text or image.

A folder per model and settings contains files with the digests and features of some thousand items each. They are
written atomically and never change, so an interrupted run can be resumed and several processes can share the folder; at
worst they compute an item twice. A file that cannot be read is removed, and its features are computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.files import write_whole

KEY_BYTES = 16
FILE_ITEMS = 1_000
Keys = list[bytes]
Compute = Callable[[NDArray[np.int64]], Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]]]


def default_cache_folder() -> Path:
    """Return $DOMAINCOVER_CACHE, or else domaincover in the user's cache folder."""
    if own := os.environ.get("DOMAINCOVER_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or home_folder() / ".cache") / "domaincover"


def home_folder() -> Path:
    """Return the user's home folder."""
    try:
        return Path.home()
    except RuntimeError:  # no home folder, as in some containers; writing there fails with a warning
        return Path(os.devnull)


def text_keys(texts: Iterable[str]) -> Keys:
    """Return a digest of every text."""
    return [_digest(text.encode()).digest() for text in texts]


def file_keys(paths: Iterable[str | Path]) -> Keys:
    """Return a digest of the content of every file; an unreadable file gets a unique random key."""
    return [*map(_file_digest, paths)]


def array_keys(images: Iterable[NDArray[Any]]) -> Keys:
    """Return a digest of the values, type and shape of every image."""
    return [_digest(f"{image.dtype.str}{image.shape}".encode(), image).digest() for image in images]


def model_key(config: Mapping[str, Any], tensors: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return a key for a feature extractor: a digest of its configuration, settings and weights."""
    digest = _digest(json.dumps([config, settings], sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_as_array(tensor).data)
    return digest.hexdigest()


class FeatureCache:
    """Cache of features in a folder, a file for every `FILE_ITEMS` items; with None, features are only computed."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)

    def features(self, model: str, keys: Keys, n_features: int, compute: Compute) -> NDArray[np.float32]:
        """Return the features of all rows, shape (rows, features).

        `compute` is called with the first row of every distinct key that is not cached, and yields blocks of rows and
        features. Rows of NaN mark items that cannot be read; they are not cached.
        """
        folder = None if self.folder is None else self.folder / model
        known = {} if folder is None else _kept_in(folder, n_features)
        first = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
        missing = np.array(sorted(row for key, row in first.items() if key not in known), dtype=np.int64)
        new: dict[bytes, NDArray[np.float32]] = {}
        try:
            for rows, features in compute(missing) if len(missing) else ():
                new |= zip((keys[row] for row in rows), features, strict=True)
                if len(new) >= FILE_ITEMS:
                    folder = _keep(folder, new)
                    known, new = known | new, {}
        finally:  # also after Ctrl-C
            _keep(folder, new)
        known |= new
        return np.array([known[key] for key in keys], dtype=np.float32).reshape(len(keys), n_features)


def _keep(folder: Path | None, features: Mapping[bytes, NDArray[np.float32]]) -> Path | None:
    """Write features to a file of their own; return the folder, None if it cannot be written to."""
    read = {key: values for key, values in features.items() if not np.isnan(values).any()}
    if folder is None or not read:
        return folder
    content = io.BytesIO()
    keys = np.frombuffer(b"".join(read), np.uint8).reshape(-1, KEY_BYTES)
    np.savez(content, keys=keys, features=np.array([*read.values()], dtype=np.float32))
    try:
        write_whole(folder / f"{secrets.token_hex(8)}.npz", content.getbuffer())
    except InputError as error:  # the features may have taken hours and are still returned
        warnings.warn(f"features are not kept: {error}", stacklevel=3)
        return None
    return folder


def _kept_in(folder: Path, n_features: int) -> dict[bytes, NDArray[np.float32]]:
    """Return the features that are kept in a folder, by key."""
    known: dict[bytes, NDArray[np.float32]] = {}
    for path in sorted(folder.glob("*.npz")):
        try:
            with open(path, "rb") as file:
                kept: Any = np.load(file, allow_pickle=False)
                keys, features = kept["keys"], kept["features"]  # whose checksums are compared
            if keys.shape != (len(features), KEY_BYTES) or features.shape != (len(keys), n_features):
                raise ValueError("its shapes differ")
            known |= zip((key.tobytes() for key in keys), features, strict=True)
        except Exception as error:  # damaged archives fail in many ways
            warnings.warn(f"{path} cannot be read ({error}), so its features are computed again.", stacklevel=3)
            with contextlib.suppress(OSError):
                path.unlink()
    return known


def _digest(*content: bytes | NDArray[Any]) -> Any:
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for part in content:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return digest


def _file_digest(path: str | Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, _digest).digest()
    except (OSError, ValueError):  # such as a zero byte in the path
        return secrets.token_bytes(KEY_BYTES)


def _as_array(tensor: Any) -> NDArray[Any]:
    """Return a numpy array or torch tensor as a contiguous array, without importing torch."""
    if not isinstance(tensor, np.ndarray):
        tensor = tensor.detach().cpu()
        # numpy has no bfloat16; float32 represents it exactly.
        tensor = (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    return np.ascontiguousarray(tensor)
