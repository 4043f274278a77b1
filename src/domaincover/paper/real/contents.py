"""What a reader finds in a folder: examples and faults; arrays in one file; and many small files, decoded once."""

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
    """The usable examples of a place, and what was wrong with the others.

    `faults` are lines that name the file, and its line where it has lines. `missing` are files of the release that are
    not on the disk: a smaller copy can be used. `left_out` has the number of rows that are not for use, by reason.
    """

    table: DatasetTable
    faults: tuple[str, ...] = ()
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
) -> Contents:
    """Decode all files with a function that returns arrays of one shape, or raises InputError.

    `recipe` names the data set and the version of its decoding: it is part of the name of the file kept in `cache`,
    beside a digest of the files' names, sizes and times. Only faultless arrays are kept.
    """
    kept = None if cache is None else cache / f"{recipe}-{_digest(files.paths)}.npz"
    if kept is not None and kept.is_file():
        try:
            arrays = read_arrays(kept)
            return Contents(DatasetTable(arrays["X"], arrays["label"], arrays["domain"]))
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
    return Contents(table, faults)


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
