"""An experiment: a TOML file that says what is run, and which tables and figures are made of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from domaincover.errors import InputError, suggestion
from domaincover.options import FIGURES, Figure
from domaincover.paper.datasets import DATASET_GROUPS, Sizes, check_plain, is_installed, study_datasets
from domaincover.paper.methods import GROUPS, study_methods
from domaincover.paper.plugins import registered
from domaincover.paper.study import MOST_AT_ALL, MOST_SEEDS, Study, why_not
from domaincover.paper.wilds.source import WildsSource

PAPER = ("main", "targets", "single-label", "coverage", "penalties", "splits", "times", "theory")
Kind = Literal["grid", "theory", "times"]
# Ten domains promise little, least about labels that not all of them have.
QUICK_SETTINGS = {"epochs": 3, "min_cell_size": 20, "domain_confidence": 0.5, "quick": True}
QUICK_SEEDS = 1
MOST_TRAINING_DOMAINS = 1000  # of the theory: their examples are all in memory
Note = Callable[[str], object]


@dataclass(frozen=True)
class Experiment:
    """What a file says, by the names that it has for it; what is not given is as a study has it."""

    name: str
    title: str = ""
    paper: str = ""  # which table or figure of the paper it is
    kind: Kind = "grid"
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("paper",)
    target_recalls: tuple[float, ...] = (0.9,)
    seeds: int = 5
    figures: tuple[Figure, ...] = ("cross",)
    domains: tuple[int, ...] = ()  # of the theory: how many train
    steps: int = 3_000  # of the theory
    settings: Mapping[str, Any] = field(default_factory=dict)

    def studies(self, sources: tuple[WildsSource, ...], quick: bool, note: Note) -> Iterator[Study]:
        """Yield what is to be run: a study for each data set, with the methods that can be run on it."""
        seeds = QUICK_SEEDS if quick else self.seeds
        settings = dict(self.settings) | (QUICK_SETTINGS if quick else {})
        for dataset in self.present_datasets(sources, note):
            own = tuple(source for source in sources if source.name == dataset)
            shared: dict[str, Any] = {"target_recalls": self.target_recalls, "seeds": tuple(range(seeds)), **settings}
            setting = Study((dataset,), (), sources=own, sizes=settings.get("sizes"), quick=quick).setting(dataset)
            confidence = settings.get("domain_confidence", Study.domain_confidence)
            reasons = {name: why_not(name, setting, confidence) for name in study_methods(self.methods)}
            for name, reason in reasons.items():
                if reason is not None:
                    note(f"{name} is left out on {dataset}: {reason}")
            methods = tuple(name for name, reason in reasons.items() if reason is None)
            yield Study((dataset,), methods, sources=own, **shared)

    def present_datasets(self, sources: tuple[WildsSource, ...], note: Note) -> list[str]:
        """Return the data sets that are at hand; a group may lack some, one that is named may not."""
        given = {source.name for source in sources}
        there: list[str] = []
        for name in self.datasets:
            members = study_datasets([name])
            if name == "wilds":
                members = tuple(member for member in members if member in given)
                if not members:
                    note("WILDS is left out: give --wilds, the folder that holds the released ones.")
            elif name == "installable" and not is_installed():
                note(f"{', '.join(members)} are left out: pip install 'domaincover[data]'.")
                members = ()
            elif name in DATASET_GROUPS["wilds"] and name not in given:
                raise InputError(f"{name} of WILDS is read from a folder; give --wilds, and what it holds is used.")
            there += members
        return list(dict.fromkeys(there))


def paper_experiments() -> dict[str, Experiment]:
    """Return the paper's experiments by name; data sets and methods of plug-ins take part in them."""
    folder = files("domaincover.paper") / "experiments"
    texts = {name: (folder / f"{name}.toml").read_text(encoding="utf-8") for name in PAPER}
    return {name: with_plugins(parsed(text, name, f"paper/{name}.toml")) for name, text in texts.items()}


def with_plugins(experiment: Experiment) -> Experiment:
    """Return an experiment with the data sets of plug-ins, and with their methods where it compares groups of them."""
    if experiment.kind == "theory":
        return experiment
    datasets, methods = registered()
    compares = any(name in GROUPS for name in experiment.methods)
    return replace(
        experiment,
        datasets=experiment.datasets + datasets,
        methods=experiment.methods + (methods if compares else ()),
    )


