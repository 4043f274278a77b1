"""Experiments: what is run, and which figures are drawn. One is read from a TOML file, or named after a data set."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_type_hints

from domaincover.errors import InputError, suggestion
from domaincover.options import Figure
from domaincover.paper.catalogue import (
    CATALOGUE,
    DATASET_GROUPS,
    REGISTERED,
    WildsKeys,
    lacking_network,
    natural_dataset,
    study_dataset,
    study_datasets,
    wilds_dataset,
)
from domaincover.paper.experiment_file import check_typed, data_sets, parsed_value
from domaincover.paper.methods import GROUPS, METHODS, study_methods
from domaincover.paper.plugins import registered
from domaincover.paper.study import MOST_AT_ALL, MOST_SEEDS, Study, StudySettings, why_not
from domaincover.paper.study_datasets import QUICK, QUICK_FILES, SYNTHETIC_NAME, Sizes, StudyDataset, check_plain

PAPER_EXPERIMENTS = ("main", "targets", "single-label", "coverage", "penalties", "splits", "times", "theory")
REAL_EXPERIMENTS = ("main", "targets", "single-label", "penalties", "times")  # what `paper real` runs
# Groups of data sets that are read from a folder: the option that names it, and what is said without it.
FOLDERS = {"wilds": "--wilds", "real": "--data"}
Kind = Literal["grid", "theory", "times"]
# A promise from ten domains must be weak, most of all for labels that some of them lack.
QUICK_SETTINGS = {"min_cell_size": 20, "domain_confidence": 0.5, "quick": True}
# The cheapest that learns: some 370 steps, ten times as long as usual. Pretrained networks take short steps.
QUICK_TRAINING = {"epochs": 8, "learning_rate": 0.01}
QUICK_TRAINING_OF_WHOLE_NETWORKS = {"epochs": 3}
QUICK_SEEDS = 1
SET_BY_QUICK = (
    *("seeds", "steps", *Sizes._fields),
    *(key for key in QUICK_SETTINGS | QUICK_TRAINING if key != "quick"),
)
SEEDS = 5
SEEDS_OF_SYNTHETIC = 20
MOST_TRAINING_DOMAINS = 1000  # of the theory: all their examples are in memory
MOST = {"seeds": MOST_SEEDS, "steps": MOST_AT_ALL, "domains": MOST_TRAINING_DOMAINS}
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
    settings: Mapping[str, Any] = field(default_factory=dict)  # by the names of StudySettings
    sizes: Mapping[str, int] = field(default_factory=dict)  # by the names of Sizes
    own: tuple[StudyDataset, ...] = ()  # data sets that its file describes
    wilds: Mapping[str, Any] = field(default_factory=dict)  # by the names of WildsKeys
    is_of_paper: bool = False  # whether its results stand beside the paper's

    def with_values(self, values: Mapping[str, Any], place: str) -> Experiment:
        """Return the experiment with other values of some keys; `place` names their origin in errors."""
        check_typed(values, KEYS, place)
        for key in ("datasets", "methods", "target_recalls"):
            if values.get(key) == []:
                raise InputError(f"{place}: {key} is empty.")
        for key, most in MOST.items():
            for value in _numbers(values.get(key, ())):
                if not 1 <= value <= most:
                    raise InputError(f"{place}: {key} must be from 1 to {most}, got {value}.")
        own: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in _of(values, OWN_KEYS).items()
        }
        changed = replace(
            self,
            **own,
            settings={**self.settings, **_of(values, STUDY_KEYS)},
            sizes={**self.sizes, **_of(values, Sizes._fields)},
            wilds={**self.wilds, **_of(values, WILDS_KEYS)},
        )
        check_plain(changed.name, f"experiment in {place}", reserved=())
        changed._check(place)
        return changed

    def _check(self, place: str) -> None:
        methods, own = study_methods(self.methods), [dataset.name for dataset in self.own]
        for name in study_datasets(self.datasets):
            if name not in CATALOGUE and name not in own:
                study_dataset(name)
        if self.kind == "times" and not {"erm", "set-cover"} <= set(methods):
            raise InputError(f'{place}: times are of erm and set-cover; give methods = ["erm", "set-cover"].')
        if self.kind == "times" and len(self.target_recalls) > 1:
            raise InputError(f"{place}: times are of one target recall, got {len(self.target_recalls)}.")
        for name in () if isinstance(self.seeds, int) else self.seeds:
            _check_known(name, f"{place}: seeds", own)
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

    def studies(self, folders: Mapping[str, Path | None], quick: bool, note: Note) -> Iterator[Study]:
        """Yield studies of each data set, with the methods that can be run on it; one for each number of seeds.

        `folders` are those of the groups that are read from one.
        """
        for dataset in self.present_datasets(folders, quick, note):
            settings: dict[str, Any] = {**self.settings, "quick": quick} | (_quick_settings(dataset) if quick else {})
            confidence = settings.get("domain_confidence", Study.domain_confidence)
            by_seeds = defaultdict(list)
            for name in study_methods(self.methods):
                if (reason := why_not(name, dataset, confidence)) is not None:
                    note(f"{name} is left out on {dataset.name}: {reason}")
                else:
                    by_seeds[QUICK_SEEDS if quick else self.n_seeds(dataset.name, name)].append(name)
            for n_seeds, methods in by_seeds.items():
                yield Study(dataset, tuple(methods), self.target_recalls, tuple(range(n_seeds)), **settings)

    def present_datasets(self, folders: Mapping[str, Path | None], quick: bool, note: Note) -> list[StudyDataset]:
        """Return the available data sets as a study uses them; a group may lack some, one that is named may not."""
        own = {dataset.name: dataset for dataset in self.own}
        present: dict[str, StudyDataset] = {}
        for name in self.datasets:
            if name in FOLDERS and folders.get(name) is None:
                note(f"{name} is left out: give {FOLDERS[name]}, the folder with its data sets.")
                continue
            for one in study_datasets([name]):
                found = own[one] if one in own else self._found(one, folders)
                if isinstance(found, StudyDataset):
                    present[one] = found
                elif one in self.datasets:
                    raise InputError(f"{one}: {found}")
                else:
                    note(f"{one} is left out: {found}")
        return [self._sized(dataset, quick) for dataset in present.values()]

    def _found(self, name: str, folders: Mapping[str, Path | None]) -> StudyDataset | str:
        """Return a data set, or why it is absent and how to get it."""
        if name not in CATALOGUE:
            return study_dataset(name)
        data = CATALOGUE[name]
        folder, option = folders.get(data.group), FOLDERS.get(data.group)
        if folder is not None and not folder.exists():
            raise InputError(f"{option}: there is no folder {folder}.")
        place = data.find(folder)
        if place is None and not data.is_installed:
            is_needed = folder is None and option is not None
            return f"it is read from a folder; give {option}." if is_needed else data.missing(folder)
        if (lacking := lacking_network(data, self.wilds)) is not None:
            return lacking
        if data.group == "wilds":
            return wilds_dataset(name, place, self.wilds, as_authors=self.settings.get("as_authors", False))
        return natural_dataset(name, place) if option is not None else study_dataset(name)

    def _sized(self, dataset: StudyDataset, quick: bool) -> StudyDataset:
        if not quick:
            return dataset.with_sizes(dataset.sizes._replace(**self.sizes))
        is_image = getattr(dataset, "kind", "table") == "image"
        most = QUICK_FILES if is_image or dataset.trains_whole_networks else QUICK
        return dataset.with_sizes(Sizes(*map(min, most, dataset.sizes)))


_HINTS = get_type_hints(Experiment)
OWN_KEYS = {name: _HINTS[name] for name in _HINTS if name not in ("settings", "sizes", "own", "wilds", "is_of_paper")}
STUDY_KEYS = get_type_hints(StudySettings)
WILDS_KEYS = get_type_hints(WildsKeys)
KEYS: dict[str, Any] = {**OWN_KEYS, **STUDY_KEYS, **dict.fromkeys(Sizes._fields, int), **WILDS_KEYS}
# What an experiment is cannot be changed on the command line, only how it is run.
SETTABLE = {key: hint for key, hint in KEYS.items() if key not in ("name", "title", "paper", "kind")}


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Return the values of `--set KEY=VALUE`, by key; of several values for one key, the last counts.

    Values are TOML. A string needs no quotes, and a list no brackets.

    >>> parse_settings(["epochs=10", "methods=erm,set-cover", "target_recalls=[0.8, 0.9]"])
    {'epochs': 10, 'methods': ['erm', 'set-cover'], 'target_recalls': [0.8, 0.9]}
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise InputError(f"--set takes KEY=VALUE, got {assignment!r}.")
        values[key] = parsed_value(key, text, SETTABLE, "--set")
    return values


def paper_experiments() -> dict[str, Experiment]:
    """Return the paper's experiments by name, with the data sets and methods of plug-ins."""
    folder = files("domaincover.paper") / "experiments"
    texts = {name: (folder / f"{name}.toml").read_text(encoding="utf-8") for name in PAPER_EXPERIMENTS}
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


def _of(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _numbers(value: Any) -> Iterable[int]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else [value]
