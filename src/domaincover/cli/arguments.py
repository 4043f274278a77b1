"""Arguments and options that several commands take, and the completion of column names."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from domaincover.errors import InputError
from domaincover.options import ThresholdKind


def complete_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the columns of the table named before; a name that a shell would split is not offered."""
    given = [ctx.params.get("table"), *ctx.args]  # an option without its value keeps arguments from being told apart
    table = next((Path(path) for path in given if path is not None and Path(path).is_file()), None)
    if table is None:
        return []

    from domaincover.data.tables import open_table

    try:
        names = open_table(table).columns
    except InputError:  # the command itself reports it
        return []
    return [name for name in names if name.startswith(incomplete) and shlex.quote(name) == name]


ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)]
TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="A .csv, .csv.gz or .parquet file, or a folder of images: DOMAIN/LABEL/*.png.",
        show_default=False,
    ),
]
MinCellSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Labels with fewer rows in a domain do not count there; default: 1, or the value that the promise uses.",
    ),
]
Page = Annotated[Path | None, typer.Option(help="Also write the evaluation as an HTML page.")]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column with the true labels; default: the one used by `fit`.", autocompletion=complete_columns),
]
DomainColumn = Annotated[
    str | None,
    typer.Option(help="Column with the domains; default: the one used by `fit`.", autocompletion=complete_columns),
]
Thresholds = Annotated[
    ThresholdKind | None,
    typer.Option(
        help="Thresholds: adapted by the rows of each domain, or fixed; default: adapted where the model can adapt."
    ),
]
TextOrJson = Annotated[Literal["text", "json"], typer.Option("--format", help="Output format.")]
TableOrJson = Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")]
