"""Data sets and methods of one's own: a module registers them, and they take part in every study."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from domaincover.errors import InputError
from domaincover.paper.datasets import REGISTERED, TableDataset, add_dataset
from domaincover.paper.methods import METHODS, Method, add_method
from domaincover.paper.packaged_data import INSTALLABLE

GROUP = "domaincover.plugins"
_read: dict[str, str] = {}  # digests of the plug-ins' files as this process met them

Read = TypeVar("Read", bound=Callable[[], Any])
Made = TypeVar("Made", bound=Callable[[float, int], Any])


def register_dataset(name: str, **settings: Any) -> Callable[[Read], Read]:
    """Register a function that returns features, labels and domains as a data set of the study.

    Settings are those of the study's data sets: n_train_domains and n_unseen_domains (how many domains train and stay
    unseen; 25 each), max_train_rows and max_test_rows (of a domain), min_cell_size, hidden, epochs, batch_size.

    ::

        @register_dataset("visits", n_train_domains=12, n_unseen_domains=8)
        def visits():
            table = pd.read_parquet("visits.parquet")
            return table.drop(columns=["outcome", "hospital"]), table["outcome"], table["hospital"]
    """

    def register(read: Read) -> Read:
        try:
            dataset = TableDataset(name=name, read=read, **settings)
        except TypeError:
            unknown = [key for key in settings if key not in TableDataset.__dataclass_fields__]
            raise InputError(f"data set {name!r} has settings that there are not: {', '.join(unknown)}.") from None
        add_dataset(dataset)
        return read

    return register


def register_method(name: str) -> Callable[[Made], Made]:
    """Register a function that makes an estimator, for a target recall and a seed, as a method of the study.

    The estimator has `fit(X, y)` or `fit(X, y, domains=…)`, and `predict_set(X)` for booleans, examples × labels, or
    `predict(X)` for one label each. X holds numbers, standardised as the study's networks read them.

    ::

        @register_method("boosted")
        def boosted(target_recall, seed):
            trees = HistGradientBoostingClassifier(random_state=seed)
            return ConformalSetClassifier(trees, "robust", target_recall=target_recall, random_state=seed)
    """

    def register(make: Made) -> Made:
        add_method(Method(name, lambda run: make(run.target_recall, run.seed), from_plugin=True))
        return make

    return register


def load_plugins(modules: Iterable[str]) -> None:
    """Import plug-ins: modules by name, files by path, and all that installed packages announce."""
    for entry in entry_points(group=GROUP):
        _import(entry.value, lambda entry=entry: entry.load())  # type: ignore[misc]
    for module in modules:
        if module.endswith(".py"):
            _import(module, lambda module=module: _import_file(Path(module)))  # type: ignore[misc]
        else:
            _import(module, lambda module=module: _import_name(module))  # type: ignore[misc]


def registered() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the data sets and methods that plug-ins have registered."""
    datasets = tuple(name for name in REGISTERED if name not in INSTALLABLE)
    return datasets, tuple(name for name, method in METHODS.items() if method.from_plugin)


def absolute(plugin: str) -> str:
    """Return a plug-in's name as other processes find it: a file by its absolute path."""
    return os.path.abspath(plugin) if plugin.endswith(".py") else plugin


def _check_unchanged(name: str, path: Path) -> None:
    """Refuse a file that has changed since this process read it: a cluster's workers live long."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if _read.setdefault(name, digest) != digest:
        raise InputError("it has changed since this process read it; restart the workers.")


def _import(name: str, load: Callable[[], object]) -> None:
    try:
        load()
    except InputError as error:
        raise InputError(f"plug-in {name}: {error}") from None
    except Exception as error:
        told = " ".join(str(error).split())
        raise InputError(f"plug-in {name} cannot be imported: {type(error).__name__}: {told}") from error


def _import_name(module: str) -> None:
    here = os.getcwd()
    if here not in sys.path:  # as `python -m` has it
        sys.path.insert(0, here)
    found = import_module(module)
    if found.__file__ is not None:
        _check_unchanged(module, Path(found.__file__))


def _import_file(path: Path) -> None:
    """Import a file once, however often it is asked for."""
    place = path.resolve()
    name = f"domaincover_plugin_{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
    if not place.is_file():
        raise InputError("there is no such file.")
    _check_unchanged(name, place)
    if name in sys.modules:
        return
    spec = spec_from_file_location(name, place)
    assert spec is not None  # noqa: S101 - for the type checker: it is a .py file
    assert spec.loader is not None  # noqa: S101
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _read[name]
        raise
