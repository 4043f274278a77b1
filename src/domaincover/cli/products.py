"""What is made of finished runs: the tables and figures of each experiment, and one page. No training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from domaincover.cli.outputs import say
from domaincover.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.experiments.collect import StudyTables
    from domaincover.experiments.experiment import Experiment
    from domaincover.report.tables import TableStyle

RESULTS = "results"
PAGE = "report.html"
MADE = ".made.json"
TABLES: dict[TableStyle, str] = {"md": "md", "csv": "csv", "latex": "tex"}
FigureFormat = Literal["png", "svg", "pdf"]


def make_products(experiments: Sequence[Experiment], out: Path, fmt: FigureFormat) -> None:
    """Make tables, figures and page of what is finished; what is there and still true is left as it is."""
    state = _state(out)
    tables = _collected(out)
    for experiment in experiments:
        folder = out / RESULTS / experiment.name
        n_made = _made_if_needed(folder, f"{state} {fmt} {experiment}", _maker(experiment, tables, folder, out, fmt))
        typer.echo(f"{experiment.name}: {experiment.title or 'tables and figures'}: {folder} ({n_made} files)")
    if tables is not None:
        _made_if_needed(out, state, lambda: [_write_page(tables, out)])
        say(f"The page is {(out / PAGE).resolve().as_uri()}")


def _maker(
    experiment: Experiment, tables: StudyTables | None, folder: Path, out: Path, fmt: FigureFormat
) -> Callable[[], list[Path]]:
    if experiment.kind == "theory":
        return lambda: _theory(folder, out, fmt)
    if experiment.kind == "times":
        return lambda: _times(tables, folder, out)
    return lambda: [] if tables is None else _grid(experiment, tables, folder, fmt)


def _made_if_needed(folder: Path, state: str, make: Callable[[], list[Path]]) -> int:
    """Make files, unless those made before from the same state are all there; return how many there are."""
    digest = hashlib.sha256(state.encode()).hexdigest()
    note = folder / MADE
    try:
        before = json.loads(note.read_text())
        if before["state"] == digest and all((folder / name).is_file() for name in before["files"]):
            return len(before["files"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    folder.mkdir(parents=True, exist_ok=True)
    names = [path.relative_to(folder).as_posix() for path in make()]
    write_whole(note, json.dumps({"state": digest, "files": names}).encode())
    return len(names)


def _state(out: Path) -> str:
    """Return what all products depend on: the finished runs, by when they were, and this version."""
    from domaincover import __version__

    files = [*out.glob("*/*/target-*/seed-*/DONE"), *out.glob("times/*.json"), *out.glob("theory/theory.json")]
    return __version__ + "".join(sorted(f"{file.relative_to(out)} {file.stat().st_mtime_ns}\n" for file in files))


def _collected(out: Path) -> StudyTables | None:
    from domaincover.experiments.collect import collect

    return collect(out) if next(out.glob("*/*/target-*/seed-*/DONE"), None) is not None else None


def _grid(experiment: Experiment, tables: StudyTables, folder: Path, fmt: FigureFormat) -> list[Path]:
    from domaincover.experiments.published import published_results
    from domaincover.report.figures import figure_files
    from domaincover.report.tables import format_results

    results, domains = (_of(experiment, table) for table in (tables.results, tables.domains))
    if results.empty:
        return []
    published = published_results()
    unseen = results[results["split"] == "unseen"]

    def table(style: TableStyle) -> str:
        shown = results if style == "csv" else unseen
        return format_results(shown, style, published=published, experiment=experiment.name)

    return [*_written(folder, table), *figure_files(results, domains, folder, fmt, kinds=experiment.figures)]


def _written(folder: Path, table: Callable[[TableStyle], str]) -> list[Path]:
    """Write a table in every style of a file."""
    for style, ending in TABLES.items():
        write_whole(folder / f"table.{ending}", table(style).encode())
    return [folder / f"table.{ending}" for ending in TABLES.values()]


def _of(experiment: Experiment, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of an experiment: its data sets, methods and target recalls."""
    from domaincover.experiments.datasets import study_datasets
    from domaincover.experiments.methods import study_methods

    wanted = table["dataset"].isin(study_datasets(experiment.datasets))
    wanted &= table["method"].isin(study_methods(experiment.methods))
    return table[wanted & table["target_recall"].isin(experiment.target_recalls)]


def _times(tables: StudyTables | None, folder: Path, out: Path) -> list[Path]:
    from domaincover.experiments.published import published_times
    from domaincover.report.times import format_times, training_times

    times = training_times(measured_times(tables, out), published_times())
    if times.empty:
        return []
    return _written(folder, lambda style: format_times(times, style))


def measured_times(tables: StudyTables | None, out: Path) -> pd.DataFrame:
    """Return seconds of ERM and SET-COVER by data set: measured for it, or those of whole networks' runs."""
    import pandas as pd

    from domaincover.experiments.datasets import DATASET_GROUPS
    from domaincover.experiments.times import read_times

    rows = read_times(out)
    if tables is not None:
        wanted = tables.results["dataset"].isin(DATASET_GROUPS["wilds"]) & (tables.results["split"] == "unseen")
        by_method = tables.results[wanted].groupby(["dataset", "method"])["train_seconds"].mean().unstack()
        if {"erm", "set-cover"} <= set(by_method):
            both = by_method[["erm", "set-cover"]].dropna()
            rows += [{"dataset": name, "erm": erm, "set-cover": own} for name, erm, own in both.itertuples()]
    times = pd.DataFrame(rows, columns=["dataset", "erm", "set-cover"])
    return times.rename(columns={"erm": "erm_seconds", "set-cover": "set_cover_seconds"})


def _theory(folder: Path, out: Path, fmt: FigureFormat) -> list[Path]:
    from domaincover.report.theory_chart import learnability_table, write_theory_figures

    content = read_theory(out)
    if content is None:
        return []
    write_whole(folder / "table.txt", learnability_table(content).encode())
    return [folder / "table.txt", *write_theory_figures(content, folder, formats=(fmt,))]


def read_theory(out: Path) -> dict[str, Any] | None:
    """Return what the theory's experiment found, if it was run in this directory."""
    from domaincover.experiments import theory

    return theory.read_theory(out / "theory")


def _write_page(tables: StudyTables, out: Path) -> Path:
    write_study_page(tables, out, out / PAGE)
    return out / PAGE


def write_study_page(tables: StudyTables, out: Path, page: Path) -> None:
    """Write the page of all that a study's directory holds."""
    from domaincover.experiments.published import published_results, published_times
    from domaincover.report.page import write_page

    write_page(
        tables.results,
        tables.domains,
        page,
        settings=tables.settings,
        published=published_results(),
        times=measured_times(tables, out),
        published_times=published_times(),
        theory=read_theory(out),
    )
