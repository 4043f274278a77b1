"""The keys of an experiment's TOML file, their types and choices, and `--set KEY=VALUE` on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from domaincover.errors import InputError, check_choice, suggestion
from domaincover.options import FIGURES, Learn, TextFeatures
from domaincover.paper.study import MOST_AT_ALL, MOST_SEEDS
from domaincover.paper.study_datasets import Sizes

MOST_TRAINING_DOMAINS = 1000  # of the theory: all their examples are in memory
KINDS = ("grid", "theory", "times")

TEXT, INTEGER, NUMBER, BOOLEAN = "text", "integer", "number", "boolean"
TEXTS, NUMBERS, INTEGERS = "texts", "numbers", "integers"
COUNTS = "integer or table"
IN_WORDS = {
    TEXT: "a string",
    INTEGER: "an integer",
    NUMBER: "a number",
    BOOLEAN: "true or false",
    TEXTS: "a list of strings",
    NUMBERS: "a list of numbers",
    INTEGERS: "a list of integers",
    COUNTS: "an integer, or integers by data set or method as {synthetic = 20}",
}
OWN_KEYS = {
    "name": TEXT,
    "title": TEXT,
    "paper": TEXT,
    "kind": TEXT,
    "datasets": TEXTS,
    "methods": TEXTS,
    "target_recalls": NUMBERS,
    "seeds": COUNTS,
    "figures": TEXTS,
    "domains": INTEGERS,
    "steps": INTEGER,
}
STUDY_KEYS = {
    "epochs": INTEGER,
    "batch_size": INTEGER,
    "learning_rate": NUMBER,
    "initial_multiplier": NUMBER,
    "update_every": INTEGER,
    "recall_from": TEXT,
    "iterate": TEXT,
    "min_cell_size": INTEGER,
    "domain_confidence": NUMBER,
    "domains_per_batch": INTEGER,
    "penalty_weight": NUMBER,
    "as_authors": BOOLEAN,
}
SIZE_KEYS = dict.fromkeys(Sizes._fields, INTEGER)
# Networks on WILDS, and how they read examples.
WILDS_KEYS = {
    "learn": TEXT,
    "image_network": TEXT,
    "weights": TEXT,
    "image_size": INTEGER,
    "max_unreadable": NUMBER,
    "text_network": TEXT,
    "text_features": TEXT,
    "max_tokens": INTEGER,
    "device": TEXT,
    "workers": INTEGER,
    "cache": TEXT,
    "download": BOOLEAN,
}
KEYS = {**OWN_KEYS, **STUDY_KEYS, **SIZE_KEYS, **WILDS_KEYS}
# What an experiment is cannot be changed on the command line, only how it is run.
SETTABLE = {key: kind for key, kind in KEYS.items() if key not in ("name", "title", "paper", "kind")}
CHOICES: dict[str, tuple[str, ...]] = {
    "kind": KINDS,
    "figures": FIGURES,
    "learn": get_args(Learn),
    "text_features": get_args(TextFeatures),
}
MOST = {"seeds": MOST_SEEDS, "steps": MOST_AT_ALL, "domains": MOST_TRAINING_DOMAINS}


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
        _check_known(key, SETTABLE, "--set")
        values[key] = _value(key, text, SETTABLE[key])
    return values


def _value(key: str, text: str, kind: str) -> Any:
    if kind.endswith("s") and not text.startswith("["):
        return [_value(key, item.strip(), kind[:-1]) for item in text.split(",") if item.strip()]
    if kind == TEXT and not text.startswith(("'", '"')):
        return text
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        found = {}
    if list(found) != ["value"]:
        raise InputError(f"--set {key} must be {IN_WORDS[SETTABLE[key]]}, got {_short(text)}.")
    return found["value"]


def check_keys(values: Mapping[str, Any], place: str) -> None:
    """Reject unknown keys, with a suggestion, and values of another type."""
    for key, value in values.items():
        _check_known(key, KEYS, place)
        check_value(key, value, KEYS[key], place)


def check_value(key: str, value: Any, kind: str, place: str) -> None:
    """Reject a value of another type than its key's."""
    if not _is(value, kind):
        raise InputError(f"{place}: {key} must be {IN_WORDS[kind]}, got {_short(value)}.")


def check_choices(values: Mapping[str, Any], place: str) -> None:
    """Reject values that are not among the choices or in the range of their keys."""
    for key, choices in CHOICES.items():
        for value in _listed(values.get(key, ())):
            check_choice(f"{place}: {key}", value, choices)
    for key in ("datasets", "methods", "target_recalls"):
        if values.get(key) == []:
            raise InputError(f"{place}: {key} is empty.")
    for key, most in MOST.items():
        for value in _listed(values.get(key, ())):
            if not 1 <= value <= most:
                raise InputError(f"{place}: {key} must be from 1 to {most}, got {value}.")


def _check_known(key: str, known: Mapping[str, str], place: str) -> None:
    if key not in known:
        meant = suggestion(key, known, f"there are {', '.join(known)}.")
        raise InputError(f"{place}: unknown key {key!r}; {meant}")


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list | tuple) else [value]


def _is(value: Any, kind: str) -> bool:
    if kind == COUNTS:
        return all(_is(item, INTEGER) for item in _listed(value))
    if kind.endswith("s"):
        return isinstance(value, list) and all(_is(item, kind[:-1]) for item in value)
    if kind == BOOLEAN or isinstance(value, bool):
        return isinstance(value, bool) and kind == BOOLEAN
    return isinstance(value, str if kind == TEXT else int if kind == INTEGER else int | float)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
