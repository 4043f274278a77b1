"""What an experiment's TOML file says: values by key, checked against annotations, and data sets as `[data.NAME]`.

`[data.NAME]` says where the data are, what they are, and who learns them. Values after `--set` are checked alike.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from domaincover.data.identity import canonical_texts, typed_names
from domaincover.data.readers import are_pixels, check_texts
from domaincover.data.tables import open_table
from domaincover.data.tables.table import image_folder
from domaincover.datasets import DatasetTable
from domaincover.errors import InputError, check_choice, suggestion
from domaincover.paper.catalogue import check_free
from domaincover.paper.real.contents import read_arrays
from domaincover.paper.source_datasets import DataKind, make_dataset
from domaincover.paper.study_datasets import Sizes, TableDataset

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
PLACES = ("file", "folder", "table")
COLUMNS = {"label": str, "domain": str, "text": str, "features": tuple[str, ...]}
SETTINGS = dict.fromkeys((*Sizes._fields, "min_cell_size", "epochs", "batch_size", "hidden", "image_size"), int)
DATA_KEYS = {**dict.fromkeys(PLACES, str), "kind": str, **COLUMNS, "network": str, **SETTINGS}
ONE_PLACE = 'give one of file = "images.npz", folder = "images" (DOMAIN/LABEL/*.png) and table = "rows.parquet"'


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


@dataclass(frozen=True)
class DataFile:
    """Reads images or rows from a file or folder."""

    place: str
    source: str  # which of PLACES
    kind: DataKind
    label: str = "label"
    domain: str = "domain"
    text: str = "text"
    features: tuple[str, ...] = ()  # of a table; all other columns if there are none

    def __call__(self) -> DatasetTable:
        """Return features, images or texts, labels and domains."""
        if self.source == "file":
            return self._arrays()
        if self.source == "folder":
            images = image_folder(self.place)
            return DatasetTable(images["path"].to_numpy(object), images["label"], images["domain"])
        return self._rows()

    def _arrays(self) -> DatasetTable:
        arrays = read_arrays(Path(self.place))
        try:
            are_pixels(arrays["X"])
        except InputError as error:
            raise InputError(f"{self.place}: {error}") from None
        return DatasetTable(arrays["X"], arrays["label"], arrays["domain"])

    def _rows(self) -> DatasetTable:
        table = open_table(Path(self.place))
        for key in ("label", "domain", *(["text"] if self.kind == "text" else [])):
            table.check_column(getattr(self, key), key)
        for name in self.features:
            table.check_column(name, "features")
        names = [self.label, self.domain]
        rows = table.read(None, names, [self.text] if self.kind == "text" else [])
        y, domains = (typed_names(canonical_texts(rows[name])) for name in names)
        for what, values in (("label", y), ("domain", domains)):
            _check_complete(values, what, self.place)
        if self.kind == "text":
            try:
                return DatasetTable(check_texts(rows[self.text], self.text), y, domains)
            except InputError as error:
                raise InputError(f"{self.place}: {error}") from None
        return DatasetTable(rows[[*self.features]] if self.features else rows.drop(columns=names), y, domains)


def data_sets(content: Any, folder: Path, place: str) -> tuple[TableDataset, ...]:
    """Return the data sets of a TOML file's `data`; their files are relative to its folder."""
    if not isinstance(content, Mapping) or not all(isinstance(values, Mapping) for values in content.values()):
        raise InputError(f"{place}: data must be tables, such as [data.cells].")
    return tuple(_data_set(name, values, folder, f"{place}: [data.{name}]") for name, values in content.items())


def _data_set(name: str, values: Mapping[str, Any], folder: Path, place: str) -> TableDataset:
    check_typed(values, DATA_KEYS, place)
    given = [key for key in PLACES if key in values]
    if len(given) != 1:
        raise InputError(f"{place}: {ONE_PLACE}.")
    source = given[0]
    kind = values.get("kind", ("text" if "text" in values else "table") if source == "table" else "image")
    _check_effects(values, source, kind, place)
    columns: dict[str, Any] = {
        key: tuple(value) if key == "features" else value for key, value in values.items() if key in COLUMNS
    }
    read = DataFile(os.path.join(os.path.abspath(folder), values[source]), source, kind, **columns)
    network = _network(values.get("network"), folder)
    settings = {key: value for key, value in values.items() if key in SETTINGS}
    try:
        check_free(name)
        return make_dataset(name, read, kind=kind, network=network, **settings)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _check_effects(values: Mapping[str, Any], source: str, kind: str, place: str) -> None:
    """Reject keys that would have no effect."""
    if source != "table":
        columns = [key for key in COLUMNS if key in values]
        if columns:
            raise InputError(f"{place}: {columns[0]} names a column of a table; images are read without it.")
        if kind != "image":
            raise InputError(
                f"{place}: {source} has images, so kind must be 'image', got {kind!r}; texts need a table."
            )
    elif kind == "image":
        raise InputError(f"{place}: images are read from a file or folder; a table has kind 'table' or 'text'.")
    if kind == "text" and "features" in values:
        raise InputError(f"{place}: features are columns of a table; texts are learned from one column.")
    for key in SETTINGS:
        if values.get(key, 1) < (least := 0 if key == "hidden" else 1):
            raise InputError(f"{place}: {key} must be at least {least}, got {values[key]}.")


def _network(name: str | None, folder: Path) -> str | None:
    """Return a network's name, with the path of a folder relative to the TOML file's."""
    beside = None if name is None else os.path.join(os.path.abspath(folder), name)
    return beside if beside is not None and os.path.isdir(beside) else name


def _check_complete(values: Any, what: str, place: str) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        first = int(missing.argmax()) + 1
        raise InputError(f"{place}: {int(missing.sum())} of {len(values)} rows have no {what}, first row {first}.")
