"""Check whether a released folder suffices for the paper's experiment, without opening images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from domaincover.data.cells import check_min_cell_size
from domaincover.paper.wilds.reader import RELEASES, WildsData, missing_images

MOST_MISSING_NAMES = 5


class LabelCheck(NamedTuple):
    """Counts of one label: examples, domains, and cells that are kept or dropped."""

    label: str
    examples: int
    domains: int
    cells_kept: int
    cells_dropped: int
    examples_kept: int


class WildsCheck(NamedTuple):
    """Counts of a released folder, from its tables.

    A cell, one label in one domain, is kept if it has at least `min_cell_size` examples. `missing` and `first_missing`
    are images that are not on the disk.
    """

    name: str
    folder: str
    kind: str
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
    paper_train_domains: int
    paper_unseen_domains: int
    enough_domains: bool
    empty_texts: int
    missing: int
    first_missing: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as a dictionary, with labels as a list of dictionaries."""
        return {**self._asdict(), "labels": [label._asdict() for label in self.labels]}


def check_wilds(data: WildsData, min_cell_size: int = 101) -> WildsCheck:
    """Count domains, labels, cells and missing images."""
    check_min_cell_size(min_cell_size)
    release = RELEASES[data.name]
    counts = data.dataset().cell_counts()
    kept = counts >= min_cell_size
    present = counts > 0
    missing = data.sources[missing_images(data)]
    domains_left = int(kept.any(axis=1).sum())
    return WildsCheck(
        name=data.name,
        folder=str(data.folder),
        kind=data.kind,
        domain_is=release.domain_is,
        rows=data.n_rows,
        left_out=dict(data.left_out),
        examples=len(data),
        domains=len(data.domain_names),
        min_cell_size=min_cell_size,
        labels=[
            LabelCheck(
                label=name,
                examples=int(counts[:, k].sum()),
                domains=int(present[:, k].sum()),
                cells_kept=int(kept[:, k].sum()),
                cells_dropped=int((present & ~kept)[:, k].sum()),
                examples_kept=int(counts[kept[:, k], k].sum()),
            )
            for k, name in enumerate(data.label_names)
        ],
        cells_kept=int(kept.sum()),
        cells_dropped=int((present & ~kept).sum()),
        examples_kept=int(counts[kept].sum()),
        domains_left=domains_left,
        paper_train_domains=release.n_train_domains,
        paper_unseen_domains=release.n_unseen_domains,
        enough_domains=domains_left >= release.n_train_domains + release.n_unseen_domains,
        empty_texts=int(np.sum(data.sources == "")),
        missing=len(missing),
        first_missing=[source.removeprefix(f"{data.folder}/") for source in missing[:MOST_MISSING_NAMES]],
    )
