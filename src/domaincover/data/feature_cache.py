"""Disk cache of features, computed once for every distinct text or image.

A folder per model and settings contains shards: files with the digests and features of up to some thousand items.
Shards are written atomically and never change, so an interrupted run can be resumed and several processes can share
the folder; at worst they compute an item twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from domaincover.errors import InputError
from domaincover.files import write_whole

KEY_BYTES = 16
Keys = NDArray[np.void]
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
    return _joined(_digest(text.encode()).digest() for text in texts)


def file_keys(paths: Iterable[str | Path]) -> Keys:
    """Return a digest of the content of every file; an unreadable file gets a unique random key."""
    return _joined(map(_file_digest, paths))


def array_keys(images: Iterable[NDArray[Any]]) -> Keys:
    """Return a digest of the values, type and shape of every image."""
    return _joined(_digest(f"{image.dtype.str}{image.shape}".encode(), image).digest() for image in images)


def model_key(config: Mapping[str, Any], tensors: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return a key for a feature extractor: a digest of its configuration, settings and weights."""
    digest = _digest(json.dumps([config, settings], sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_as_array(tensor).data)
    return digest.hexdigest()


class FeatureCache:
    """Cache of features in a folder, a shard for every `shard_items` items; with None, features are only computed."""

    def __init__(self, folder: str | Path | None, shard_items: int = 1_000) -> None:
        self.folder = None if folder is None else Path(folder)
        self.shard_items = shard_items

    def features(self, model: str, keys: Keys, n_features: int, compute: Compute) -> NDArray[np.float32]:
        """Return the features of all rows, shape (rows, features).

        `compute` is called with the first row of every distinct key that is not cached, and yields blocks of rows and
        features. Rows of NaN mark items that cannot be read; they are not cached.
        """
        distinct, first, inverse = np.unique(keys.view(f"S{KEY_BYTES}"), return_index=True, return_inverse=True)
        result = np.full((len(keys), n_features), np.nan, dtype=np.float32)
        folder = None if self.folder is None else self.folder / model
        known = _fill_from_disk(folder, distinct, first, result)
        missing = np.sort(first[~known])
        unsaved: list[NDArray[np.int64]] = []
        try:
            for rows, features in compute(missing) if len(missing) else ():
                result[rows] = features
                unsaved.append(rows[~np.isnan(features).any(axis=1)])
                if sum(map(len, unsaved)) >= self.shard_items:
                    folder = _write_shard(folder, keys, result, unsaved)
                    unsaved = []
        finally:  # also after Ctrl-C
            _write_shard(folder, keys, result, unsaved)
        again = np.flatnonzero(first[inverse] != np.arange(len(keys)))
        result[again] = result[first[inverse[again]]]
        return result


def _write_shard(
    folder: Path | None, keys: Keys, features: NDArray[np.float32], unsaved: Sequence[NDArray[np.int64]]
) -> Path | None:
    """Write some rows as a shard; return the folder, None if it cannot be written to."""
    if folder is None or not any(map(len, unsaved)):
        return folder
    rows = np.concatenate(unsaved)
    own = keys[rows].view(np.uint8).reshape(-1, KEY_BYTES)
    checksum = {"checksum": _digest(own, features[rows]).hexdigest()}
    try:
        content = save({"keys": own, "features": features[rows]}, checksum)
        write_whole(folder / f"{secrets.token_hex(8)}.safetensors", content)
    except InputError as error:  # the features may have taken hours and are still returned
        warnings.warn(f"features are not kept: {error}", stacklevel=3)
        return None
    return folder


def _fill_from_disk(
    folder: Path | None, distinct: NDArray[np.bytes_], first: NDArray[np.intp], result: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Fill in the cached features of the first row of each distinct key; return a mask of the keys found."""
    known = np.zeros(len(distinct), dtype=bool)
    for path in [] if folder is None else sorted(folder.glob("*.safetensors")):
        if known.all():
            break
        try:
            with safe_open(path, framework="numpy") as shard:
                keys = _checked(shard.get_tensor("keys"), np.uint8, (-1, KEY_BYTES))
                at = np.searchsorted(distinct, sought := keys.view(distinct.dtype)[:, 0]).clip(max=len(distinct) - 1)
                is_new = (distinct[at] == sought) & ~known[at]
                if not is_new.any():  # features are read only if there are any to add
                    continue
                features = _checked(shard.get_tensor("features"), np.float32, (len(keys), result.shape[1]))
                if (shard.metadata() or {}).get("checksum") != _digest(keys, features).hexdigest():
                    raise ValueError("its checksum differs")
        except OSError as error:
            warnings.warn(f"features in {path} cannot be read: {error.strerror or error}.", stacklevel=3)
            continue
        except (SafetensorError, ValueError) as error:
            warnings.warn(f"{path} is corrupt ({error}), so its features are computed again.", stacklevel=3)
            with contextlib.suppress(OSError):
                path.unlink()
            continue
        result[first[at[is_new]]] = features[is_new]
        known[at[is_new]] = True
    return known


def _checked(tensor: NDArray[Any], kind: type[np.generic], shape: tuple[int, int]) -> NDArray[Any]:
    """Return a tensor of a shard; raise ValueError if it has another type or shape."""
    if tensor.dtype != kind or tensor.ndim != 2 or tensor.shape[1] != shape[1] or shape[0] not in (-1, len(tensor)):
        raise ValueError(f"a tensor of {tensor.dtype} of shape {tensor.shape}")
    return np.ascontiguousarray(tensor)


def _digest(*content: bytes | NDArray[Any]) -> Any:
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for part in content:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return digest


def _joined(digests: Iterable[bytes]) -> Keys:
    return np.frombuffer(b"".join(digests), dtype=f"V{KEY_BYTES}")


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
