"""The real data sets of a study: which are found, how much of each is used, and the networks on them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domaincover.data.feature_cache import default_cache_folder
from domaincover.datasets.dataset_table import DatasetTable
from domaincover.errors import InputError
from domaincover.paper.real.catalogue import REAL
from domaincover.paper.source_datasets import make_dataset, mini_lm_folder
from domaincover.paper.study_datasets import DATASET_GROUPS, Sizes, TableDataset

# Half of the domains are unseen; of 16, ten train, since a promise at confidence 0.9 takes nine. A domain with fewer
# rows than both maxima is divided in their proportion.
SIZES = {
    "audiomnist": Sizes(30, 30, 500, 500),
    "malaria": Sizes(100, 100, 300, 150),
    "wisdm": Sizes(25, 25, 400, 400),
    "rotated-digits": Sizes(10, 6, 600, 300),
    "reviews": Sizes(10, 6, 1000, 1000),
    "wages": Sizes(26, 25, 1000, 1000),
}


@dataclass(frozen=True)
class RealFiles:
    """Reads a real data set where it was found; None is its package."""

    name: str
    place: str | None

    def __call__(self) -> DatasetTable:
        """Return images, rows or texts, labels and domains."""
        return REAL[self.name].read(None if self.place is None else Path(self.place), default_cache_folder() / "real")


def real_sources(
    folder: Path | None, wanted: Collection[str], named: Collection[str], note: Callable[[str], object]
) -> tuple[TableDataset, ...]:
    """Return the real data sets found in a folder or an installed package; one that is named must be there.

    Without a folder, these are the named ones that a package carries.
    """
    if folder is None:
        wanted = [name for name in named if name in REAL and REAL[name].is_installed]
    elif not folder.exists():
        raise InputError(f"--data: there is no folder {folder}.")
    found = []
    for name in DATASET_GROUPS["real"]:
        if name not in wanted:
            continue
        lacking = _lacking(name, folder)
        if lacking is None:
            found.append(real_dataset(name, REAL[name].find(folder)))
        elif name in named:
            raise InputError(f"{name}: {lacking}")
        else:
            note(f"{name} is left out: {lacking}")
    return tuple(found)


def real_dataset(name: str, place: Path | None, **settings: Any) -> TableDataset:
    """Return a real data set for studies, read from a place that was found; None is its package."""
    data = REAL[name]
    own = {**SIZES[name]._asdict(), "min_cell_size": data.min_cell_size, **settings}
    return make_dataset(name, RealFiles(name, None if place is None else str(place)), kind=data.kind, **own)


def _lacking(name: str, folder: Path | None) -> str | None:
    """Return what a data set lacks and how to get it; None if it can be used."""
    data = REAL[name]
    if not data.is_available(folder):
        return data.missing(folder)
    if data.kind == "text":
        try:
            mini_lm_folder()
        except InputError as error:
            return str(error)
    return None
