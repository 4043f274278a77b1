"""The WILDS data sets of an experiment: which are found in the folder given, and the networks on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincover.errors import InputError
from domaincover.terminal.processes import n_cores

if TYPE_CHECKING:
    from domaincover.options import Learn
    from domaincover.paper.experiment import Experiment, Note
    from domaincover.paper.wilds.releases import Release
    from domaincover.paper.wilds.source import Execution, WildsSource

MOST_WORKERS = 4
RANDOM_START = (
    "ResNet-18 starts from random weights, and the paper's from ImageNet weights; give --set weights=FILE, a file of "
    "torchvision weights."
)


def sources_of(experiment: Experiment, folder: Path | None, quick: bool, note: Note) -> tuple[WildsSource, ...]:
    """Return the WILDS data sets of an experiment that are in a folder; the folder may be that of one data set."""
    if folder is None or experiment.kind == "theory":
        return ()
    from domaincover.paper.study_datasets import QUICK_FILES, study_datasets
    from domaincover.paper.wilds.reader import RELEASES
    from domaincover.paper.wilds.source import wilds_source

    if not folder.is_dir():
        raise InputError(f"--wilds: there is no folder {folder}.")
    wanted = [name for name in RELEASES if name in study_datasets(experiment.datasets)]
    sizes = QUICK_FILES._asdict() if quick else experiment.sizes
    sources = []
    for name in wanted:
        release, is_named = RELEASES[name], name in experiment.datasets
        if not is_named and not (folder / release.folder).is_dir():
            note(f"{name} is left out: there is no {release.folder} in {folder}.")
            continue
        network = experiment.wilds.get(f"{release.kind}_network")
        if not is_named and release.kind == "text" and network is None:
            note(f"{name} is left out: give --set text_network=FOLDER, the folder of a BERT-like model.")
            continue
        settings = _network_settings(release, experiment.wilds)
        settings |= {"as_authors": experiment.settings.get("as_authors", False)}
        execution = _execution(experiment.wilds)
        sources.append(wilds_source(name, folder, model=network, **settings, **sizes, execution=execution))
    return tuple(sources)


def sharing_cores(source: WildsSource, n_jobs: int, workers: int | None) -> WildsSource:
    """Return a data set whose processes and threads leave room for the other jobs."""
    share = max(1, n_cores() // n_jobs)
    workers = min(MOST_WORKERS, share) if workers is None else workers
    return replace(source, execution=replace(source.execution, workers=workers, threads=share if n_jobs > 1 else None))


def _network_settings(release: Release, values: Any) -> dict[str, Any]:
    """Return the parameters of a network, by the names of `wilds_source`."""
    of_kind = {
        "image": {"weights": "weights", "image_size": "image_size"},
        "text": {"text_features": "features", "max_tokens": "max_tokens"},
    }
    names = {"learn": "learn", **of_kind[release.kind]}
    return {own: values[key] for key, own in names.items() if key in values}


def _execution(values: Any) -> Execution:
    from domaincover.paper.wilds.source import Execution

    given = {key: values[key] for key in ("device", "download", "max_unreadable") if key in values}
    if "cache" in values:
        given["cache"] = str(Path(values["cache"]).absolute())
    return Execution(**given)


def description(source: WildsSource, learn: Learn) -> str:
    """Describe what is trained on a data set; `learn` is what was asked for, which may be "auto"."""
    network = source.source_network
    if network.kind == "text" and source.learn == "head":
        return (
            f"{source.name}: {source.model} is not trained; a perceptron with {source.hidden} hidden units is trained "
            f"on its {source.features}."
        )
    trained = replace(network, learn=learn).in_words(source.execution.device)
    return f"{source.name}: {trained}{'' if network.is_pretrained else f' {RANDOM_START}'}"
