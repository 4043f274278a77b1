"""The options that `paper` and `run` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError, suggestion
from domaincover.options import FigureFormat
from domaincover.terminal.command_options import one_of, option, with_commas

if TYPE_CHECKING:
    from domaincover.paper.experiment import Experiment

RUNS = Path("runs")


def dataset_names() -> list[str]:
    """Return the data sets, and the names of groups of them."""
    from domaincover.paper.catalogue import DATASET_GROUPS, REGISTERED

    members = (name for group in DATASET_GROUPS.values() for name in group)
    return list(dict.fromkeys([*DATASET_GROUPS, *members, *REGISTERED]))


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
        "Only these data sets of the experiment, with commas; groups: synthetic, installable, wilds, real.",
        "",
        autocompletion=with_commas(dataset_names),
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

    def loaded_plugins(self) -> tuple[str, ...]:
        """Load the plug-ins, and return them by names that other processes find."""
        from domaincover.paper.plugins import absolute, load_plugins

        plugins = tuple(map(absolute, self.plugin or ()))
        load_plugins(plugins)
        return plugins

    def directory(self, name: str) -> Path:
        """Return the directory of the study: another one for a smoke run, and for runs as the authors' code."""
        endings = ("-as-authors" if self.values().get("as_authors") else "") + ("-quick" if self.quick else "")
        return self.out or RUNS / f"{name}{endings}"

    def check(self) -> None:
        """Reject numbers of seeds and processes that are out of range."""
        from domaincover.paper.study import MOST_SEEDS

        if self.seeds is not None and not 1 <= self.seeds <= MOST_SEEDS:
            bound = "at least 1" if self.seeds < 1 else f"at most {MOST_SEEDS}"
            raise InputError(f"--seeds is the number of seeds and must be {bound}, got {self.seeds}.")
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"--jobs must be at least 1, got {self.jobs}.")

    def values(self) -> dict[str, Any]:
        """Return the keys that `--set`, `--seeds` and `--as-authors` set."""
        from domaincover.paper.experiment import SET_BY_QUICK, parse_settings

        values = parse_settings(self.assignments or ())
        if self.seeds is not None:
            if "seeds" in values:
                raise InputError("--seeds and --set seeds are both given; give one of them.")
            values["seeds"] = self.seeds
        if self.as_authors:
            if values.get("as_authors") is False:
                raise InputError("--as-authors and --set as_authors=false are both given; give one of them.")
            values["as_authors"] = True
        if self.quick and (fixed := [key for key in SET_BY_QUICK if key in values]):
            raise InputError(f"--quick sets {' and '.join(fixed)} itself; leave out --quick, or do not set this.")
        return values

    def applied(self, experiment: Experiment) -> Experiment:
        """Return an experiment with these seeds, settings and data sets; the theory has no data sets."""
        from domaincover.paper.catalogue import study_datasets

        experiment = experiment.with_values(self.values(), "--set")
        if experiment.kind == "theory" or not self.datasets:
            return experiment
        wanted = tuple(dict.fromkeys(name.strip() for name in self.datasets.split(",") if name.strip()))
        if not wanted:
            raise InputError("--datasets is empty.")
        own = study_datasets(experiment.datasets)
        for name in study_datasets(wanted):
            if name not in own:
                meant = suggestion(name, own, f"there are {', '.join(own)}.")
                raise InputError(f"--datasets: {experiment.name} has no data set {name!r}; {meant}")
        return replace(experiment, datasets=wanted)
