"""The commands on studies: paper, run, results and report.

What they do is imported when they are called, so that help and completion are fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from domaincover.errors import InputError
from domaincover.options import FigureFormat, TableStyle
from domaincover.terminal.command_options import argument, one_of, option, takes
from domaincover.terminal.messages import if_stopped

ALL, LIST, REAL = "all", "list", "real"
RUNS_ARE_KEPT = "finished runs are kept, and the same command continues from there"
StudyDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a study.", show_default=False)]


def experiment_names() -> list[str]:
    """Return the names of the paper's experiments, without reading their files."""
    folder = files("domaincover.paper") / "experiments"
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir() if path.name.endswith(".toml"))


def dataset_names() -> list[str]:
    """Return the data sets, and the names of groups of them."""
    from domaincover.paper.catalogue import DATASET_GROUPS, REGISTERED

    members = (name for group in DATASET_GROUPS.values() for name in group)
    return list(dict.fromkeys([*DATASET_GROUPS, *members, *REGISTERED]))


def study_names() -> list[str]:
    """Return what `paper` accepts: experiments, data sets, and two words."""
    return [*experiment_names(), *dataset_names(), ALL, LIST]


def settable_keys() -> list[str]:
    """Return the keys that `--set` accepts, each with its equals sign."""
    from domaincover.paper.experiment import SETTABLE

    return [f"{key}=" for key in SETTABLE]


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Options of a study, whether of the paper or of a TOML file."""

    out: Path | None = option(
        "Directory for runs, tables, figures, page; default: runs/paper or, for a file, runs/NAME."
    )
    seeds: int | None = option("Number of seeds: 0, 1, …; default: the experiment's.")
    datasets: str = option(
        "These data sets instead of the experiment's, with commas; groups: synthetic, installable, wilds, real.",
        "",
        autocompletion=one_of(dataset_names),
    )
    assignments: list[str] | None = option(
        "Set a key of the TOML file, as in --set epochs=10 --set methods=erm,set-cover; may be repeated.",
        None,
        "--set",
        metavar="KEY=VALUE",
        autocompletion=one_of(settable_keys),
    )
    jobs: int | None = option("Processes; default: the number of cores, or one for large networks.")
    scheduler: str | None = option("Address of a dask scheduler, as tcp://host:8786, whose workers do the runs.")
    plugin: list[str] | None = option("Module or .py file that registers data sets or methods; may be repeated.")
    as_authors: bool = option(
        "Where the paper's text is silent, do as the code that its authors released; default: the text alone. The "
        "choices are in docs/method.md. Short for --set as_authors=true.",
        False,
    )
    quick: bool = option("Smoke run: few epochs, domains and rows, one seed.", False)
    wilds: Path | None = option("Folder with released WILDS data sets, or one of them; those found take part.")
    data: Path | None = option(
        "Folder with AudioMNIST, malaria cells, WISDM, … as released; the real sets found take part."
    )
    figure_format: FigureFormat = option("File format of the figures.", "png", "--format")


@dataclass(frozen=True, kw_only=True)
class PaperOptions(StudyOptions):
    """Arguments and options of `paper`."""

    names: list[str] = argument(
        "Experiments of the paper (`list` prints them, `all` runs them), or data sets: synthetic (the four synthetic "
        "ones), synthetic-10-random, camelyon17, …; `real` runs five experiments on the real ones.",
        "NAME…",
        autocompletion=one_of(study_names),
    )


@dataclass(frozen=True, kw_only=True)
class FileOptions(StudyOptions):
    """Arguments and options of `run`."""

    file: Path = argument("File of the experiment.", "FILE.toml")


@takes(PaperOptions)
def paper(options: PaperOptions) -> None:
    """Run experiments of the paper, or its five methods on a data set, and write tables, figures and a page.

    Finished runs are kept: the same command continues an interrupted study. `paper list` prints the experiments.

    Example: domaincover paper main targets --datasets synthetic
    """
    from domaincover.paper.commands.run_studies import named_experiments, print_list, run_experiments

    if options.names == [LIST]:
        print_list()
        return
    if_stopped(RUNS_ARE_KEPT)
    if REAL in options.names and options.data is None:
        raise InputError(
            "real data sets are read from a folder; give --data, such as the one into which AudioMNIST was cloned."
        )
    home = REAL if options.names == [REAL] else "paper"
    run_experiments(lambda: named_experiments(options.names), options, home)


@takes(FileOptions)
def run(options: FileOptions) -> None:
    """Run the experiment of a TOML file, and write its tables, figures and page.

    Example: domaincover run my.toml --plugin my_methods.py --out runs/my
    """
    from domaincover.paper.commands.run_studies import run_experiments
    from domaincover.paper.experiment import read_experiment

    if_stopped(RUNS_ARE_KEPT)
    run_experiments(lambda: [read_experiment(options.file)], options)


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
    from domaincover.paper.commands.study_outputs import print_results

    print_results(directory, style, all_splits)


def report(
    directory: StudyDirectory,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write the page of a study: tables and figures in one HTML file that needs no network.

    Example: domaincover report runs/synthetic --out report.html
    """
    from domaincover.paper.commands.study_outputs import write_report

    write_report(directory, out)
