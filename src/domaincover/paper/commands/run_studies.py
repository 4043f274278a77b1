"""Runs experiments and makes their tables, figures and page; the same call continues an interrupted one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from domaincover.errors import InputError, check_installed, suggestion
from domaincover.files import writing
from domaincover.paper.catalogue import DATASET_GROUPS, study_datasets
from domaincover.paper.commands.study_commands import ALL, REAL, StudyOptions, dataset_names, study_names
from domaincover.paper.experiment import (
    REAL_EXPERIMENTS,
    SET_BY_QUICK,
    Experiment,
    dataset_experiment,
    paper_experiments,
    parse_settings,
)
from domaincover.paper.plugins import absolute, load_plugins
from domaincover.paper.run_directory import at_work, open_study
from domaincover.paper.runner import (
    Failure,
    Outcome,
    StudyPlan,
    Workers,
    check_sources,
    plan_studies,
    run_study,
)
from domaincover.paper.source_datasets import SourceDataset
from domaincover.paper.study import MOST_SEEDS, Study
from domaincover.paper.study_datasets import SYNTHETIC_NAME, StudyDataset
from domaincover.terminal.messages import say, text_width, warnings_as_notes
from domaincover.terminal.processes import n_cores

RUNS = Path("runs")
SOME_FAILED = 1
MOST_FAILURES = 20


def named_experiments(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name: of the paper, or of a data set."""
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


def print_list() -> None:
    """Print the experiments of the paper."""
    from rich.console import Console
    from rich.table import Table

    table = Table("Name", "What it shows", "In the paper", box=None, pad_edge=False)
    for experiment in paper_experiments().values():
        table.add_row(experiment.name, experiment.title, experiment.paper)
    Console(width=text_width(), highlight=False).print(table)


def run_experiments(found: Callable[[], list[Experiment]], options: StudyOptions, home: str | None = None) -> None:
    """Run what is not finished of experiments, and make their tables, figures and page.

    They are looked for once the plug-ins are loaded. `home` names the directory of several.
    """
    from domaincover.paper.commands.study_outputs import make_outputs, print_table

    plugins = tuple(map(absolute, options.plugin or ()))
    load_plugins(plugins)
    experiments, values = found(), settings_of(options)
    out = directory_of(options, home or experiments[0].name)
    check_installed("torch", "studies", "train")
    experiments = [experiment.with_values(values, "--set") for experiment in experiments]
    studies, n_jobs = _studies(experiments, options)
    grid = [study for experiment in experiments for study in _grid(experiment, studies[experiment.name])]
    workers = Workers(n_jobs, options.scheduler, plugins)
    with writing(out):
        open_study(out)
        with at_work(out):
            failures = _run(grid, out, workers) if grid else []
            for experiment in experiments:
                failures += _measure(experiment, studies[experiment.name], out, options.quick)
            with warnings_as_notes():
                make_outputs(experiments, out, options.figure_format)
    real = DATASET_GROUPS["real"]
    if len(experiments) == 1 or {name for one in experiments for name in study_datasets(one.datasets)} <= {*real}:
        print_table(experiments[0], out)
    if failures:
        raise typer.Exit(SOME_FAILED)


def settings_of(options: StudyOptions) -> dict[str, Any]:
    """Return the keys that `--set`, `--seeds` and `--as-authors` set; reject what is out of range or set twice."""
    if options.seeds is not None and not 1 <= options.seeds <= MOST_SEEDS:
        bound = "at least 1" if options.seeds < 1 else f"at most {MOST_SEEDS}"
        raise InputError(f"--seeds is the number of seeds and must be {bound}, got {options.seeds}.")
    if options.jobs is not None and options.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {options.jobs}.")
    values = parse_settings(options.assignments or ())
    if options.seeds is not None:
        if "seeds" in values:
            raise InputError("--seeds and --set seeds are both given; give one of them.")
        values["seeds"] = options.seeds
    if options.datasets:
        values["datasets"] = [name.strip() for name in options.datasets.split(",") if name.strip()]
        if not values["datasets"]:
            raise InputError("--datasets is empty; name data sets, as in --datasets votes,storms.")
    if options.as_authors:
        if values.get("as_authors") is False:
            raise InputError("--as-authors and --set as_authors=false are both given; give one of them.")
        values["as_authors"] = True
    if options.quick and (fixed := [key for key in SET_BY_QUICK if key in values]):
        raise InputError(f"--quick sets {' and '.join(fixed)} itself; leave out --quick, or do not set this.")
    return values


def directory_of(options: StudyOptions, name: str) -> Path:
    """Return the directory of the study: another one for a smoke run, and for runs as the authors' code."""
    endings = ("-as-authors" if settings_of(options).get("as_authors") else "") + ("-quick" if options.quick else "")
    return options.out or RUNS / f"{name}{endings}"


