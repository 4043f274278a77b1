"""Runs experiments and makes their tables, figures and page; the same call continues an interrupted one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from domaincover.errors import InputError, check_installed
from domaincover.files import writing
from domaincover.paper.commands.study_progress import print_outcome, print_plan, shown_progress
from domaincover.terminal.messages import say, warnings_as_notes
from domaincover.terminal.processes import n_cores

if TYPE_CHECKING:
    from domaincover.paper.commands.study_options import StudyOptions
    from domaincover.paper.experiment import Experiment, Note
    from domaincover.paper.runner import Failure, Workers
    from domaincover.paper.study import Study
    from domaincover.paper.study_datasets import StudyDataset

SOME_FAILED = 1


def run_experiments(
    experiments: Sequence[Experiment], options: StudyOptions, out: Path, plugins: tuple[str, ...]
) -> None:
    """Run what is not finished of experiments, and make their tables, figures and page."""
    from domaincover.paper.commands.study_outputs import make_outputs, print_table
    from domaincover.paper.run_directory import at_work, open_study
    from domaincover.paper.runner import Workers

    options.check()
    check_installed("torch", "studies", "train")
    experiments = [options.applied(experiment) for experiment in experiments]
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
    if len(experiments) == 1 or _are_real(experiments):
        print_table(experiments[0], out)
    if failures:
        raise typer.Exit(SOME_FAILED)


def _are_real(experiments: Sequence[Experiment]) -> bool:
    """Return whether experiments are on real data sets alone, as `paper real` runs them."""
    from domaincover.paper.catalogue import DATASET_GROUPS, study_datasets

    real = DATASET_GROUPS["real"]
    return all(name in real for experiment in experiments for name in study_datasets(experiment.datasets))


def _studies(experiments: Sequence[Experiment], options: StudyOptions) -> tuple[dict[str, list[Study]], int]:
    """Return the studies by experiment, and the number of processes; print notes on what is left out and why."""
    from domaincover.paper.runner import check_sources
    from domaincover.paper.source_datasets import SourceDataset

    notes: dict[str, None] = {}
    studies: dict[str, list[Study]] = {}
    for experiment in experiments:
        studies[experiment.name] = []
        if experiment.kind != "theory":
            found = _datasets_of(experiment, options, notes.setdefault)
            studies[experiment.name] += experiment.studies(found, options.quick, notes.setdefault)
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
        studies[name] = [replace(study, source=shared.get(study.source, study.source)) for study in own]
    return studies, n_jobs


def _datasets_of(experiment: Experiment, options: StudyOptions, note: Note) -> tuple[StudyDataset, ...]:
    """Return the data sets of an experiment that are read from files and were found, with the sizes asked for."""
    from domaincover.paper.catalogue import CATALOGUE, natural_dataset, study_datasets
    from domaincover.paper.experiment import FOLDERS
    from domaincover.paper.wilds_dataset import lacking_network, wilds_dataset

    folders = {"wilds": options.wilds, "real": options.data}
    for group, (what, option) in FOLDERS.items():
        if group in experiment.datasets and folders[group] is None:
            note(f"{what} left out: give {option}.")
    wanted = study_datasets(experiment.datasets)
    found = [dataset for dataset in experiment.own if dataset.name in wanted]
    for data in (CATALOGUE[name] for name in wanted if name in CATALOGUE):
        if data.group == "installable":
            continue
        folder, is_named = folders[data.group], data.name in experiment.datasets
        if folder is None and not (is_named and data.is_installed):
            continue
        if folder is not None and not folder.exists():
            raise InputError(f"--{'wilds' if data.group == 'wilds' else 'data'}: there is no folder {folder}.")
        lacking = lacking_network(data, experiment.wilds) if data.is_available(folder) else data.missing(folder)
        if lacking is not None:
            if is_named:
                raise InputError(f"{data.name}: {lacking}")
            note(f"{data.name} is left out: {lacking}")
        elif data.group == "wilds":
            as_authors = experiment.settings.get("as_authors", False)
            place = data.find(folder)
            assert place is not None  # noqa: S101 - for the type checker: it is available, and in no package
            found.append(wilds_dataset(data.name, place, experiment.wilds, as_authors=as_authors))
        else:
            found.append(natural_dataset(data.name, data.find(folder)))
    return tuple(_sized(dataset, experiment, options.quick) for dataset in found)


def _sized(dataset: StudyDataset, experiment: Experiment, quick: bool) -> StudyDataset:
    from domaincover.paper.study_datasets import QUICK, QUICK_FILES, Sizes

    if quick:
        is_image = getattr(dataset, "kind", "table") == "image"
        most = QUICK_FILES if is_image or dataset.trains_whole_networks else QUICK
        return dataset.with_sizes(Sizes(*map(min, most, dataset.sizes)))
    return dataset.with_sizes(dataset.sizes._replace(**experiment.sizes))


def _run(studies: Sequence[Study], out: Path, workers: Workers) -> list[Failure]:
    """Do the runs of studies that are not finished, and print how that goes; return what failed."""
    from domaincover.paper.runner import plan_studies, run_study

    with warnings_as_notes():
        plan = plan_studies(studies, out, say)
    print_plan(plan, workers)
    with warnings_as_notes(), shown_progress(plan) as on_progress:
        outcome = run_study(plan, out, workers, on_progress)
    print_outcome(outcome, out)
    return list(outcome.failures)


def _grid(experiment: Experiment, studies: Iterable[Study]) -> list[Study]:
    """Return the studies whose runs are wanted: for training times only those of whole networks."""
    if experiment.kind == "grid":
        return list(studies)
    return [study for study in studies if study.setting.trains_whole_networks]


def _measure(experiment: Experiment, studies: Iterable[Study], out: Path, quick: bool) -> list[Failure]:
    """Do what is not a grid of runs, alone on this machine: training times and the theory; return what failed."""
    from domaincover.paper.theory.simulation import TheorySettings, run_theory
    from domaincover.paper.training_times import measure_times

    def theory() -> None:
        settings = TheorySettings(
            n_seeds=experiment.n_seeds("", ""), steps=100 if quick else experiment.steps, quick=quick
        )
        counts = experiment.domains[:2] if quick else experiment.domains
        run_theory(settings, counts, out / "theory", lambda n: say(f"Theory: trained on {n} domains."))

    def times(study: Study) -> None:
        measure_times(study, out, lambda name: say(f"Measuring training times on {name}."))

    tasks: dict[str, Callable[[], None]] = {}
    if experiment.kind == "times":
        tasks = {f"times on {study.dataset}": partial(times, study) for study in studies}
    elif experiment.kind == "theory":
        tasks = {"theory": theory}
    return [failure for name, task in tasks.items() if (failure := _attempted(name, task)) is not None]


def _attempted(name: str, task: Callable[[], None]) -> Failure | None:
    """Do a task; print why it failed, and continue."""
    from domaincover.paper.runner import Failure

    try:
        task()
    except Exception as error:
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        failure = Failure(name, 1, f"{kind}{' '.join(str(error).split())}", is_input=isinstance(error, InputError))
        say(f"Failed: {name}: {failure.reason}")
        return failure
    return None
