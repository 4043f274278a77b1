"""Tables, figures and one page from finished runs: of each experiment, and by `results`, `report` and `figures`."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domaincover.files import plain_json, write_whole, writing
from domaincover.options import FigureFormat, TableStyle
from domaincover.terminal.messages import if_stopped, say, text_width

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.paper.collect import StudyTables
    from domaincover.paper.experiment import Experiment

RESULTS = "results"
PAGE = "report.html"
MADE = ".made.json"
StudyDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a study.", show_default=False)]
TABLES: dict[TableStyle, str] = {"md": "md", "csv": "csv", "latex": "tex"}


def make_outputs(experiments: Sequence[Experiment], out: Path, fmt: FigureFormat) -> None:
    """Make tables, figures and page of finished runs; files that are up to date are kept."""
    state = _state(out)
    tables = _collected(out)
    for experiment in experiments:
        folder = out / RESULTS / experiment.name
        make = _maker(experiment, tables, folder, out, fmt)
        n_made = _made_if_needed(folder, f"{state} {fmt} {experiment}", make, experiment.is_of_paper)
        typer.echo(f"{experiment.name}: {experiment.title or 'tables and figures'}: {folder} ({n_made} files)")
    if tables is not None:
        _made_if_needed(out, state, lambda: [write_study_page(tables, out, out / PAGE)])
        say(f"The page is {(out / PAGE).resolve().as_uri()}")


def _maker(
    experiment: Experiment, tables: StudyTables | None, folder: Path, out: Path, fmt: FigureFormat
) -> Callable[[], list[Path]]:
    if experiment.kind == "theory":
        return lambda: _theory(folder, out, fmt)
    if experiment.kind == "times":
        return lambda: _times(experiment, folder, out)
    return lambda: [] if tables is None else _grid(experiment, tables, folder, out, fmt)


def _made_if_needed(folder: Path, state: str, make: Callable[[], list[Path]], is_of_paper: bool = False) -> int:
    """Make files, unless all files made from the same state are present; return their number."""
    digest = hashlib.sha256(state.encode()).hexdigest()
    note = folder / MADE
    before = _note(note)
    if before.get("state") == digest and all((folder / name).is_file() for name in before["files"]):
        return len(before["files"])
    folder.mkdir(parents=True, exist_ok=True)
    note.unlink(missing_ok=True)  # this may be interrupted
    names = [path.relative_to(folder).as_posix() for path in make()]
    for name in set(before.get("files", ())) - set(names):
        (folder / name).unlink(missing_ok=True)  # of other figures or formats, and outdated
    write_whole(note, json.dumps({"state": digest, "files": names, "is_of_paper": is_of_paper}).encode())
    return len(names)


def _note(path: Path) -> dict[str, Any]:
    """Return the files made before, their state, and whether of the paper; nothing if that is unknown."""
    try:
        found = plain_json(path.read_text(encoding="utf-8"))
        own = [name for name in found["files"] if len(PurePath(name).parts) == 1 and name != ".."]
        return {"state": found["state"], "files": own, "is_of_paper": found.get("is_of_paper") is True}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _state(out: Path) -> str:
    """Return what all outputs depend on: finished runs with their times, the paper's numbers, this version."""
    from domaincover import __version__
    from domaincover.paper.published import published_results, published_times

    published = f"{published_results().to_csv()}{published_times().to_csv()}"
    files = [*out.glob("*/*/target-*/seed-*/DONE"), *out.glob("times/*.json"), *out.glob("theory/theory.json")]
    stamps = sorted(f"{file.relative_to(out)} {file.stat().st_mtime_ns}\n" for file in files)
    return "".join([__version__, published, *stamps])


def _collected(out: Path) -> StudyTables | None:
    from domaincover.paper.collect import collect

    return collect(out) if next(out.glob("*/*/target-*/seed-*/DONE"), None) is not None else None


def _grid(experiment: Experiment, tables: StudyTables, folder: Path, out: Path, fmt: FigureFormat) -> list[Path]:
    from domaincover.paper.collect import read_histories
    from domaincover.paper.published import published
    from domaincover.paper.study_report.figures import figure_files
    from domaincover.paper.study_report.results_text import format_results

    results, domains = (_of(experiment, table) for table in (tables.results, tables.domains))
    if results.empty:
        return []
    paper = published()
    unseen = results[results["split"] == "unseen"]

    def table(style: TableStyle) -> str:
        shown = results if style == "csv" else unseen
        return format_results(shown, style, **_published(experiment))

    own = paper.exhibits if experiment.is_of_paper else ()
    exhibits = [exhibit for exhibit in own if exhibit.experiment == experiment.name]
    histories = read_histories(out, results) if "training" in experiment.figures else []
    figures = figure_files(results, domains, folder, fmt, experiment.figures, exhibits, histories)
    return [*_written(folder, table), *figures]


