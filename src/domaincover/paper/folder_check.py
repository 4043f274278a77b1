"""Count what a data set on disk holds: domains, labels, cells, and files that are missing or cannot be used."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset, check_min_cell_size
from domaincover.errors import InputError
from domaincover.paper.catalogue import NaturalData
from domaincover.paper.study_datasets import as_dataset

MOST_NAMES = 5  # of missing or faulty files
EXAMPLES_ARE = {"image": "images", "text": "texts", "table": "rows"}


class LabelCheck(NamedTuple):
    """Counts of one label, or of all: examples, domains, and cells that are kept or dropped."""

    label: str
    examples: int
    domains: int
    cells_kept: int
    cells_dropped: int
    examples_kept: int

    @classmethod
    def of(cls, label: str, counts: NDArray[np.int64], min_cell_size: int) -> LabelCheck:
        """Count from the examples of each cell, domains × labels."""
        kept = counts >= min_cell_size
        n_present = int((counts > 0).sum())
        return cls(
            label=label,
            examples=int(counts.sum()),
            domains=int(counts.any(axis=1).sum()),
            cells_kept=int(kept.sum()),
            cells_dropped=n_present - int(kept.sum()),
            examples_kept=int(counts[kept].sum()),
        )


@dataclass(frozen=True, kw_only=True)
class FolderCheck:
    """Counts of a data set.

    A cell, one label in one domain, is kept if it has at least `min_cell_size` examples. `missing` files belong to the
    release but are not on the disk; `faults` are files or lines that cannot be used. Both are counted, and the first
    ones named. The paper's numbers of domains are None for data sets that it does not use.
    """

    name: str
    folder: str
    kind: str
    examples_are: str
    domain_is: str
    rows: int
    left_out: dict[str, int]
    examples: int
    domains: int
    min_cell_size: int
    labels: list[LabelCheck]
    cells_kept: int
    cells_dropped: int
    examples_kept: int
    domains_left: int
    paper_train_domains: int | None = None
    paper_unseen_domains: int | None = None
    enough_domains: bool | None = None
    empty_texts: int = 0
    missing: int = 0
    first_missing: list[str] = field(default_factory=list)
    faults: int = 0
    first_faults: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a dictionary, with labels as a list of dictionaries."""
        return {**asdict(self), "labels": [label._asdict() for label in self.labels]}


def check_folder(data: NaturalData, folder: Path | None, min_cell_size: int | None = None) -> FolderCheck:
    """Count what a folder holds of a data set, or its package if there is no folder.

    Every file is read, but images of WILDS are only looked for.
    """
    if folder is not None and not folder.exists():
        raise InputError(f"there is no folder {folder}.")
    place = data.find(folder)
    if place is None and folder is not None:
        raise InputError(f"{data.name} was {data.missing(folder)}")
    table, faults, missing, left_out = data.examine(place)
    X = table.X
    if place is not None and data.kind == "image" and X.dtype == object:  # paths
        missing = tuple(path.removeprefix(f"{place}/") for path in X[missing_images(X)])
    counts = _counts(as_dataset(table), data.min_cell_size if min_cell_size is None else min_cell_size)
    is_of_paper, (n_train, n_unseen, *_) = data.group == "wilds", data.sizes
    return FolderCheck(
        **counts,
        name=data.name,
        folder=str(place or f"the package {data.package or 'domaincover'}"),
        kind=data.kind,
        examples_are=data.examples_are or EXAMPLES_ARE[data.kind],
        domain_is=data.domain_is,
        rows=len(X) + sum(left_out.values()),
        left_out=dict(left_out),
        paper_train_domains=n_train if is_of_paper else None,
        paper_unseen_domains=n_unseen if is_of_paper else None,
        enough_domains=counts["domains_left"] >= n_train + n_unseen if is_of_paper else None,
        empty_texts=sum(not text.strip() for text in X) if data.kind == "text" else 0,
        missing=len(missing),
        first_missing=list(missing[:MOST_NAMES]),
        faults=len(faults),
        first_faults=list(faults[:MOST_NAMES]),
    )


def missing_images(paths: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return a mask of images whose files are missing; folders are listed once, and no file is opened."""
    folders = {path.rpartition("/")[0] for path in paths}
    present = {f"{folder}/{name}" for folder in folders for name in _listed(folder)}
    return np.array([path not in present for path in paths], dtype=bool)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"cannot list {folder}: {error.strerror}.") from None


def _counts(data: DomainDataset, min_cell_size: int) -> dict[str, Any]:
    check_min_cell_size(min_cell_size)
    counts = data.cell_counts()
    own = LabelCheck.of("all", counts, min_cell_size)._asdict()
    labels = [LabelCheck.of(str(name), counts[:, [k]], min_cell_size) for k, name in enumerate(data.label_names)]
    n_left = int((counts >= min_cell_size).any(axis=1).sum())
    del own["label"]
    return own | {"min_cell_size": min_cell_size, "labels": labels, "domains_left": n_left}
