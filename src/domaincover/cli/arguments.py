"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from domaincover.cli import completion

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model's folder.", show_default=False)]
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
    typer.Option(min=1, help="A label with fewer rows in a domain does not count there; 1, or what a promise counts."),
]
Page = Annotated[Path | None, typer.Option(help="Write the evaluation as a page, too.")]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column with the true labels; the one of `fit` if not given.", autocompletion=completion.columns),
]
DomainColumn = Annotated[
    str | None,
    typer.Option(help="Column with the domains, if it is not the one of `fit`.", autocompletion=completion.columns),
]
