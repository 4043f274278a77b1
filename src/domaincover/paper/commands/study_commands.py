"""The commands `paper` and `run`: experiments of the paper, data sets by name, and TOML files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from domaincover.errors import InputError, suggestion
from domaincover.paper.commands.run_studies import run_experiments
from domaincover.paper.commands.study_options import StudyOptions, dataset_names
from domaincover.terminal.command_options import argument, one_of, takes
from domaincover.terminal.messages import if_stopped, text_width

if TYPE_CHECKING:
    from domaincover.paper.experiment import Experiment


ALL, LIST, REAL = "all", "list", "real"
RUNS_ARE_KEPT = "finished runs are kept, and the same command continues from there"


def experiment_names() -> list[str]:
    """Return the names of the paper's experiments, without reading their files."""
    folder = files("domaincover.paper") / "experiments"
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir() if path.name.endswith(".toml"))


def study_names() -> list[str]:
    """Return what `paper` accepts: experiments, data sets, and two words."""
    return [*experiment_names(), *dataset_names(), ALL, LIST]


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
    if options.names == [LIST]:
        _print_list()
        return
    if_stopped(RUNS_ARE_KEPT)
    plugins = options.loaded_plugins()
    if REAL in options.names and options.data is None:
        raise InputError(
            "real data sets are read from a folder; give --data, such as the one into which AudioMNIST was cloned."
        )
    home = REAL if options.names == [REAL] else "paper"
    run_experiments(_experiments(options.names), options, options.directory(home), plugins)


@takes(FileOptions)
def run(options: FileOptions) -> None:
    """Run the experiment of a TOML file, and write its tables, figures and page.

    Example: domaincover run my.toml --plugin my_methods.py --out runs/my
    """
    from domaincover.paper.experiment import read_experiment

    if_stopped(RUNS_ARE_KEPT)
    plugins = options.loaded_plugins()
    experiment = read_experiment(options.file)
    run_experiments([experiment], options, options.directory(experiment.name), plugins)


def _experiments(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name: of the paper, or of a data set."""
    from domaincover.paper.experiment import REAL_EXPERIMENTS, dataset_experiment, paper_experiments
    from domaincover.paper.study_datasets import SYNTHETIC_NAME

    known = paper_experiments()
    chosen: dict[str, Experiment] = {}
    for name in names:
        if name == ALL:
            chosen |= known
        elif name == REAL:
            chosen |= {own: replace(known[own], datasets=(REAL,)) for own in REAL_EXPERIMENTS}
        elif name in known:
            chosen[name] = known[name]
        elif name in dataset_names() or SYNTHETIC_NAME.fullmatch(name):
            chosen[name] = dataset_experiment(name)
        else:
            there_are = f"there are the experiments {', '.join(known)}, all, and data sets such as synthetic."
            meant = suggestion(name, study_names(), there_are)
            raise InputError(f"no experiment or data set {name!r}; {meant}")
    return list(chosen.values())


def _print_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from domaincover.paper.experiment import paper_experiments

    table = Table(box=None, pad_edge=False)
    for head in ("Name", "What it shows", "In the paper"):
        table.add_column(head)
    for experiment in paper_experiments().values():
        table.add_row(experiment.name, experiment.title, experiment.paper)
    Console(width=text_width(), highlight=False).print(table)
