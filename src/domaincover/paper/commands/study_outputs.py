"""Tables, figures and one page from finished runs: of each experiment, and by `results` and `report`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import typer

from domaincover.files import write_whole, writing
from domaincover.options import FigureFormat, TableStyle
from domaincover.paper.catalogue import DATASET_GROUPS, study_datasets
from domaincover.paper.collect import StudyTables, collect
from domaincover.paper.experiment import Experiment
from domaincover.paper.methods import study_methods
from domaincover.paper.published import published
from domaincover.paper.study_report.figures import figure_files, save_chart
from domaincover.paper.study_report.page import write_page
from domaincover.paper.study_report.study_tables import format_results, format_times, training_times, unseen_rows
from domaincover.paper.theory import learnability_table, read_theory, theory_figure
from domaincover.paper.training_times import read_times
from domaincover.terminal.messages import say, text_width

RESULTS = "results"
PAGE = "report.html"
OF_PAPER = ".paper"  # in the folder of an experiment of the paper
TABLES: dict[TableStyle, str] = {"csv": "csv", "latex": "tex"}
FINISHED = "*/*/target-*/seed-*/DONE"


def make_outputs(experiments: Sequence[Experiment], out: Path, fmt: FigureFormat) -> None:
    """Make tables, figures and page of finished runs."""
    tables = _collected(out)
    for experiment in experiments:
        folder = out / RESULTS / experiment.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / OF_PAPER).unlink(missing_ok=True)
        if experiment.is_of_paper:
            (folder / OF_PAPER).touch()
        n_made = len(_made(experiment, tables, folder, out, fmt))
        typer.echo(f"{experiment.name}: {experiment.title or 'tables and figures'}: {folder} ({n_made} files)")
    if tables is not None:
        _write_study_page(tables, out, out / PAGE)


def _collected(out: Path) -> StudyTables | None:
    return collect(out) if next(out.glob(FINISHED), None) is not None else None


def _made(experiment: Experiment, tables: StudyTables | None, folder: Path, out: Path, fmt: FigureFormat) -> list[Path]:
    """Write the tables and figures of an experiment; return the files."""
    styles: dict[TableStyle, str] = {"table": "txt"} if experiment.kind == "theory" else TABLES
    files = []
    for style, ending in styles.items():
        if (text := _table_of(experiment, tables, out, style)) is None:
            return []
        files.append(folder / f"table.{ending}")
        write_whole(files[-1], text.encode())
    if experiment.kind == "theory" and (content := read_theory(out / "theory")) is not None:
        files.append(folder / f"theory.{fmt}")
        save_chart(theory_figure(content), files[-1], fmt)
    if experiment.kind == "grid" and tables is not None:
        exhibits = [one for one in published().exhibits if experiment.is_of_paper and one.experiment == experiment.name]
        results, domains = (_of(experiment, table) for table in (tables.results, tables.domains))
        files += figure_files(results, domains, folder, fmt, experiment.figures, exhibits)
    return files


def _table_of(
    experiment: Experiment, tables: StudyTables | None, out: Path, style: TableStyle, **look: Any
) -> str | None:
    """Return the table of an experiment; None if nothing of it was run."""
    if experiment.kind == "theory":
        content = read_theory(out / "theory")
        return None if content is None else learnability_table(content)
    if experiment.kind == "times":
        times = training_times(read_times(out), published().times if experiment.is_of_paper else None)
        return None if times.empty else format_times(times, style, **look)
    if tables is None or (results := _of(experiment, tables.results)).empty:
        return None
    shown = results if style == "csv" else unseen_rows(results)
    return format_results(shown, style, **_published(experiment), **look)


def _published(experiment: Experiment) -> dict[str, Any]:
    """Return the paper's numbers to stand beside an experiment's, and the experiment of the paper that has them."""
    if not experiment.is_of_paper:
        return {}
    theirs = published().results
    return {"published": theirs, "experiment": experiment.name if experiment.name in {*theirs["experiment"]} else None}


def _of(experiment: Experiment, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of an experiment: its data sets, methods and target recalls."""
    wanted = table["dataset"].isin(study_datasets(experiment.datasets))
    wanted &= table["method"].isin(study_methods(experiment.methods))
    return table[wanted & table["target_recall"].isin(experiment.target_recalls)]


def _write_study_page(tables: StudyTables, out: Path, page: Path) -> None:
    """Write the page of all results in a study's directory."""
    csv_files = sorted(out.glob(f"{RESULTS}/*/table.csv"))
    beside = page.absolute().parent
    write_page(
        tables.results,
        tables.domains,
        page,
        settings=tables.settings,
        published=published() if _is_of_paper(out) else None,
        times=read_times(out),
        theory=read_theory(out / "theory"),
        files={f"{file.parent.name}.csv": quote(os.path.relpath(file.absolute(), beside)) for file in csv_files},
    )
    say(f"The page is {page.resolve().as_uri()}")


def _is_of_paper(out: Path) -> bool:
    """Return whether one of the paper's experiments was run in a study's directory, or one of its data sets was."""
    run = {path.parts[-5] for path in out.glob(FINISHED)}
    if run <= set(DATASET_GROUPS["real"]):  # of which the paper has none
        return False
    return next(out.glob(f"{RESULTS}/*/{OF_PAPER}"), None) is not None


def print_table(experiment: Experiment, out: Path) -> None:
    """Print the table of one experiment."""
    color = sys.stdout.isatty()
    text = _table_of(experiment, _collected(out), out, "table", width=text_width(), color=color)
    if text is not None:
        typer.echo(text.rstrip("\n"), color=color or None)


def print_results(directory: Path, style: TableStyle, all_splits: bool) -> None:
    """Print the results of a study."""
    table = collect(directory).results
    if style in ("table", "latex") and not all_splits:
        table = unseen_rows(table)
    terminal = sys.stdout.isatty()
    text = format_results(table, style, width=text_width(), color=terminal, published=published().results)
    typer.echo(text.rstrip("\n"), color=terminal or None)


def write_report(directory: Path, out: Path) -> None:
    """Write the page of a study."""
    tables = collect(directory)
    with writing(out):
        _write_study_page(tables, directory, out)
