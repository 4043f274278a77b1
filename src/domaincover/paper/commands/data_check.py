"""The command `data check`: what a data set on disk holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from domaincover.errors import InputError, suggestion
from domaincover.terminal.command_options import one_of
from domaincover.terminal.messages import text_width
from domaincover.terminal.text import table_lines

if TYPE_CHECKING:
    from domaincover.paper.folder_check import FolderCheck


def names_on_disk() -> list[str]:
    """Return the data sets that `data check` knows."""
    from domaincover.paper.catalogue import CATALOGUE

    return list(CATALOGUE)


data = typer.Typer(help="Check data sets on disk.", no_args_is_help=True)

HEADS = ["Label", "Examples", "Domains", "Cells kept", "Cells dropped", "Examples kept"]


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
    from domaincover.paper.folder_check import check_folder

    if name not in CATALOGUE:
        there_are = f"there are {', '.join(CATALOGUE)}."
        raise InputError(f"unknown data set {name!r}; {suggestion(name, CATALOGUE, there_are)}")
    data = CATALOGUE[name]
    if folder is None and not data.package and data.reader:
        raise InputError(f"{name} is on the disk only: give its folder, `domaincover data check {name} DIR`.")
    check = check_folder(data, folder, min_cell_size)
    typer.echo(json.dumps(check.to_dict(), indent=2) if style == "json" else _text(check))


def _text(check: FolderCheck) -> str:
    lines = [
        f"{check.name} in {check.folder}",
        f"{check.examples:,} {check.examples_are}, {len(check.labels)} labels, "
        f"{check.domains:,} domains ({check.domain_is}).",
        *(f"Left out: {count:,} of {check.rows:,} rows, {reason}." for reason, count in check.left_out.items()),
        "",
        *_label_table(check),
        "",
        f"A cell is one label in one domain; cells with fewer than {check.min_cell_size} examples are dropped.",
        f"Domains left: {check.domains_left:,}{_enough(check)}",
    ]
    if check.kind == "text":
        lines.append(f"Empty texts: {check.empty_texts:,}.")
    return "\n".join([*lines, *_files(check)])


def _files(check: FolderCheck) -> list[str]:
    """Return what is wrong with the files, and the first ones."""
    lines = []
    if check.missing:
        of = f" of {check.examples:,} images" if check.paper_train_domains is not None else " files of the release"
        lines += [f"MISSING on the disk: {check.missing:,}{of}, first:", *(f"  {name}" for name in check.first_missing)]
    if check.faults:
        lines += [f"CANNOT BE USED: {check.faults:,} files or lines, first:"]
        lines += [f"  {fault}" for fault in check.first_faults]
    if not lines and check.kind == "image":
        lines += [f"On the disk: all {check.examples_are}."]
    return lines


def _enough(check: FolderCheck) -> str:
    n_train, n_unseen = check.paper_train_domains, check.paper_unseen_domains
    if n_train is None:
        return "."
    verdict = "enough" if check.enough_domains else "NOT ENOUGH"
    return f", {verdict} for the paper's {n_train} to train on and {n_unseen} unseen."


def _label_table(check: FolderCheck) -> list[str]:
    """Return a line per label, and one for all of them."""
    from domaincover.paper.folder_check import LabelCheck

    total = LabelCheck("all", check.examples, check.domains, check.cells_kept, check.cells_dropped, check.examples_kept)
    rows = [[row.label, *(f"{count:,}" for count in row[1:])] for row in [*check.labels, total]]
    return table_lines(HEADS, rows, n_text=1, width=text_width())
