"""Values by key, as in a TOML file or after `--set`, checked against the annotations of the fields that they set."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from domaincover.errors import InputError, check_choice, suggestion

COUNTS = int | Mapping[str, int]
IN_WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
    tuple[float, ...]: "a list of numbers",
    tuple[int, ...]: "a list of integers",
    COUNTS: "an integer, or integers by data set or method as {synthetic = 20}",
}


def check_typed(values: Mapping[str, Any], hints: Mapping[str, Any], place: str) -> None:
    """Reject unknown keys, with a suggestion, and values of another type or none of the choices of their keys."""
    for key, value in values.items():
        _check_known(key, hints, place)
        kind, choices = _kind(hints[key])
        if not _is(value, kind):
            raise InputError(f"{place}: {key} must be {IN_WORDS[kind]}, got {_short(value)}.")
        for one in value if choices and isinstance(value, list) else [value]:
            if choices:
                check_choice(f"{place}: {key}", one, choices)


def parsed_value(key: str, text: str, hints: Mapping[str, Any], place: str) -> Any:
    """Return the value of a TOML text; a string needs no quotes, and a list no brackets."""
    _check_known(key, hints, place)
    kind, _ = _kind(hints[key])
    item = get_args(kind)[0] if get_origin(kind) is tuple else None
    if item is not None and not text.startswith("["):
        return [_value(f"{place} {key}", part.strip(), item, kind) for part in text.split(",") if part.strip()]
    return _value(f"{place} {key}", text, kind, kind)


def _value(place: str, text: str, kind: Any, kind_of_all: Any) -> Any:
    if kind is str and not text.startswith(("'", '"')):
        return text
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        found = {}
    if list(found) != ["value"]:
        raise InputError(f"{place} must be {IN_WORDS[kind_of_all]}, got {_short(text)}.")
    return found["value"]


def _kind(hint: Any) -> tuple[Any, tuple[str, ...]]:
    """Return one of the types of `IN_WORDS`, and the choices if there are few."""
    if hint == COUNTS:
        return hint, ()
    if get_origin(hint) in (Union, UnionType):  # with None
        return _kind(next(part for part in get_args(hint) if part is not NoneType))
    if get_origin(hint) is tuple:
        item, choices = _kind(get_args(hint)[0])
        return next(kind for kind in IN_WORDS if get_args(kind) == (item, ...)), choices
    return (str, get_args(hint)) if get_origin(hint) is Literal else (hint, ())


def _check_known(key: str, known: Mapping[str, Any], place: str) -> None:
    if key not in known:
        meant = suggestion(key, known, f"there are {', '.join(known)}.")
        raise InputError(f"{place}: unknown key {key!r}; {meant}")


def _is(value: Any, kind: Any) -> bool:
    if kind == COUNTS:
        return all(_is(item, int) for item in (value.values() if isinstance(value, Mapping) else [value]))
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_is(item, get_args(kind)[0]) for item in value)
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
