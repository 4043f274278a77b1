"""Commands for whole experiments: `paper NAME…`, `paper all`, `paper list`, and `run FILE.toml` for one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from domaincover.cli import completion
from domaincover.cli.outputs import say, warnings_in_a_line
from domaincover.cli.study import SOME_FAILED, carry_out, check_counts, items, n_cores, paper
from domaincover.cli.terminal import text_width
from domaincover.errors import InputError, suggestion
from domaincover.files import writing

if TYPE_CHECKING:
    from domaincover.paper.experiment import Experiment
    from domaincover.paper.runner import Failure
    from domaincover.paper.study import Study
    from domaincover.paper.wilds.source import WildsSource

ALL = "all"
OUT = Path("runs/paper")

Out = Annotated[
    Path | None,
    typer.Option(help="Directory for runs, tables, figures and page; runs/paper, or runs/paper-quick, if not given."),
]
Seeds = Annotated[int | None, typer.Option(help="How many seeds: 0, 1, …; the experiment's own if not given.")]
Datasets = Annotated[
    str,
    typer.Option(
        help="Only these data sets, with commas; synthetic, installable, wilds are groups.",
        autocompletion=completion.with_commas(completion.datasets),
    ),
]
Jobs = Annotated[int | None, typer.Option(help="Processes; as many as there are cores if not given.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a dask scheduler, as tcp://host:8786, whose workers do the runs.")
]
Plugin = Annotated[
    list[str] | None, typer.Option(help="Module, or .py file, that registers data sets or methods; may be repeated.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Of everything a little, to see that all works.")]
Wilds = Annotated[Path | None, typer.Option(help="Folder that holds released folders of WILDS; those in it take part.")]
Weights = Annotated[Path | None, typer.Option(help="For WILDS images: a file of torchvision's weights for ResNet-18.")]
Network = Annotated[Path | None, typer.Option(help="For WILDS texts: the folder of a BERT-like model.")]
Format = Annotated[Literal["png", "svg", "pdf"], typer.Option(help="Kind of the figures' files.")]


class ExperimentsOrCommand(TyperGroup):
    """Takes names of experiments where another group would take the name of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command: one of this group's, or that for experiments with all that was given."""
        named = [arg for arg in args[:2] if not arg.startswith("-")]
        if (len(named) == 1 and named[0] in self.commands) or not named:
            return super().resolve_command(ctx, args)
        return "experiments", self.commands["experiments"], args

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Offer the names of experiments beside the commands."""
        names = self.commands["experiments"].params[0].shell_complete(ctx, incomplete)
        return [*names, *super().shell_complete(ctx, incomplete)]


@dataclass(frozen=True)
class Options:
    """What both commands take."""

    out: Path
    seeds: int | None
    datasets: str
    jobs: int | None
    scheduler: str | None
    plugins: tuple[str, ...]
    quick: bool
    wilds: Path | None
    weights: Path | None
    network: Path | None
    format: Literal["png", "svg", "pdf"]


@paper.command("list")
def list_experiments() -> None:
    """List the paper's experiments: what each is in the paper.

    Example: domaincover paper list
    """
    from rich.console import Console
    from rich.table import Table

    from domaincover.paper.experiment import paper_experiments

    table = Table(box=None, pad_edge=False)
    for head in ("Name", "What it shows", "In the paper"):
        table.add_column(head)
    for experiment in paper_experiments().values():
        table.add_row(experiment.name, experiment.title, experiment.paper)
    console = Console(width=text_width(), highlight=False)
    console.print(table)


@paper.command("experiments", hidden=True)
def experiments(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME…",
            help="Names that `paper list` shows, or all.",
            autocompletion=completion.one_of(completion.experiments),
            show_default=False,
        ),
    ],
    out: Out = None,
    seeds: Seeds = None,
    datasets: Datasets = "",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    plugin: Plugin = None,
    quick: Quick = False,
    wilds: Wilds = None,
    weights: Weights = None,
    network: Network = None,
    format: Format = "png",  # noqa: A002
) -> None:
    """Run experiments of the paper by name, or all, and make their tables, figures and one page.

    Example: domaincover paper main targets --datasets synthetic
    """
    from domaincover.paper.experiment import paper_experiments
    from domaincover.paper.plugins import absolute, load_plugins

    plugins = tuple(map(absolute, plugin or ()))
    load_plugins(plugins)
    known = paper_experiments()
    for name in names:
        if name not in known and name != ALL:
            meant = suggestion(name, [*known, ALL], f"there are {', '.join(known)}, and all.")
            raise InputError(f"no experiment {name!r}; {meant}")
    chosen = list(known.values()) if ALL in names else [known[name] for name in dict.fromkeys(names)]
    where = out or OUT.with_name(OUT.name + ("-quick" if quick else ""))
    options = Options(where, seeds, datasets, jobs, scheduler, plugins, quick, wilds, weights, network, format)
    do_experiments(chosen, options)


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="An experiment.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="Directory; runs/NAME if not given.")] = None,
    seeds: Seeds = None,
    datasets: Datasets = "",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    plugin: Plugin = None,
    quick: Quick = False,
    wilds: Wilds = None,
    weights: Weights = None,
    network: Network = None,
    format: Format = "png",  # noqa: A002
) -> None:
    """Run an experiment of one's own, and make its tables, figures and page.

    Example: domaincover run my.toml --plugin my_methods.py --out runs/my
    """
    from domaincover.paper.experiment import read_experiment
    from domaincover.paper.plugins import absolute, load_plugins

    plugins = tuple(map(absolute, plugin or ()))
    load_plugins(plugins)
    experiment = read_experiment(file)
    where = out or OUT.with_name(experiment.name + ("-quick" if quick else ""))
    options = Options(where, seeds, datasets, jobs, scheduler, plugins, quick, wilds, weights, network, format)
    do_experiments([experiment], options)


def do_experiments(chosen: Sequence[Experiment], options: Options) -> None:
    """Run what is left of experiments, and make what they show."""
    from domaincover.cli.products import make_products, print_table
    from domaincover.paper import runner
    from domaincover.paper.run_directory import at_work, open_study

    check_counts(1 if options.seeds is None else options.seeds, options.jobs)
    chosen = [_narrowed(experiment, options) for experiment in chosen]
    sources = _sources(options, chosen)
    notes: dict[str, None] = {}
    studies = {
        experiment.name: list(experiment.studies(sources, options.quick, lambda note: notes.setdefault(note)))
        for experiment in chosen
        if experiment.kind != "theory"
    }
    if not any(studies.values()) and all(experiment.kind != "theory" for experiment in chosen):
        raise InputError(f"nothing is left to run. {' '.join(notes)}")
    for note in notes:
        say(f"Note: {note}")
    grid = [study for experiment in chosen for study in _grid(experiment, studies.get(experiment.name, ()))]
    whole = any(source.trains_whole_networks for source in sources)  # one at a time: they share what there is
    means = runner.Workers(options.jobs or (1 if whole else n_cores()), options.scheduler, options.plugins)
    with writing(options.out):
        open_study(options.out)
        with at_work(options.out):
            failures = list(carry_out(grid, options.out, means).failures) if grid else []
            for experiment in chosen:
                failures += _measure(experiment, studies.get(experiment.name, ()), options)
            with warnings_in_a_line():
                make_products(chosen, options.out, options.format)
    if len(chosen) == 1:
        print_table(chosen[0], options.out)
    if failures:
        raise typer.Exit(SOME_FAILED)


def _grid(experiment: Experiment, studies: Iterable[Study]) -> list[Study]:
    """Return the studies whose runs are wanted: for training times only those of whole networks."""
    if experiment.kind == "grid":
        return list(studies)
    return [study for study in studies if study.setting(study.datasets[0]).trains_whole_networks]


def _measure(experiment: Experiment, studies: Iterable[Study], options: Options) -> list[Failure]:
    """Do what is not a grid of runs, here and alone on the machine: times and the theory; return what failed."""
    from domaincover.paper.theory.simulation import TheorySettings, run_theory
    from domaincover.paper.training_times import measure_times

    def theory() -> None:
        settings = TheorySettings(n_seeds=experiment.seeds, steps=100 if options.quick else experiment.steps)
        counts = experiment.domains[:2] if options.quick else experiment.domains
        run_theory(settings, counts, options.out / "theory", lambda n: say(f"Theory: trained on {n} domains."))

    def times(study: Study) -> None:
        measure_times(study, options.out, lambda name: say(f"Measuring training times on {name}."))

    tasks: dict[str, Callable[[], None]] = {}
    if experiment.kind == "times":
        tasks = {f"times on {study.datasets[0]}": partial(times, study) for study in studies}
    elif experiment.kind == "theory":
        tasks = {"theory": theory}
    return [failure for name, task in tasks.items() if (failure := _attempted(name, task)) is not None]


def _attempted(name: str, task: Callable[[], None]) -> Failure | None:
    """Do a task; say what went wrong, and go on."""
    from domaincover.paper.runner import Failure

    try:
        task()
    except Exception as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        failure = Failure(name, 1, f"{kind}{' '.join(str(error).split())}", is_input=isinstance(error, InputError))
        say(f"Failed: {name}: {failure.reason}")
        return failure
    return None


def _narrowed(experiment: Experiment, options: Options) -> Experiment:
    """Return an experiment with the seeds and data sets that were asked for."""
    from domaincover.paper.datasets import study_datasets

    if experiment.kind == "theory":
        return experiment
    if options.seeds is not None:
        experiment = replace(experiment, seeds=options.seeds)
    if not options.datasets:
        return experiment
    wanted = items(options.datasets, "--datasets")
    own = study_datasets(experiment.datasets)
    for name in study_datasets(wanted):
        if name not in own:
            meant = suggestion(name, own, f"there are {', '.join(own)}.")
            raise InputError(f"--datasets: {experiment.name} has no data set {name!r}; {meant}")
    return replace(experiment, datasets=tuple(wanted))


def _sources(options: Options, chosen: Sequence[Experiment]) -> tuple[WildsSource, ...]:
    """Return the data sets of WILDS that are in the folder given."""
    if options.wilds is None:
        return ()
    from domaincover.paper.datasets import QUICK, study_datasets
    from domaincover.paper.wilds.reader import RELEASES
    from domaincover.paper.wilds.source import Means, wilds_source

    if not options.wilds.is_dir():
        raise InputError(f"--wilds: there is no folder {options.wilds}.")
    wanted = {name for experiment in chosen for name in study_datasets(experiment.datasets)}
    sizes = QUICK if options.quick else next((e.settings["sizes"] for e in chosen if "sizes" in e.settings), None)
    share = max(1, n_cores() // (options.jobs or n_cores()))
    given: dict[str, Any] = {"means": Means(workers=min(4, share)), **({} if sizes is None else sizes._asdict())}
    sources = []
    for name, release in RELEASES.items():
        if name not in wanted:
            continue
        if not (options.wilds / release.folder).is_dir():
            say(f"Note: {name} is left out: there is no {release.folder} in {options.wilds}.")
        elif release.kind != "text":
            sources.append(wilds_source(name, options.wilds, weights=options.weights, **given))
        elif options.network is None:
            say(f"Note: {name} is left out: give --network, the folder of a BERT-like model.")
        else:
            sources.append(wilds_source(name, options.wilds, model=options.network, **given))
    return tuple(sources)