def read_experiment(path: Path) -> Experiment:
    """Read an experiment from a file of one's own."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"cannot read {path}: {reason}.") from None
    experiment = parsed(text, path.stem, str(path))
    if experiment.kind != "theory" and not experiment.datasets:
        raise InputError(f'{path}: datasets is missing; name one, such as datasets = ["synthetic-10"].')
    return experiment


def parsed(text: str, name: str, place: str) -> Experiment:
    """Return the experiment that a text describes; what it does not know is refused, with what may be meant."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{place} is no TOML: {error}") from None
    except (ValueError, RecursionError):  # which Python's parser lets through
        raise InputError(f"{place} holds a number of thousands of digits, or lists in lists without end.") from None
    known = {**OWN_KEYS, **STUDY_KEYS, **SIZE_KEYS}
    for key, value in content.items():
        if key not in known:
            meant = suggestion(key, known, f"there are {', '.join(known)}.")
            raise InputError(f"{place}: no key {key!r}; {meant}")
        if not _is(value, known[key]):
            raise InputError(f"{place}: {key} must be {IN_WORDS[known[key]]}, got {_short(value)}.")
    own: dict[str, Any] = {"name": name}
    own |= {
        key: tuple(value) if isinstance(value, list) else value for key, value in content.items() if key in OWN_KEYS
    }
    settings: dict[str, Any] = {key: value for key, value in content.items() if key in STUDY_KEYS}
    if sizes := {key: value for key, value in content.items() if key in SIZE_KEYS}:
        missing = [key for key in SIZE_KEYS if key not in sizes]
        if missing:
            raise InputError(f"{place}: {', '.join(sizes)} needs {', '.join(missing)} as well.")
        settings["sizes"] = Sizes(**sizes)
    _check_choices(place, own)
    check_plain(own["name"], f"experiment in {place}", reserved=())
    return Experiment(**own, settings=settings)


TEXT, INTEGER, NUMBER, TEXTS, NUMBERS, INTEGERS = "text", "integer", "number", "texts", "numbers", "integers"
IN_WORDS = {
    TEXT: "a text",
    INTEGER: "a whole number",
    NUMBER: "a number",
    TEXTS: "a list of texts",
    NUMBERS: "a list of numbers",
    INTEGERS: "a list of whole numbers",
}
OWN_KEYS = {
    "name": TEXT,
    "title": TEXT,
    "paper": TEXT,
    "kind": TEXT,
    "datasets": TEXTS,
    "methods": TEXTS,
    "target_recalls": NUMBERS,
    "seeds": INTEGER,
    "figures": TEXTS,
    "domains": INTEGERS,
    "steps": INTEGER,
}
STUDY_KEYS = {
    "epochs": INTEGER,
    "batch_size": INTEGER,
    "learning_rate": NUMBER,
    "update_every": INTEGER,
    "recall_from": TEXT,
    "min_cell_size": INTEGER,
    "domain_confidence": NUMBER,
    "domains_per_batch": INTEGER,
    "penalty_weight": NUMBER,
}
SIZE_KEYS = dict.fromkeys(Sizes._fields, INTEGER)


def _is(value: Any, kind: str) -> bool:
    if kind.endswith("s"):
        return isinstance(value, list) and all(_is(item, kind[:-1]) for item in value)
    if isinstance(value, bool):
        return False
    return isinstance(value, str if kind == TEXT else int if kind == INTEGER else int | float)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _check_choices(place: str, own: Mapping[str, Any]) -> None:
    if own.get("kind", "grid") not in get_args(Kind):
        raise InputError(f"{place}: kind must be one of {', '.join(get_args(Kind))}, got {own['kind']!r}.")
    for figure in own.get("figures", ()):
        if figure not in FIGURES:
            raise InputError(f"{place}: figures must be among {', '.join(FIGURES)}, got {figure!r}.")
    for key in ("datasets", "methods", "target_recalls"):
        if own.get(key) == ():
            raise InputError(f"{place}: {key} is empty.")
    methods = study_methods(own.get("methods", ()))
    if own.get("kind") == "times" and not {"erm", "set-cover"} <= set(methods):
        raise InputError(f'{place}: times are of erm and set-cover; give methods = ["erm", "set-cover"].')
    if own.get("kind") == "times" and len(own.get("target_recalls", (0.9,))) > 1:
        raise InputError(f"{place}: times are of one target recall, got {len(own['target_recalls'])}.")
    if own.get("kind") == "theory" and not own.get("domains"):
        raise InputError(f"{place}: domains is missing: how many train, such as domains = [2, 5, 10].")
    for count in own.get("domains", ()):
        if not 1 <= count <= MOST_TRAINING_DOMAINS:
            raise InputError(f"{place}: domains takes numbers from 1 to {MOST_TRAINING_DOMAINS}, got {count}.")
    if own.get("steps", 1) < 1:
        raise InputError(f"{place}: steps must be at least 1, got {own['steps']}.")
    if own.get("steps", 1) > MOST_AT_ALL:
        raise InputError(f"{place}: steps must be at most {MOST_AT_ALL}, got {own['steps']}.")
    if own.get("seeds", 1) < 1:
        raise InputError(f"{place}: seeds is the number of seeds and must be at least 1, got {own['seeds']}.")
    if own.get("seeds", 1) > MOST_SEEDS:
        raise InputError(f"{place}: seeds must be at most {MOST_SEEDS}, got {own['seeds']}.")
