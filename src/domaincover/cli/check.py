"""The command `check`: what a table allows, and what to change in it, before a fit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from domaincover.cli.arguments import DOMAIN, LABEL, DroppedColumns, TableFile, TextOrJson, column
from domaincover.cli.outputs import check_not_table, check_page
from domaincover.errors import InputError
from domaincover.options import MIN_CELL_SIZE
from domaincover.terminal.messages import say, text_width


def check(
    table: TableFile,
    label: Annotated[str, column(LABEL)],
    domain: Annotated[str, column(DOMAIN)],
    drop: DroppedColumns = None,
    min_cell_size: Annotated[
        int, typer.Option(min=1, help="Rows of a label that a domain needs to count in a promise.")
    ] = MIN_CELL_SIZE,
    html: Annotated[Path | None, typer.Option(help="Also write the check as an HTML page.")] = None,
    style: TextOrJson = "text",
) -> None:
    """Check a table before a fit: leaks, small cells, missing values, column types, and promises within reach.

    Example: domaincover check visits.csv --label outcome --domain hospital
    """
    from domaincover.cli.inputs import feature_columns, read_training
    from domaincover.data.tables import open_table

    check_page(html)
    data = open_table(table)
    if data.is_images:
        raise InputError(f"{table} is a folder of images; check is for tables.")
    check_not_table(html, "--html", table)
    features = feature_columns(data, label, domain, drop or [])
    read = read_training(data, features, label, domain, 1, may_lack_names=True)

    from domaincover.checks.table_check import check_table

    for note in data.notes:
        say(note)
    found = check_table(*read, min_cell_size=min_cell_size)
    typer.echo(found.to_json() if style == "json" else found.text(text_width(), for_shell=True))
    dropped = [word for name in dict.fromkeys([*(drop or []), *found.drop]) for word in ("--drop", name)]
    words = ["domaincover", "fit", str(table), "--label", label, "--domain", domain, *dropped, "--out", "model"]
    if html is not None:
        from domaincover.report.check_page import write_check_page

        write_check_page(html, found, title=f"{table.name}: a check before the fit", command=shlex.join(words))
        say(f"The page is {html.resolve().as_uri()}")
    say(f"Next: {shlex.join(words)}")
