"""What a study needs to know of a real data set: where it is, how to read it, and how to get it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from domaincover.datasets.dataset_table import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.prepared_files import read_prepared

RealKind = Literal["image", "table", "text"]


class Contents(NamedTuple):
    """The usable examples of a place, and what was wrong with the others.

    `faults` are lines that name the file, and its line where it has lines. `missing` are files of the release that are
    not on the disk: a smaller copy can be used.
    """

    table: DatasetTable
    faults: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class Layout(NamedTuple):
    """A release on the disk: a file by which users recognise it, where it lies in a folder, and its reader.

    The reader's second argument is a folder for decoded arrays, or None.
    """

    example: str
    locate: Callable[[Path], Path | None]
    load: Callable[[Path, Path | None], Contents]


class Carrier(NamedTuple):
    """A package that carries a data set, and the function that takes it from there."""

    package: str
    read: Callable[[], DatasetTable]


@dataclass(frozen=True)
class RealData:
    """A data set with natural domains.

    Attributes
    ----------
    name, title : str
        The name in commands, and the one for humans.
    kind : "image", "table" or "text"
        What `read` returns as X: bytes (n, height, width), a DataFrame, or an array of texts.
    domain_is : str
        What a domain is, such as "speaker".
    min_cell_size : int
        Labels with fewer examples in a domain do not count there.
    prepared : str
        Name of a file with the data in one piece: .npz with X, label and domain, or .parquet.
    how_to_get : str
        What to do if it is not there.
    examples_are : str
        What examples are in words, where `kind` does not say it: recordings are read as images.
    layout : Layout, optional
        The release on the disk.
    carrier : Carrier, optional
        The package that carries the data, or a smaller copy of it.
    """

    name: str
    title: str
    kind: RealKind
    domain_is: str
    min_cell_size: int
    prepared: str
    how_to_get: str
    examples_are: str = ""
    layout: Layout | None = None
    carrier: Carrier | None = None

    def find(self, folder: Path | None) -> Path | None:
        """Return the release or prepared file in a folder or one level below; None if there is none.

        A file may be given instead of its folder.
        """
        if folder is None:
            return None
        folder = Path(os.path.abspath(folder))
        if folder.name == self.prepared and os.path.isfile(folder):  # False, too, where access is denied
            return folder
        for place in (folder, *folders_in(folder)):
            if os.path.isfile(place / self.prepared):
                return place / self.prepared
            if self.layout is not None and (found := self.layout.locate(place)) is not None:
                return found
        return None

    def is_available(self, folder: Path | None) -> bool:
        """Return whether `read(find(folder))` has something to read: in the folder, or in an installed package."""
        return self.find(folder) is not None or self.is_installed

    @property
    def is_installed(self) -> bool:
        """Whether a package that carries the data is installed."""
        return self.carrier is not None and find_spec(self.carrier.package) is not None

    def read(self, place: Path | None, cache: Path | None = None) -> DatasetTable:
        """Return the examples of a place that `find` returned; None is the package. Raise if any file is faulty.

        Decoded images and sounds are kept in the folder `cache`, if given, until their files change.
        """
        table, faults, *_ = self.examine(place, cache)
        if faults:
            others = f", and {len(faults) - 1:,} more like it" if len(faults) > 1 else ""
            raise InputError(f"{faults[0]}{others}; copy it again. `domaincover data check {self.name}` lists them.")
        return table

    def examine(self, place: Path | None, cache: Path | None = None) -> Contents:
        """Return the usable examples of a place, and what is wrong with the others; raise if none is usable."""
        if place is None:
            if self.carrier is None or not self.is_installed:
                raise InputError(f"{self.name}: {self.missing()}")
            found = Contents(self.carrier.read())
        elif place.name == self.prepared or self.layout is None:
            found = Contents(read_prepared(place, self.kind))
        else:
            found = self.layout.load(place, cache)
        if len(found.table.X) == 0:
            reason = found.faults[0] if found.faults else "none is in it, or none that counts"
            where = place or f"the package {self.carrier and self.carrier.package}"
            raise InputError(f"{where} has no usable example of {self.name}: {reason}; copy it again.")
        return found

    def missing(self, folder: Path | None = None) -> str:
        """Say why the data are absent, and how to get them."""
        looked = "" if folder is None else f"not found in {folder} or a folder in it: "
        expected = self.prepared if self.layout is None else f"{self.layout.example} or {self.prepared}"
        return f"{looked}expected {expected}; {self.how_to_get}."


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