def _written(folder: Path, table: Callable[[TableStyle], str]) -> list[Path]:
    """Write a table in every style of a file."""
    for style, ending in TABLES.items():
        write_whole(folder / f"table.{ending}", table(style).encode())
    return [folder / f"table.{ending}" for ending in TABLES.values()]


def _published(experiment: Experiment) -> dict[str, Any]:
    """Return the paper's numbers to stand beside an experiment's, and the experiment of the paper that has them."""
    from domaincover.paper.published import published_results

    if not experiment.is_of_paper:
        return {}
    theirs = published_results()
    return {"published": theirs, "experiment": experiment.name if experiment.name in {*theirs["experiment"]} else None}


def _of(experiment: Experiment, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of an experiment: its data sets, methods and target recalls."""
    from domaincover.paper.catalogue import study_datasets
    from domaincover.paper.methods import study_methods

    wanted = table["dataset"].isin(study_datasets(experiment.datasets))
    wanted &= table["method"].isin(study_methods(experiment.methods))
    return table[wanted & table["target_recall"].isin(experiment.target_recalls)]


def _times(experiment: Experiment, folder: Path, out: Path) -> list[Path]:
    from domaincover.paper.study_report.time_tables import format_times

    times = _compared_times(experiment, out)
    if times.empty:
        return []
    return _written(folder, lambda style: format_times(times, style))


def _compared_times(experiment: Experiment, out: Path) -> pd.DataFrame:
    """Return our times, beside the paper's where the experiment is of the paper."""
    from domaincover.paper.published import published_times
    from domaincover.paper.study_report.time_tables import training_times
    from domaincover.paper.training_times import read_times

    return training_times(read_times(out), published_times() if experiment.is_of_paper else None)


def _theory(folder: Path, out: Path, fmt: FigureFormat) -> list[Path]:
    from domaincover.paper.study_report.theory_chart import learnability_table, write_theory_figures
    from domaincover.paper.theory.simulation import read_theory

    content = read_theory(out / "theory")
    if content is None:
        return []
    write_whole(folder / "table.txt", learnability_table(content).encode())
    return [folder / "table.txt", *write_theory_figures(content, folder, formats=(fmt,))]


def write_study_page(tables: StudyTables, out: Path, page: Path) -> Path:
    """Write the page of all results in a study's directory, and return its path."""
    from domaincover.paper.collect import read_histories
    from domaincover.paper.published import published
    from domaincover.paper.study_report.page import write_page
    from domaincover.paper.theory.simulation import read_theory
    from domaincover.paper.training_times import read_times

    write_page(
        tables.results,
        tables.domains,
        page,
        settings=tables.settings,
        published=published() if is_of_paper(out) else None,
        times=read_times(out),
        theory=read_theory(out / "theory"),
        histories=read_histories(out, tables.results),
    )
    return page


def is_of_paper(out: Path) -> bool:
    """Return whether one of the paper's experiments was run in a study's directory, or one of its data sets was."""
    from domaincover.paper.catalogue import DATASET_GROUPS

    run = {path.parts[-5] for path in out.glob("*/*/target-*/seed-*/DONE")}
    if run and run <= set(DATASET_GROUPS["real"]):  # of which the paper has none
        return False
    return any(_note(path).get("is_of_paper", False) for path in out.glob(f"{RESULTS}/*/{MADE}"))


def print_table(experiment: Experiment, out: Path) -> None:
    """Print the table of one experiment."""
    from domaincover.paper.study_report.results_text import format_results
    from domaincover.paper.study_report.theory_chart import learnability_table
    from domaincover.paper.study_report.time_tables import format_times
    from domaincover.paper.theory.simulation import read_theory
    from domaincover.paper.training_times import read_times

    look: dict[str, Any] = {"width": text_width(), "color": sys.stdout.isatty()}
    if experiment.kind == "theory" and (content := read_theory(out / "theory")) is not None:
        text = learnability_table(content)
    elif experiment.kind == "times" and not read_times(out).empty:
        text = format_times(_compared_times(experiment, out), "table", **look)
    elif experiment.kind == "grid" and (tables := _collected(out)) is not None:
        results = _of(experiment, tables.results)
        unseen = results[results["split"] == "unseen"]
        text = format_results(unseen, "table", **_published(experiment), **look)
    else:
        return
    typer.echo(text.rstrip("\n"), color=look["color"] or None)


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
    from domaincover.paper.collect import collect, read_histories
    from domaincover.paper.published import published
    from domaincover.paper.study_report.figures import figure_files

    if_stopped("finished figures are kept, and the same command draws all")
    tables = collect(directory)
    exhibits = published().exhibits if is_of_paper(directory) else ()
    histories = read_histories(directory, tables.results)
    with writing(out):
        for path in figure_files(
            tables.results, tables.domains, out, figure_format, exhibits=exhibits, histories=histories
        ):
            typer.echo(path)
