"""The commands `results`, `report` and `figures` on a study's directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from domaincover.files import writing
from domaincover.options import FigureFormat, TableStyle
from domaincover.terminal.messages import say, text_width

StudyDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a study.", show_default=False)]


def results(
    directory: StudyDirectory,
    style: Annotated[TableStyle, typer.Option("--format", help="Output format.")] = "table",
    all_splits: Annotated[
        bool, typer.Option("--all-splits", help="In a table: also training and seen domains, not only unseen ones.")
    ] = False,
) -> None:
    """Print the results of a study over seeds: median min recall, median set size, share of domains at target.

    Example: domaincover results runs/synthetic --format json | jq .
    """
    from domaincover.paper.collect import collect
    from domaincover.paper.published import published_results
    from domaincover.paper.study_report.results_text import format_results

    table = collect(directory).results
    if style in ("table", "md", "latex") and not all_splits:
        table = table[table["split"] == "unseen"]
    terminal = sys.stdout.isatty()
    text = format_results(table, style, width=text_width(), color=terminal, published=published_results())
    typer.echo(text.rstrip("\n"), color=terminal or None)


def report(
    directory: StudyDirectory,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write the page of a study: tables and interactive plots in one HTML file that needs no network.

    Example: domaincover report runs/synthetic --out report.html
    """
    from domaincover.paper.collect import collect
    from domaincover.paper.commands.study_outputs import write_study_page

    tables = collect(directory)
    with writing(out):
        write_study_page(tables, directory, out)
    say(f"The page is {out.resolve().as_uri()}")


def figures(
    directory: StudyDirectory,
    out: Annotated[Path, typer.Option(help="Directory for the figures.")],
    figure_format: Annotated[FigureFormat, typer.Option("--format", help="File format.")] = "png",
) -> None:
    """Write the figures of a study: those of the paper, then one of each kind for all other data sets and methods.

    Example: domaincover figures runs/synthetic --out figures --format pdf
    """
    from domaincover.paper.collect import collect
    from domaincover.paper.commands.study_outputs import is_of_paper
    from domaincover.paper.histories import read_histories
    from domaincover.paper.published import published
    from domaincover.paper.study_report.figures import figure_files

    tables = collect(directory)
    exhibits = published().exhibits if is_of_paper(directory) else ()
    histories = read_histories(directory, tables.results)
    with writing(out):
        for path in figure_files(
            tables.results, tables.domains, out, figure_format, exhibits=exhibits, histories=histories
        ):
            typer.echo(path)
