"""What a reader of a data set finds in a folder, and how folders are listed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from domaincover.datasets.dataset_table import DatasetTable
from domaincover.errors import InputError


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
