"""The data sets of an experiment that are read from files: of WILDS, of the real ones, and those of its TOML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domaincover.paper.commands import wilds_sources

if TYPE_CHECKING:
    from domaincover.options import Learn
    from domaincover.paper.commands.study_options import StudyOptions
    from domaincover.paper.experiment import Experiment, Note
    from domaincover.paper.study import Source
    from domaincover.paper.study_datasets import StudyDataset


def sources_of(experiment: Experiment, options: StudyOptions, note: Note) -> tuple[Source, ...]:
    """Return the data sets of an experiment that were found, with the sizes asked for."""
    if experiment.kind == "theory":
        return ()
    from domaincover.paper.real_sources import real_sources
    from domaincover.paper.study_datasets import study_datasets

    wanted = study_datasets(experiment.datasets)
    found: list[StudyDataset] = [dataset for dataset in experiment.own if dataset.name in wanted]
    found += real_sources(options.data, wanted, experiment.datasets, note)
    of_wilds = wilds_sources.sources_of(experiment, options.wilds, options.quick, note)
    return (*of_wilds, *(_sized(dataset, experiment, options.quick) for dataset in found))


def _sized(dataset: StudyDataset, experiment: Experiment, quick: bool) -> StudyDataset:
    from domaincover.paper.study_datasets import QUICK, QUICK_FILES, Sizes

    if quick:
        most = QUICK_FILES if dataset.trains_whole_networks else QUICK
        return dataset.with_sizes(Sizes(*map(min, most, dataset.sizes)))
    return dataset.with_sizes(dataset.sizes._replace(**experiment.sizes))


def sharing_cores(source: Source, n_jobs: int, workers: int | None) -> Source:
    """Return a data set whose processes and threads leave room for the other jobs."""
    from domaincover.paper.wilds.source import WildsSource

    return wilds_sources.sharing_cores(source, n_jobs, workers) if isinstance(source, WildsSource) else source


def description(source: Source, learn: Learn) -> str:
    """Describe how much of a data set is used, and what is trained on it."""
    from domaincover.paper.source_datasets import SourceDataset
    from domaincover.paper.wilds.source import WildsSource

    if isinstance(source, WildsSource):
        return wilds_sources.description(source, learn)
    trained = "a perceptron"
    if isinstance(source, SourceDataset):
        trained = source.network_in_words
    return f"{source.name}: {source.n_train_domains} domains train, {source.n_unseen_domains} are unseen; {trained}."
