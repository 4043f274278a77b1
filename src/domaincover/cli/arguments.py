"""Arguments and options that several commands take, and the completion of column names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from domaincover.errors import InputError

TARGET = "[LABEL=]NUMBER"


def complete_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Offer the columns of the table named before; a name that a shell would split is not offered."""
    from domaincover.data.tables import open_table

    given = [ctx.params.get("table"), *ctx.args]  # an option without its value keeps arguments from being told apart
    for path in (Path(name) for name in given if name is not None):
        with suppress(InputError):  # a model's folder, for instance; the command itself reports what is wrong
            names = open_table(path).columns if path.exists() else ()
            if names:
                return [name for name in names if name.startswith(incomplete) and shlex.quote(name) == name]
    return []


def column(about: str) -> Any:
    """Return an option that names a column of the table."""
    return typer.Option(help=about, autocompletion=complete_columns)


def choice(about: str, panel: str | None = None, metavar: str = "NAME") -> Any:
    """Return an option of which the help does not list the values, but names some."""
    return typer.Option(metavar=metavar, help=about, rich_help_panel=panel)


def parsed_targets(given: Sequence[str]) -> float | dict[str, float]:
    """Return one target recall, or targets by label, from the values of an option.

    >>> parsed_targets(["0.9"]), parsed_targets(["sick=0.95", "well=0.8"])
    (0.9, {'sick': 0.95, 'well': 0.8})
    """
    by_label = {label: value for label, is_named, value in (text.rpartition("=") for text in given) if is_named}
    if by_label and len(by_label) < len(given):
        raise InputError("give one number, or LABEL=NUMBER once for each label.")
    if not by_label and len(given) > 1:
        raise InputError("there are several numbers; targets by label are written LABEL=NUMBER.")
    try:
        return {label: float(value) for label, value in by_label.items()} if by_label else float(given[0])
    except ValueError:
        wrong = ", ".join(map(repr, given))
        raise InputError(f"{wrong} is neither a number such as 0.9 nor LABEL=NUMBER.") from None


def targets_of_option(given: list[str] | None) -> list[str] | None:
    """Reject values that are no targets, as an option of another type would."""
    try:
        parsed_targets(given or ["0.9"])
    except InputError as error:
        raise typer.BadParameter(str(error)) from None
    return given


ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a saved model.", show_default=False)]
TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="A .csv, .tsv (also .gz, .zip), .parquet, .arrow or .xlsx file, - for standard input, a folder of "
        ".parquet parts, or one of images: DOMAIN/LABEL/*.png.",
        show_default=False,
    ),
]
LABEL, DOMAIN = "Column to predict.", "Column with the domain of each row: hospital, user, day, …"
MinCellSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="NUMBER",
        help="Labels with fewer rows in a domain do not count there, neither in the promise nor in reports; "
        "default: 20, or what the model was fitted with.",
    ),
]
DroppedColumns = Annotated[list[str] | None, column("Column to leave out; may be repeated.")]
Page = Annotated[Path | None, typer.Option(help="Also write the evaluation as an HTML page.")]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        metavar=TARGET,
        callback=targets_of_option,
        help="Recall wanted for every label in every domain; default: 0.9. As LABEL=NUMBER, repeated, for labels with "
        "targets of their own: other labels are not constrained.",
    ),
]
TextOrJson = Annotated[Literal["text", "json"], typer.Option("--format", help="Output format.")]
TableOrJson = Annotated[Literal["table", "json"], typer.Option("--format", help="Output format.")]
