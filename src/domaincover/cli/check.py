"""The command `check`: what a table allows, and what to change in it, before a fit."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from domaincover.cli.arguments import DOMAIN, LABEL, column, output_format, page, table_file
from domaincover.cli.outputs import check_not_table, check_page, say_page
from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE
from domaincover.terminal.command_options import option, takes
from domaincover.terminal.messages import say, text_width


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Arguments and options of `check`."""

    table: Path = table_file()
    label: str | None = column(LABEL)
    domain: str | None = column(DOMAIN)
    model: Path | None = option("A saved model: compare the table with its training rows, column by column.")
    drop: list[str] | None = column("Column to leave out; may be repeated.")
    min_cell_size: int = option("Rows of a label that a domain needs to count in a promise.", MIN_CELL_SIZE, min=1)
    html: Path | None = page("check")
    style: Literal["text", "json"] = output_format("text")


@takes(CheckOptions)
def check(options: CheckOptions) -> None:
    """Check a table before a fit: leaks, small cells, missing values, column types, and promises within reach.

    Example: domaincover check visits.csv --label outcome --domain hospital
    """
    from domaincover.cli.inputs import feature_columns, read_training
    from domaincover.data.tables import open_table

    if options.model is not None:
        _compare(options, options.model)
        return
    if options.label is None or options.domain is None:
        raise InputError("give --label and --domain, or a model to compare the table with (--model).")
    table, roles, drop = options.table, (options.label, options.domain), options.drop or []
    check_page(options.html)
    data = open_table(table)
    if data.is_images:
        raise InputError(f"{table} is a folder of images; check is for tables.")
    check_not_table(options.html, "--html", table)
    read = read_training(data, feature_columns(data, *roles, drop), *roles, 1, may_lack_names=True)

    from domaincover.checks.table_check import check_table

    for note in data.notes:
        say(note)
    found = check_table(*read, min_cell_size=options.min_cell_size)
    typer.echo(found.to_json() if options.style == "json" else found.text(text_width(), for_shell=True))
    dropped = [word for name in dict.fromkeys([*drop, *found.drop]) for word in ("--drop", name)]
    start = ["domaincover", "fit", str(table), "--label", options.label, "--domain", options.domain]
    command = shlex.join([*start, *dropped, "--out", "model"])
    if options.html is not None:
        from domaincover.report.check_page import write_check_page

        write_check_page(options.html, found, title=f"{table.name}: a check before the fit", command=command)
        say_page(options.html)
    say(f"Next: {command}")


def _compare(options: CheckOptions, model: Path) -> None:
    """Print how the columns of a table differ from those of a model's training."""
    from domaincover.cli.input_checks import compared_input
    from domaincover.cli.part_scores import SavedModel
    from domaincover.data.tables import open_table

    if options.label is not None or options.html is not None or options.drop:
        raise InputError("--model compares columns only; leave out --label, --drop and --html.")
    seen, found = compared_input(SavedModel.at(model), open_table(options.table), options.domain)
    if options.style == "json":
        typer.echo(json.dumps({"seen_rows": seen, "differences": [each._asdict() for each in found]}))
        return
    columns = [f"{each}." for each in found] or ["No column differs from training more than its own domains do."]
    typer.echo("\n".join([*columns, *filter(None, [seen])]))
