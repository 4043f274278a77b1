"""The command `data check`: what a released WILDS folder holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from domaincover.paper.commands import study_names
from domaincover.terminal.completion import one_of

if TYPE_CHECKING:
    from domaincover.paper.wilds.folder_check import WildsCheck

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
            help="camelyon17, fmow, iwildcam or amazon.",
            autocompletion=one_of(study_names.wilds),
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The released folder, or its parent.", show_default=False),
    ],
    min_cell_size: Annotated[
        int, typer.Option(min=1, help="Labels with fewer examples in a domain are dropped there.")
    ] = 101,
    style: Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")] = "table",
) -> None:
    """Check a WILDS folder: count domains, labels and cells, and find missing files. No image is opened.

    Example: domaincover data check camelyon17 data
    """
    from domaincover.paper.wilds.folder_check import check_wilds
    from domaincover.paper.wilds.reader import read_wilds

    check = check_wilds(read_wilds(name, folder), min_cell_size)
    typer.echo(json.dumps(check.to_dict(), indent=2) if style == "json" else _text(check))


def _text(check: WildsCheck) -> str:
    things = {"image": "images", "text": "texts"}[check.kind]
    lines = [
        f"{check.name} in {check.folder}",
        f"{check.examples:,} {things}, {len(check.labels)} labels, {check.domains:,} domains ({check.domain_is}).",
        *(f"Left out: {count:,} of {check.rows:,} rows, {reason}." for reason, count in check.left_out.items()),
        "",
        *_label_table(check),
        "",
        f"A cell is one label in one domain; cells with fewer than {check.min_cell_size} examples are dropped.",
        f"Domains left: {check.domains_left:,}, {_enough(check)}",
    ]
    if check.kind == "text":
        lines.append(f"Empty texts: {check.empty_texts:,}.")
    elif check.missing:
        lines.append(f"MISSING on the disk: {check.missing:,} of {check.examples:,} images, first:")
        lines += [f"  {name}" for name in check.first_missing]
    else:
        lines.append("On the disk: every image.")
    return "\n".join(lines)


def _enough(check: WildsCheck) -> str:
    n_train, n_unseen = check.paper_train_domains, check.paper_unseen_domains
    verdict = "enough" if check.enough_domains else "NOT ENOUGH"
    return f"{verdict} for the paper's {n_train} to train on and {n_unseen} unseen."


def _label_table(check: WildsCheck) -> list[str]:
    """Return a line per label, and one for all of them."""
    from domaincover.paper.wilds.folder_check import LabelCheck

    total = LabelCheck("all", check.examples, check.domains, check.cells_kept, check.cells_dropped, check.examples_kept)
    texts = [HEADS, *([row.label, *(f"{count:,}" for count in row[1:])] for row in [*check.labels, total])]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join([name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(counts, widths[1:], strict=True))])
        for name, *counts in texts
    ]
