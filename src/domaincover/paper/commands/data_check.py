"""The command `data check`: domains, labels and cells of a data set on disk, and files that are missing or faulty."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from domaincover.errors import InputError, suggestion
from domaincover.terminal.command_options import one_of
from domaincover.terminal.messages import text_width
from domaincover.terminal.text import table_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from domaincover.paper.catalogue import NaturalData

MOST_NAMES = 5  # of missing or faulty files
EXAMPLES_ARE = {"image": "images", "text": "texts", "table": "rows"}
COUNTS = {
    "examples": "Examples",
    "domains": "Domains",
    "cells_kept": "Cells kept",
    "cells_dropped": "Cells dropped",
    "examples_kept": "Examples kept",
}


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
    style: Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")] = "table",
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
    check = check_folder(data, folder, min_cell_size)
    typer.echo(json.dumps(check, indent=2) if style == "json" else _text(check))


def check_folder(data: NaturalData, folder: Path | None, min_cell_size: int | None = None) -> dict[str, Any]:
    """Count what a folder holds of a data set, or its package if there is no folder.

    Every file is read, but images of WILDS are only looked for. A cell, one label in one domain, is kept if it has at
    least `min_cell_size` examples. Files that are missing and faults of files or lines are counted, and the first ones
    named. The paper's numbers of domains are None for data sets that it does not use.
    """
    from domaincover.paper.study_datasets import as_dataset

    if folder is not None and not folder.exists():
        raise InputError(f"there is no folder {folder}.")
    place = data.find(folder)
    if place is None and folder is not None:
        raise InputError(f"{data.name} was {data.missing(folder)}")
    table, faults, missing, left_out = data.examine(place)
    X, least = table.X, data.min_cell_size if min_cell_size is None else min_cell_size
    if place is not None and data.kind == "image" and X.dtype == object:  # paths
        missing = tuple(path.removeprefix(f"{place}/") for path in missing_images(X))
    dataset = as_dataset(table)
    counts = dataset.cell_counts()
    n_left = int((counts >= least).any(axis=1).sum())
    n_train, n_unseen = data.sizes[:2] if data.group == "wilds" else (None, None)
    return {
        "name": data.name,
        "folder": str(place or f"the package {data.package or 'domaincover'}"),
        "kind": data.kind,
        "examples_are": data.examples_are or EXAMPLES_ARE[data.kind],
        "domain_is": data.domain_is,
        "rows": len(X) + sum(left_out.values()),
        "left_out": dict(left_out),
        **_counted(counts, least),
        "min_cell_size": least,
        "labels": [
            {"label": str(name)} | _counted(counts[:, [k]], least) for k, name in enumerate(dataset.label_names)
        ],
        "domains_left": n_left,
        "paper_train_domains": n_train,
        "paper_unseen_domains": n_unseen,
        "enough_domains": None if n_train is None or n_unseen is None else n_left >= n_train + n_unseen,
        "empty_texts": sum(not text.strip() for text in X) if data.kind == "text" else 0,
        "missing": len(missing),
        "first_missing": list(missing[:MOST_NAMES]),
        "faults": len(faults),
        "first_faults": list(faults[:MOST_NAMES]),
    }


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


def _counted(counts: NDArray[np.int64], min_cell_size: int) -> dict[str, int]:
    """Count from the examples of each cell, domains × labels."""
    kept = counts >= min_cell_size
    n_kept = int(kept.sum())
    numbers = counts.sum(), counts.any(axis=1).sum(), n_kept, (counts > 0).sum() - n_kept, counts[kept].sum()
    return dict(zip(COUNTS, map(int, numbers), strict=True))


def _text(check: Mapping[str, Any]) -> str:
    rows = [
        [row["label"], *(f"{row[name]:,}" for name in COUNTS)] for row in [*check["labels"], {"label": "all", **check}]
    ]
    is_of_paper = check["paper_train_domains"] is not None
    verdict = (
        f", {'enough' if check['enough_domains'] else 'NOT ENOUGH'} for the paper's {check['paper_train_domains']} to "
        f"train on and {check['paper_unseen_domains']} unseen."
    )
    lines = [
        f"{check['name']} in {check['folder']}",
        f"{check['examples']:,} {check['examples_are']}, {len(check['labels'])} labels, "
        f"{check['domains']:,} domains ({check['domain_is']}).",
        *(f"Left out: {count:,} of {check['rows']:,} rows, {reason}." for reason, count in check["left_out"].items()),
        "",
        *table_lines(["Label", *COUNTS.values()], rows, n_text=1, width=text_width()),
        "",
        f"A cell is one label in one domain; cells with fewer than {check['min_cell_size']} examples are dropped.",
        f"Domains left: {check['domains_left']:,}{verdict if is_of_paper else '.'}",
    ]
    if check["kind"] == "text":
        lines.append(f"Empty texts: {check['empty_texts']:,}.")
    if check["missing"]:
        of = f" of {check['examples']:,} images" if is_of_paper else " files of the release"
        lines += [f"MISSING on the disk: {check['missing']:,}{of}, first:"]
        lines += [f"  {name}" for name in check["first_missing"]]
    if check["faults"]:
        lines += [f"CANNOT BE USED: {check['faults']:,} files or lines, first:"]
        lines += [f"  {fault}" for fault in check["first_faults"]]
    if check["kind"] == "image" and not check["missing"] and not check["faults"]:
        lines.append(f"On the disk: all {check['examples_are']}.")
    return "\n".join(lines)
