"""The command `data check`: domains, labels and cells of a data set on disk, and files that are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domaincover.errors import InputError, suggestion
from domaincover.terminal.command_options import one_of
from domaincover.terminal.messages import text_width
from domaincover.terminal.text import table_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from domaincover.paper.catalogue import NaturalData

MOST_NAMES = 5  # of missing files
EXAMPLES_ARE = {"image": "images", "text": "texts", "table": "rows"}
HEADS = ("Label", "Examples", "Domains", "Cells kept", "Cells dropped", "Examples kept")


def names_on_disk() -> list[str]:
    """Return the data sets that `data check` knows."""
    from domaincover.paper.catalogue import CATALOGUE

    return list(CATALOGUE)


data = typer.Typer(help="Check data sets on disk.", no_args_is_help=True)


@data.callback()
def _group() -> None:
    """Keep `check` a subcommand, though it is the only one."""


@data.command("check")
def data_check(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A data set: of WILDS, of `paper real`, or a packaged table.",
            autocompletion=one_of(names_on_disk),
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="The released folder, or its parent; may be omitted for data that a package carries.",
            show_default=False,
        ),
    ] = None,
    min_cell_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Labels with fewer examples in a domain are dropped there; 101 for WILDS, 20 to 101 for the others.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check a data set on disk: count domains, labels and cells, and find files that are missing or cannot be read.

    Images of WILDS (camelyon17, fmow, iwildcam, amazon) are not opened. Of the other data sets (audiomnist, malaria,
    wisdm, rotated-digits, reviews, wages) every file is read.

    Example: domaincover data check audiomnist AudioMNIST
    """
    from domaincover.paper.catalogue import CATALOGUE

    if name not in CATALOGUE:
        there_are = f"there are {', '.join(CATALOGUE)}."
        raise InputError(f"unknown data set {name!r}; {suggestion(name, CATALOGUE, there_are)}")
    data = CATALOGUE[name]
    if folder is None and not data.package and data.reader:
        raise InputError(f"{name} is on the disk only: give its folder, `domaincover data check {name} DIR`.")
    typer.echo("\n".join(checked_lines(data, folder, min_cell_size or data.min_cell_size)))


def checked_lines(data: NaturalData, folder: Path | None, least: int) -> list[str]:
    """Return what a folder holds of a data set, or its package if there is no folder.

    Every file is read, but images of WILDS are only looked for. A cell, one label in one domain, is kept if it has at
    least `least` examples. Files that are missing are counted, and the first ones named; a faulty one is an error.
    """
    from domaincover.paper.study_datasets import as_dataset

    if folder is not None and not folder.exists():
        raise InputError(f"there is no folder {folder}.")
    place = data.find(folder)
    if place is None and folder is not None:
        raise InputError(f"{data.name} was {data.missing(folder)}")
    table, missing, left_out = data.examine(place)
    if place is not None and data.kind == "image" and table.X.dtype == object:  # paths
        missing = tuple(path.removeprefix(f"{place}/") for path in missing_images(table.X))
    dataset = as_dataset(table)
    counts = dataset.cell_counts()
    examples_are = data.examples_are or EXAMPLES_ARE[data.kind]
    rows = [counted(name, counts[:, [k]], least) for k, name in enumerate(dataset.label_names)]
    n_left = int((counts >= least).any(axis=1).sum())
    verdict = "."
    if data.group == "wilds":
        n_train, n_unseen = data.sizes[:2]
        enough = "enough" if n_left >= n_train + n_unseen else "NOT ENOUGH"
        verdict = f", {enough} for the paper's {n_train} to train on and {n_unseen} unseen."
    n_rows = len(table.X) + sum(left_out.values())
    lines = [
        f"{data.name} in {place or 'the package ' + (data.package or 'domaincover')}",
        f"{len(table.X):,} {examples_are}, {len(rows)} labels, {dataset.n_domains:,} domains ({data.domain_is}).",
        *(f"Left out: {count:,} of {n_rows:,} rows, {reason}." for reason, count in left_out.items()),
        "",
        *table_lines(HEADS, [*rows, counted("all", counts, least)], n_text=1, width=text_width()),
        "",
        f"A cell is one label in one domain; cells with fewer than {least} examples are dropped.",
        f"Domains left: {n_left:,}{verdict}",
    ]
    if data.kind == "text":
        lines.append(f"Empty texts: {sum(not text.strip() for text in table.X):,}.")
    if missing:
        of = f" of {len(table.X):,} images" if data.group == "wilds" else " files of the release"
        lines += [f"MISSING on the disk: {len(missing):,}{of}, first:", *(f"  {name}" for name in missing[:MOST_NAMES])]
    if data.kind == "image" and not missing:
        lines.append(f"On the disk: all {examples_are}.")
    return lines


def missing_images(paths: NDArray[np.object_]) -> list[str]:
    """Return the images whose files are missing; folders are listed once, and no file is opened."""
    folders = {path.rpartition("/")[0] for path in paths}
    present = {f"{folder}/{name}" for folder in folders for name in _listed(folder)}
    return [path for path in paths if path not in present]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"cannot list {folder}: {error.strerror}.") from None


def counted(name: Any, counts: NDArray[np.int64], least: int) -> list[str]:
    """Return a row of the table, from the examples of each cell, domains × labels."""
    kept = counts >= least
    n_kept = int(kept.sum())
    numbers = counts.sum(), counts.any(axis=1).sum(), n_kept, (counts > 0).sum() - n_kept, counts[kept].sum()
    return [str(name), *(f"{number:,}" for number in numbers)]
