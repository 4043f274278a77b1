"""Decode many small files in parallel threads into one array, which is kept until the files change."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.paper.real.contents import read_arrays
from domaincover.terminal.processes import n_cores


class Files(NamedTuple):
    """Files of examples, with the label and domain of each."""

    paths: Sequence[Path]
    labels: NDArray[Any]
    domains: NDArray[Any]


class Decoded(NamedTuple):
    """The examples whose files can be decoded, and a line for each of the others."""

    table: DatasetTable
    faults: tuple[str, ...]


def decode_files(files: Files, decode: Callable[[Path], NDArray[np.uint8]], recipe: str, cache: Path | None) -> Decoded:
    """Decode all files with a function that returns arrays of one shape, or raises InputError.

    `recipe` names the data set and the version of its decoding: it is part of the name of the file kept in `cache`,
    beside a digest of the files' names, sizes and times. Only faultless arrays are kept.
    """
    kept = None if cache is None else cache / f"{recipe}-{_digest(files.paths)}.npz"
    if kept is not None and kept.is_file():
        try:
            return Decoded(DatasetTable(**_renamed(read_arrays(kept))), ())
        except InputError:  # damaged: decoded again, and replaced
            pass
    with ThreadPoolExecutor(n_cores()) as threads:  # reading, Pillow and the Fourier transform release the lock
        found = [*threads.map(lambda path: _decoded(path, decode), files.paths)]
    usable = np.array([not isinstance(result, str) for result in found], dtype=bool)
    faults = tuple(result for result in found if isinstance(result, str))
    images = [result for result in found if not isinstance(result, str)]
    X = np.stack(images) if images else np.zeros((0, 1, 1), dtype=np.uint8)
    table = DatasetTable(X, files.labels[usable], files.domains[usable])
    if kept is not None and images and not faults:
        content = io.BytesIO()
        np.savez(content, X=X, label=table.y, domain=table.domains)
        write_whole(kept, content.getvalue())
    return Decoded(table, faults)


def _renamed(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {"X": arrays["X"], "y": arrays["label"], "domains": arrays["domain"]}


def _decoded(path: Path, decode: Callable[[Path], NDArray[np.uint8]]) -> NDArray[np.uint8] | str:
    try:
        return decode(path)
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"cannot read {path}: {error.strerror or error}"


def _digest(paths: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for path in paths:
        try:
            state = os.stat(path)
            known = f"{state.st_size}\0{state.st_mtime_ns}"
        except OSError:  # a link to nowhere, say: a fault when it is decoded
            known = "absent"
        digest.update(os.fsencode(f"{path.parent.name}/{path.name}\0{known}\n"))
    return digest.hexdigest()
