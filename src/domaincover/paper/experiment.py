"""Experiments: what is run, and which figures are drawn. One is read from a TOML file, or named after a data set."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from domaincover.errors import InputError, suggestion
from domaincover.options import Figure
from domaincover.paper.catalogue import CATALOGUE, DATASET_GROUPS, REGISTERED, study_dataset, study_datasets
from domaincover.paper.data_tables import data_sets
from domaincover.paper.experiment_keys import OWN_KEYS, SIZE_KEYS, STUDY_KEYS, WILDS_KEYS, check_choices, check_keys
from domaincover.paper.methods import GROUPS, METHODS, study_methods
from domaincover.paper.plugins import registered
from domaincover.paper.study import Study, why_not
from domaincover.paper.study_datasets import SYNTHETIC_NAME, Sizes, StudyDataset, check_plain

PAPER = ("main", "targets", "single-label", "coverage", "penalties", "splits", "times", "theory")
REAL = ("main", "targets", "single-label", "penalties", "times")  # what `paper real` runs
# Groups of data sets that are read from a folder, and the option that names it.
FOLDERS = {
    "wilds": ("WILDS is", "--wilds, the folder with the released data sets"),
    "real": ("real data sets are", "--data, the folder with AudioMNIST, the malaria cells, WISDM, …"),
}
Kind = Literal["grid", "theory", "times"]
# A promise from ten domains must be weak, most of all for labels that some of them lack.
QUICK_SETTINGS = {"min_cell_size": 20, "domain_confidence": 0.5, "quick": True}
# The cheapest that learns: some 370 steps, ten times as long as usual. Pretrained networks take short steps.
QUICK_TRAINING = {"epochs": 8, "learning_rate": 0.01}
QUICK_TRAINING_OF_WHOLE_NETWORKS = {"epochs": 3}
QUICK_SEEDS = 1
SET_BY_QUICK = ("seeds", "steps", *SIZE_KEYS, *(key for key in QUICK_SETTINGS | QUICK_TRAINING if key != "quick"))
SEEDS = 5
SEEDS_OF_SYNTHETIC = 20
Note = Callable[[str], object]


@dataclass(frozen=True)
class Experiment:
    """The content of a TOML file, by its keys; a key that is absent has the default of the study or data set."""

    name: str
    title: str = ""
    paper: str = ""  # the table or figure of the paper
    kind: Kind = "grid"
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("paper",)
    target_recalls: tuple[float, ...] = (0.9,)
    seeds: int | Mapping[str, int] = SEEDS  # the same for all, or by data set, method or group of either
    figures: tuple[Figure, ...] = ("cross",)
    domains: tuple[int, ...] = ()  # of the theory: numbers of training domains
    steps: int = 3_000  # of the theory
    settings: Mapping[str, Any] = field(default_factory=dict)  # STUDY_KEYS
    sizes: Mapping[str, int] = field(default_factory=dict)  # SIZE_KEYS
    own: tuple[StudyDataset, ...] = ()  # data sets that its file describes
    wilds: Mapping[str, Any] = field(default_factory=dict)  # WILDS_KEYS
    is_of_paper: bool = False  # whether its results stand beside the paper's

    def with_values(self, values: Mapping[str, Any], place: str) -> Experiment:
        """Return the experiment with other values of some keys; `place` names their origin in errors."""
        check_keys(values, place)
        own: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in _of(values, OWN_KEYS).items()
        }
        check_choices(values, place)
        changed = replace(
            self,
            **own,
            settings={**self.settings, **_of(values, STUDY_KEYS)},
            sizes={**self.sizes, **_of(values, SIZE_KEYS)},
            wilds={**self.wilds, **_of(values, WILDS_KEYS)},
        )
        check_plain(changed.name, f"experiment in {place}", reserved=())
        changed._check(place)
        return changed

    def _check(self, place: str) -> None:
        methods = study_methods(self.methods)
        if self.kind == "times" and not {"erm", "set-cover"} <= set(methods):
            raise InputError(f'{place}: times are of erm and set-cover; give methods = ["erm", "set-cover"].')
        if self.kind == "times" and len(self.target_recalls) > 1:
            raise InputError(f"{place}: times are of one target recall, got {len(self.target_recalls)}.")
        for name in () if isinstance(self.seeds, int) else self.seeds:
            _check_known(name, f"{place}: seeds", [dataset.name for dataset in self.own])
        if self.kind == "theory" and not self.domains:
            raise InputError(f"{place}: domains is missing: numbers of training domains, as domains = [2, 5, 10].")

    def n_seeds(self, dataset: str, method: str) -> int:
        """Return the number of seeds of a method on a data set: the smallest that is given for either, by default 5."""
        if isinstance(self.seeds, int):
            return self.seeds
        own = {
            name: count
            for name, count in self.seeds.items()
            if dataset in study_datasets([name]) or method in study_methods([name])
        }
        return min(own.values(), default=SEEDS)

    def studies(self, sources: tuple[StudyDataset, ...], quick: bool, note: Note) -> Iterator[Study]:
        """Yield studies of each data set, with the methods that can be run on it; one for each number of seeds."""
        for dataset in self.present_datasets(sources, note):
            own = tuple(source for source in sources if source.name == dataset)
            sizes = self.settings.get("sizes")
            if self.sizes and not own:
                sizes = Sizes(**{**study_dataset(dataset).sizes._asdict(), **self.sizes})
            marks = {"quick": quick, "as_authors": self.settings.get("as_authors", False)}
            setting = Study((dataset,), (), sources=own, sizes=sizes, **marks).setting(dataset)
            settings = dict(self.settings) | (_quick_settings(setting) if quick else {})
            shared: dict[str, Any] = {"target_recalls": self.target_recalls, **settings, "sizes": sizes}
            confidence = settings.get("domain_confidence", Study.domain_confidence)
            reasons = {name: why_not(name, setting, confidence) for name in study_methods(self.methods)}
            for name, reason in reasons.items():
                if reason is not None:
                    note(f"{name} is left out on {dataset}: {reason}")
            by_seeds = defaultdict(list)
            for name in (name for name, reason in reasons.items() if reason is None):
                by_seeds[QUICK_SEEDS if quick else self.n_seeds(dataset, name)].append(name)
            for n_seeds, methods in by_seeds.items():
                yield Study((dataset,), tuple(methods), sources=own, seeds=tuple(range(n_seeds)), **shared)

    def present_datasets(self, sources: tuple[StudyDataset, ...], note: Note) -> list[str]:
        """Return the available data sets; a group may lack some, a data set that is named may not be missing."""
        given = {source.name for source in sources}
        present: list[str] = []
        for name in self.datasets:
            members = study_datasets([name])
            if name in FOLDERS:
                members = tuple(member for member in members if member in given)
                if not members:
                    note(f"{FOLDERS[name][0]} left out: give {FOLDERS[name][1]}.")
            elif name == "installable":
                absent = [member for member in members if not CATALOGUE[member].is_installed]
                if absent:
                    note(f"{', '.join(absent)} are left out: pip install 'domaincover[data]'.")
                members = tuple(member for member in members if member not in absent)
            elif name in DATASET_GROUPS["wilds"] and name not in given:
                raise InputError(f"{name} is read from a folder of WILDS; give --wilds.")
            elif name in DATASET_GROUPS["real"] and name not in given:
                raise InputError(f"{name} is read from files or a package; give --data, the folder to look in.")
            present += members
        return list(dict.fromkeys(present))


def paper_experiments() -> dict[str, Experiment]:
    """Return the paper's experiments by name, with the data sets and methods of plug-ins."""
    folder = files("domaincover.paper") / "experiments"
    texts = {name: (folder / f"{name}.toml").read_text(encoding="utf-8") for name in PAPER}
    found = {name: parsed(text, name, f"paper/{name}.toml") for name, text in texts.items()}
    return {name: with_plugins(replace(experiment, is_of_paper=True)) for name, experiment in found.items()}