def _studies(experiments: Sequence[Experiment], options: StudyOptions) -> tuple[dict[str, list[Study]], int]:
    """Return the studies by experiment, and the number of processes; print notes on what is left out and why."""
    notes: dict[str, None] = {}
    folders = {"wilds": options.wilds, "real": options.data}
    studies = {
        experiment.name: []
        if experiment.kind == "theory"
        else list(experiment.studies(folders, options.quick, notes.setdefault))
        for experiment in experiments
    }
    everything = [study for own in studies.values() for study in own]
    if not everything and all(experiment.kind != "theory" for experiment in experiments):
        raise InputError(f"nothing is left to run. {' '.join(notes)}")
    check_sources(everything)
    large = any(study.setting.trains_large_networks for study in everything)
    n_jobs = options.jobs or (1 if large else n_cores())  # large networks one at a time: they use all cores
    sources = dict.fromkeys(study.source for study in everything if study.source is not None)
    for line in dict.fromkeys([*(f"Note: {note}" for note in notes), *(source.in_words for source in sources)]):
        say(line)
    shared: dict[StudyDataset | None, StudyDataset] = {
        source: source.in_processes(n_jobs) for source in sources if isinstance(source, SourceDataset)
    }
    for name, own in studies.items():
        studies[name] = [replace(study, setting=shared.get(study.source, study.setting)) for study in own]
    return studies, n_jobs


def _run(studies: Sequence[Study], out: Path, workers: Workers) -> list[Failure]:
    """Do the runs of studies that are not finished, and print how that goes; return what failed."""
    with warnings_as_notes():
        plan = plan_studies(studies, out, say)
    _print_plan(plan, workers)
    with warnings_as_notes():
        outcome = run_study(plan, out, workers, say)
    _print_outcome(outcome, out)
    return list(outcome.failures)


def _grid(experiment: Experiment, studies: Iterable[Study]) -> list[Study]:
    """Return the studies whose runs are wanted: for training times only those of whole networks."""
    return [study for study in studies if experiment.kind == "grid" or study.setting.trains_whole_networks]


def _measure(experiment: Experiment, studies: Iterable[Study], out: Path, quick: bool) -> list[Failure]:
    """Do what is not a grid of runs, alone on this machine: training times and the theory; return what failed."""
    from domaincover.paper.theory import TheorySettings, run_theory
    from domaincover.paper.training_times import measure_times

    tasks: dict[str, Callable[[], object]] = {}
    if experiment.kind == "times":
        tasks = {f"times on {study.dataset}": partial(measure_times, study, out, say) for study in studies}
    elif experiment.kind == "theory":
        steps, counts = (100, experiment.domains[:2]) if quick else (experiment.steps, experiment.domains)
        settings = TheorySettings(n_seeds=experiment.n_seeds("", ""), steps=steps, quick=quick)
        tasks = {"theory": partial(run_theory, settings, counts, out / "theory", say)}
    failures = []
    for name, task in tasks.items():
        try:
            task()
        except Exception as error:  # is printed, and the others are done
            is_input = isinstance(error, InputError)
            reason = f"{'' if is_input else f'{type(error).__name__}: '}{' '.join(str(error).split())}"
            say(f"Failed: {name}: {reason}")
            failures.append(Failure(reason, is_input, name, 1))
    return failures


def _print_plan(plan: StudyPlan, workers: Workers) -> None:
    """Print what is to be done."""
    if not plan.jobs:
        return
    here = f"in {workers.n_processes} processes" if workers.n_processes > 1 else "in this process"
    where = here if workers.scheduler is None else f"on the cluster at {workers.scheduler}"
    runs = f"{_counted(plan.n_to_do + plan.n_finished, 'run')}: {plan.n_finished} finished, {plan.n_to_do} to do"
    say(f"{runs} in {_counted(len(plan.jobs), 'job')} {where}.")


def _print_outcome(outcome: Outcome, out: Path) -> None:
    """Print the number of new and of kept runs, and what failed and why."""
    kept = f", {outcome.n_finished_before} were finished before" if outcome.n_finished_before else ""
    say(f"{_counted(outcome.n_new, 'run')} finished in {outcome.seconds:.0f} s{kept}: {out}")
    for failure in outcome.failures[:MOST_FAILURES]:
        say(f"Failed: {failure.job} ({_counted(failure.n_runs, 'run')}): {failure.reason}")
    if len(outcome.failures) > MOST_FAILURES:
        say(f"… and {len(outcome.failures) - MOST_FAILURES} more jobs failed.")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
