"""Arguments and options that several commands take, and the completion of column names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from domaincover.errors import InputError
from domaincover.terminal.command_options import argument, option

LABEL, DOMAIN = "Column to predict.", "Column with the domain of each row: hospital, user, day, …"


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


def model_folder() -> Any:
    """Return the argument for a saved model."""
    return argument("Folder of a saved model.", "MODEL")


def table_file() -> Any:
    """Return the argument for a table."""
    return argument(
        "A .csv, .tsv (also .gz), .parquet or .arrow file, - for standard input, a folder of .parquet "
        "parts, or one of images: DOMAIN/LABEL/*.png.",
        "TABLE",
    )


def column(about: str, default: Any = None) -> Any:
    """Return an option that names a column of the table."""
    return option(about, default, autocompletion=complete_columns)


def page() -> Any:
    """Return the option of an HTML page."""
    return option("Also write it as an HTML page.")


def output_format(default: str) -> Any:
    """Return the option of the output's format."""
    return option("Output format.", default, "--format")


def strict() -> Any:
    """Return the option that refuses tables unlike those of training."""
    return option("Refuse a table whose columns look unlike those of training, instead of a note.", False)


def workers() -> Any:
    """Return the option that works on parts in several processes."""
    return option(
        "Work on parts in so many processes of this machine; default: one part after the other.",
        min=1,
        rich_help_panel="A folder of parts",
    )


def cell_size() -> Any:
    """Return the option that says from how many rows on a label counts in a domain."""
    return option(
        "Labels with fewer rows in a domain do not count there, neither in the promise nor in reports; default: 20, or "
        "what the model was fitted with.",
        min=1,
        metavar="NUMBER",
    )


def targets(about: str) -> Any:
    """Return an option for one target recall, or for targets by label."""
    return option(about, metavar="[LABEL=]NUMBER")


def parsed_targets(given: Sequence[str]) -> float | dict[str, float]:
    """Return one target recall, or targets by label, from the values of an option.

    >>> parsed_targets(["0.9"]), parsed_targets(["sick=0.95", "well=0.8"])
    (0.9, {'sick': 0.95, 'well': 0.8})
    """
    by_label = {label: value for label, is_named, value in (text.rpartition("=") for text in given) if is_named}
    if by_label and len(by_label) < len(given):
        raise InputError("--target-recall: give one number, or LABEL=NUMBER once for each label.")
    if not by_label and len(given) > 1:
        raise InputError("--target-recall: there are several numbers; targets by label are written LABEL=NUMBER.")
    try:
        return {label: float(value) for label, value in by_label.items()} if by_label else float(given[0])
    except ValueError:
        wrong = ", ".join(map(repr, given))
        raise InputError(f"--target-recall: {wrong} is neither a number such as 0.9 nor LABEL=NUMBER.") from None
