"""What a reader finds in a folder, and data sets in one file.

Such a file is .npz with X, label and domain, or .parquet with the columns label and domain.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.datasets import DatasetTable
from domaincover.errors import InputError

ARRAYS = ("X", "label", "domain")
NEVER_FEATURES = ("label", "domain", "alt_domain", "station", "activity")  # other groupings, or finer labels


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


def read_prepared(path: Path, kind: str) -> DatasetTable:
    """Read a prepared file: images from .npz, texts or features from .parquet."""
    return _read_images(path) if kind == "image" else _read_rows(path, kind)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return X, label and domain of an .npz file; nothing is unpickled."""
    from domaincover.data.tables.faults import reading  # it loads pandas

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


def _read_images(path: Path) -> DatasetTable:
    arrays = read_arrays(path)
    X = arrays["X"]
    if X.ndim != 3 or X.dtype != np.uint8:
        raise InputError(f"{path}: X must be bytes of shape (n, height, width), got {X.dtype} of shape {X.shape}.")
    return DatasetTable(X, arrays["label"], arrays["domain"])


def _read_rows(path: Path, kind: str) -> DatasetTable:
    import pyarrow.parquet as pq

    from domaincover.data.tables.faults import reading

    with reading(path):
        rows = pq.read_table(path).to_pandas(ignore_metadata=True)
    wanted = ("label", "domain", *(["text"] if kind == "text" else []))
    if absent := [name for name in wanted if name not in rows]:
        raise InputError(f"{path} has no column {absent[0]!r}; it has {', '.join(map(str, rows.columns[:12]))}.")
    for name in wanted:
        if (empty := rows[name].isna().to_numpy()).any():
            raise InputError(f"{path}: column {name!r} is empty in row {int(empty.argmax()) + 1}.")
    X = rows["text"].to_numpy(object) if kind == "text" else rows.drop(columns=[*NEVER_FEATURES], errors="ignore")
    return DatasetTable(X, rows["label"], rows["domain"])
