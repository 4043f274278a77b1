"""What a reader finds in a folder: the examples; arrays in one file; and many small files, decoded once."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.datasets import DatasetTable
from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.terminal.processes import n_cores

ARRAYS = ("X", "label", "domain")


class Contents(NamedTuple):
    """The examples of a place; a reader raises at the first faulty file or line.

    `missing` are files of the release that are not on the disk: a smaller copy can be used. `left_out` has the number
    of rows that are not for use, by reason.
    """

    table: DatasetTable
    missing: tuple[str, ...] = ()
    left_out: Mapping[str, int] = MappingProxyType({})


def packaged_file(package: str, *parts: str) -> Path:
    """Return a file inside an installed package, which is not imported, since it may need many others."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise InputError(f"the package {package} is not installed: pip install --no-deps {package}.")
    return Path(found.submodule_search_locations[0], *parts)


def folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, without hidden ones; none if it cannot be listed."""
    return [folder / name for name in names_in(folder) if not name.startswith(".") and os.path.isdir(folder / name)]


def names_in(folder: Path) -> list[str]:
    """Return the sorted names in a folder; none if it is absent or cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def reject_rows(faulty: NDArray[np.bool_], path: Path, what: str, rows: NDArray[np.int64] | None = None) -> None:
    """Raise if any row is faulty, with the number of faulty rows and the first one; `rows` are the row numbers."""
    if faulty.any():
        first = int(faulty.argmax())
        row = first if rows is None else int(rows[first])
        n_rows = f"{int(faulty.sum()):,} row{'s' if faulty.sum() > 1 else ''}"
        raise InputError(f"{path}: {what} in {n_rows}, first in row {row + 1} below the header; copy the file again.")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return X, label and domain of an .npz file; nothing is unpickled."""
    from domaincover.data.tables.table import reading  # it loads pandas

    try:
        with reading(path), path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ARRAYS if name in file}
    except (ValueError, TypeError, zipfile.BadZipFile) as error:  # TypeError: a single array cannot be entered
        raise InputError(f"{path} is corrupt or not an .npz file of plain arrays; copy it again.") from error
    if absent := [name for name in ARRAYS if name not in arrays]:
        raise InputError(f"{path} has no array {absent[0]!r}; it needs {', '.join(ARRAYS)}.")
    if len({len(array) if array.ndim else -1 for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(f"{path}: its arrays must have a row per example, but they are {sizes}.")
    return arrays


class Files(NamedTuple):
    """Files of examples, with the label and domain of each."""

    paths: Sequence[Path]
    labels: NDArray[Any]
    domains: NDArray[Any]


def decode_files(
    files: Files, decode: Callable[[Path], NDArray[np.uint8]], recipe: str, cache: Path | None
) -> DatasetTable:
    """Decode all files with a function that returns arrays of one shape, or raises InputError.

    `recipe` names the data set and the version of its decoding: it is part of the name of the file kept in `cache`,
    beside a digest of the files' names, sizes and times.
    """
    kept = None if cache is None else cache / f"{recipe}-{_digest(files.paths)}.npz"
    if kept is not None and kept.is_file():
        try:
            arrays = read_arrays(kept)
            return DatasetTable(arrays["X"], arrays["label"], arrays["domain"])
        except InputError:  # damaged: decoded again, and replaced
            pass
    with ThreadPoolExecutor(n_cores()) as threads:  # reading, Pillow and the Fourier transform release the lock
        images = [*threads.map(lambda path: _decoded(path, decode), files.paths)]
    table = DatasetTable(np.stack(images), files.labels, files.domains)
    if kept is not None:
        content = io.BytesIO()
        np.savez(content, X=table.X, label=table.y, domain=table.domains)
        write_whole(kept, content.getvalue())
    return table


def _decoded(path: Path, decode: Callable[[Path], NDArray[np.uint8]]) -> NDArray[np.uint8]:
    try:
        return decode(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; copy it again.") from error


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
