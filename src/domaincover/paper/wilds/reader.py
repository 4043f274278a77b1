"""Read four WILDS datasets (Koh et al., 2021) from their released folders.

>>> from domaincover.paper.wilds.reader import RELEASES
>>> list(RELEASES)
['camelyon17', 'fmow', 'iwildcam', 'amazon']
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset, code_names
from domaincover.errors import InputError
from domaincover.options import SourceKind
from domaincover.paper.wilds.releases import RELEASES, Release

__all__ = ["RELEASES", "Release", "WildsData", "missing_images", "read_wilds"]


@dataclass(frozen=True, eq=False)
class WildsData:
    """The examples of a release; images have not been opened.

    Attributes
    ----------
    name, folder : str, Path
        The dataset and its folder.
    kind : "image" or "text"
        Whether `sources` are image paths or texts.
    sources : array of str
        Absolute paths, or the texts themselves.
    labels, domains : arrays of int
        Codes: positions in `label_names` and `domain_names`.
    crop : float
        Share of an image's width and height to cut from each side.
    n_rows : int
        Number of rows of the release, used or not.
    left_out : mapping
        Number of unused rows, by reason.
    """

    name: str
    folder: Path
    kind: SourceKind
    sources: NDArray[np.object_]
    labels: NDArray[np.int64]
    domains: NDArray[np.int64]
    label_names: tuple[str, ...]
    domain_names: tuple[Hashable, ...]
    crop: float
    n_rows: int
    left_out: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.sources)

    def dataset(self, examples: Any = None) -> DomainDataset:
        """Return the data with the given examples, or with the sources as examples."""
        return DomainDataset(
            self.sources if examples is None else examples,
            self.labels,
            self.domains,
            self.label_names,
            self.domain_names,
        )


def read_wilds(name: str, folder: str | os.PathLike[str]) -> WildsData:
    """Read camelyon17, fmow, iwildcam or amazon from its released folder, or from its parent."""
    if name not in RELEASES:
        raise InputError(f"unknown WILDS dataset {name!r}: choose one of {', '.join(RELEASES)}.")
    release = RELEASES[name]
    root = _find(name, release, Path(os.path.abspath(folder)))
    rows = release.read(root)
    n_left_out = sum(rows.left_out.values())
    if len(rows.sources) == 0:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in rows.left_out.items())
        raise InputError(f"{root} has no usable example of {name}: {reasons}.")
    domains = code_names(rows.domains, "domains", len(rows.sources))
    return WildsData(
        name=name,
        folder=root,
        kind=release.kind,
        sources=rows.sources,
        labels=np.array(rows.labels),  # copied, since torch warns about Arrow's read-only memory
        domains=domains.codes,
        label_names=rows.label_names,
        domain_names=domains.names,
        crop=release.crop,
        n_rows=len(rows.sources) + n_left_out,
        left_out=rows.left_out,
    )


def missing_images(data: WildsData) -> NDArray[np.bool_]:
    """Return a mask of examples whose files are missing; folders are listed once, and no file is opened."""
    if data.kind != "image":
        return np.zeros(len(data), dtype=bool)
    folders = {source.rpartition("/")[0] for source in data.sources}
    present = {f"{folder}/{name}" for folder in folders for name in _names_in(folder)}
    return np.array([source not in present for source in data.sources])


def _names_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"cannot list {folder}: {error.strerror}.") from None


def _find(name: str, release: Release, folder: Path) -> Path:
    """Return the released folder: the given one, or its subfolder of the released name."""
    tables = [file for file in release.files if file.endswith(".csv")]
    places = (folder, folder / release.folder)
    for place in places:
        if (place / tables[0]).is_file():
            if absent := [file for file in tables if not (place / file).is_file()]:
                raise InputError(f"{place} has {tables[0]} but not {absent[0]}; copy the rest of {release.folder}.")
            return place
    raise InputError(
        f"{name} was not found in {places[0]} or {places[1]}: expected {', '.join(release.files)}. The public download "
        "host of WILDS has been unreachable for months, so use a copy from elsewhere, such as your institution."
    )
