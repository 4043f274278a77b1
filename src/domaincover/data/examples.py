"""Examples that are read on demand, such as images by path or texts, and a disk cache of their features.

Features are computed once for every distinct text or image. A folder per model and settings contains files with the
digests and features of some thousand items each. They are written atomically and never change, so an interrupted run
can be resumed and several processes can share the folder; at worst they compute an item twice. A file that cannot be
read is removed, and its features are computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.files import write_whole

KEPT_BYTES = 1 << 28  # of images in memory while a network trains; more are read anew in every epoch
KEY_BYTES = 16
FILE_ITEMS = 1_000
Keys = list[bytes]
Compute = Callable[[NDArray[np.int64]], Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]]]


class Block(NamedTuple):
    """A block of examples as an array, and a mask of those that could be read (None means all)."""

    values: NDArray[Any]
    readable: NDArray[np.bool_] | None = None

    def some(self, rows: Any) -> Block:
        """Return some rows of a block."""
        readable = None if self.readable is None else self.readable[rows]
        return Block(self.values[rows], None if readable is None or readable.all() else readable)


# Reads sources such as paths or texts, in order; must be plain data that can be sent to worker processes.
Reader = Callable[[NDArray[Any]], Block]


class LazyExamples:
    """Sources and their reader; indexed like an array, and read only by `blocks`.

    >>> class Lengths:
    ...     def __call__(self, sources):
    ...         return Block(np.array([len(source) for source in sources]))
    >>> words = LazyExamples(np.array(["a", "bb", "ccc"], dtype=object), Lengths())
    >>> [block.values.tolist() for block in words[1:].blocks([np.array([0, 1]), np.array([0])])]
    [[2, 3], [2]]
    """

    def __init__(self, sources: NDArray[Any], read: Reader, workers: int = 0, in_memory: Block | None = None) -> None:
        self.sources, self.read, self.workers = sources, read, workers
        self._in_memory = in_memory

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, rows: Any) -> LazyExamples:
        in_memory = None if self._in_memory is None else self._in_memory.some(rows)
        return LazyExamples(self.sources[rows], self.read, self.workers, in_memory)

    def blocks(self, rows: Iterable[NDArray[np.int64]]) -> Iterator[Block]:
        """Yield the examples of each block of rows; worker processes, if any, read ahead."""
        if self._in_memory is not None:
            yield from map(self._in_memory.some, rows)
        elif self.workers == 0:
            for some in rows:
                yield self.read(self.sources[some])
        else:
            yield from self._blocks_by_workers(rows)

    def kept(self) -> LazyExamples:
        """Return image files of which all fit into `KEPT_BYTES` as images in memory; other examples as they are."""
        if len(self) == 0 or self.sources.dtype != object:
            return self
        one = self.read(self.sources[:1]).values
        if one.dtype != np.uint8 or one.nbytes * len(self) > KEPT_BYTES:
            return self
        blocks = list(self.blocks(row_blocks(len(self), 64)))
        readable = [np.ones(len(values), bool) if mask is None else mask for values, mask in blocks]
        kept = Block(np.concatenate([values for values, _ in blocks]), np.concatenate(readable))
        return LazyExamples(self.sources, self.read, in_memory=kept)

    def _blocks_by_workers(self, rows: Iterable[NDArray[np.int64]]) -> Iterator[Block]:
        import torch
        from torch.utils.data import DataLoader

        loader: Any = DataLoader(
            _Rows(self.sources, self.read),  # type: ignore[arg-type]
            batch_sampler=rows,  # type: ignore[arg-type]
            num_workers=self.workers,
            collate_fn=_identity,
            generator=torch.Generator(),  # otherwise each pass would advance the global generator
        )
        try:
            for block in loader:
                if isinstance(block, InputError):
                    raise block
                yield block
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise InputError(
                "a worker process that reads examples was killed, possibly out of memory; use fewer workers."
            ) from None


class _Rows:
    """Dataset for the workers of a DataLoader.

    Texts are stored as one array of bytes: with Python strings, reference counting would make every worker copy the
    memory pages it reads.
    """

    def __init__(self, sources: NDArray[Any], read: Reader) -> None:
        self._are_texts = sources.dtype == object and all(type(source) is str for source in sources)
        self._sources = np.array([*map(os.fsencode, sources)]) if self._are_texts else sources
        self._read = read

    def __len__(self) -> int:
        return len(self._sources)

    def __getitems__(self, rows: NDArray[np.int64]) -> Block | InputError:
        some = self._sources[rows]
        if self._are_texts:
            some = np.array([*map(os.fsdecode, some), None], dtype=object)[:-1]  # None keeps a single text whole
        try:
            return self._read(some)
        except InputError as error:  # returned, since the loader would wrap it in a traceback
            return error


def _identity(block: Any) -> Any:
    return block


def row_blocks(n_rows: int, rows_at_once: int) -> Iterator[NDArray[np.int64]]:
    """Yield consecutive row indices in blocks of `rows_at_once`."""
    for start in range(0, n_rows, rows_at_once):
        yield np.arange(start, min(start + rows_at_once, n_rows))


def fingerprint(examples: NDArray[Any] | LazyExamples) -> bytes:
    """Return a digest of examples; for lazy ones, of their sources (with size and time of files) and reader."""
    digest = hashlib.blake2b(digest_size=16)
    values: Any = examples
    if isinstance(examples, LazyExamples):
        digest.update(repr(examples.read).encode())
        values = examples.sources
    if values.dtype == object:
        for source in values:
            digest.update(f"{source}\0{_stamp(source)}\0".encode("utf-8", "surrogateescape"))
    else:
        digest.update(np.ascontiguousarray(values).data)
    return digest.digest()


def _stamp(source: Any) -> str:
    """Return a file's size and modification time; an empty string for a text."""
    try:
        found = os.stat(source)
    except (OSError, ValueError, TypeError):
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"


def default_workers() -> int:
    """Return the default number of worker processes: the number of cores, at most four."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 4)


def default_cache_folder() -> Path:
    """Return $DOMAINCOVER_CACHE, or else domaincover in the user's cache folder."""
    if own := os.environ.get("DOMAINCOVER_CACHE"):
        return Path(own)
    try:
        home = Path.home()
    except RuntimeError:  # no home folder, as in some containers; writing there fails with a warning
        home = Path(os.devnull)
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "domaincover"


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


def cached_features(
    folder: str | Path | None, model: str, keys: Keys, n_features: int, compute: Compute
) -> NDArray[np.float32]:
    """Return the features of all rows, shape (rows, features), and keep them in a folder; with None, only compute them.

    `compute` is called with the first row of every distinct key that is not cached, and yields blocks of rows and
    features. Rows of NaN mark items that cannot be read; they are not cached.
    """
    place = None if folder is None else Path(folder) / model
    known = {} if place is None else _kept_in(place, n_features)
    first = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
    missing = np.array(sorted(row for key, row in first.items() if key not in known), dtype=np.int64)
    new: dict[bytes, NDArray[np.float32]] = {}
    try:
        for rows, features in compute(missing) if len(missing) else ():
            new |= zip((keys[row] for row in rows), features, strict=True)
            if len(new) >= FILE_ITEMS:
                place = _keep(place, new)
                known, new = known | new, {}
    finally:  # also after Ctrl-C
        _keep(place, new)
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