def with_plugins(experiment: Experiment) -> Experiment:
    """Return an experiment with the data sets of plug-ins, and with their methods if it compares groups of methods."""
    if experiment.kind == "theory":
        return experiment
    datasets, methods = registered()
    compares = any(name in GROUPS for name in experiment.methods)
    return replace(
        experiment,
        datasets=experiment.datasets + datasets,
        methods=experiment.methods + (methods if compares else ()),
    )


def dataset_experiment(name: str) -> Experiment:
    """Return the experiment of one data set, or of a group of them: the paper's methods at recall 0.9.

    On the paper's synthetic data, with 20 seeds and the best iterate of SET-COVER's training, which take little time.
    """
    members = study_datasets([name])
    for dataset in members:
        if dataset not in (*DATASET_GROUPS["wilds"], *DATASET_GROUPS["real"]):
            study_dataset(dataset)
    own: dict[str, Any] = {"title": "Comparison of the paper's methods", "datasets": (name,)}
    if {*members} <= {*DATASET_GROUPS["synthetic"]}:
        own |= {"methods": ("paper", "set-cover-best"), "seeds": SEEDS_OF_SYNTHETIC}
    is_of_paper = {*members} <= {*DATASET_GROUPS["synthetic"], *DATASET_GROUPS["wilds"]}
    return Experiment(name, is_of_paper=is_of_paper, **own)


def read_experiment(path: Path) -> Experiment:
    """Read an experiment from a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot read {path}: {reason}.") from None
    experiment = parsed(text, path.stem, str(path), path.parent)
    if experiment.kind != "theory" and not experiment.datasets:
        raise InputError(
            f'{path}: datasets is missing; name one, such as datasets = ["synthetic-10"], or describe your own in '
            "[data.NAME]."
        )
    return experiment


def parsed(text: str, name: str, place: str, folder: Path = Path()) -> Experiment:
    """Return the experiment that a TOML text describes; unknown keys are rejected with a suggestion.

    Files of its own data sets are relative to the folder.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{place} is not valid TOML: {error}") from None
    except (ValueError, RecursionError):  # which Python's parser lets through
        raise InputError(f"{place} has a number of thousands of digits, or lists nested too deeply.") from None
    own = data_sets(content.pop("data", {}), folder, place)
    names = tuple(dataset.name for dataset in own)
    return Experiment(name, datasets=names, own=own).with_values(content, place)


def _check_known(name: str, place: str, own: Iterable[str]) -> None:
    """Reject a name that is of no data set, method or group of either."""
    known = [*own, *DATASET_GROUPS, *CATALOGUE, *REGISTERED, *GROUPS, *METHODS]
    if name not in known and not SYNTHETIC_NAME.fullmatch(name):
        meant = suggestion(name, known, f"there are {', '.join(known)}.")
        raise InputError(f"{place}: no data set or method is called {name!r}; {meant}")


def _quick_settings(setting: StudyDataset) -> dict[str, Any]:
    """Return the settings of a smoke run, which has to learn in seconds."""
    return QUICK_SETTINGS | (QUICK_TRAINING_OF_WHOLE_NETWORKS if setting.trains_whole_networks else QUICK_TRAINING)


def _of(values: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}
