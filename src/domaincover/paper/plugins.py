"""Plug-ins: modules that register their own datasets and methods for studies."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, TypeVar

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE, REGISTERED, add_dataset
from domaincover.paper.methods import METHODS, Method, add_method
from domaincover.paper.source_datasets import DataKind, code_digest, make_dataset

GROUP = "domaincover.plugins"
_read: dict[str, str] = {}  # digests of the plug-in files that this process imported

Read = TypeVar("Read", bound=Callable[[], Any])
Made = TypeVar("Made", bound=Callable[[float, int], Any])


def register_dataset(
    name: str, *, kind: DataKind = "table", network: Any = None, **settings: Any
) -> Callable[[Read], Read]:
    """Register a function that returns features, images or texts, and labels and domains, as a dataset for studies.

    ::

        @register_dataset("visits", n_train_domains=12, n_unseen_domains=8)
        def visits():
            table = pd.read_parquet("visits.parquet")
            return table.drop(columns=["outcome", "hospital"]), table["outcome"], table["hospital"]

    Parameters
    ----------
    name : str
        Its name in experiments.
    kind : "table", "image" or "text"
        What the function returns first: columns; images as bytes (n, height, width[, channel]) or paths; or texts.
    network : optional
        For images and texts: an ImageNetwork or TextNetwork, a function of the number of labels that returns a
        `torch.nn.Module` (trained whole), or the name or folder of a network. The default is "small-conv" for images,
        and for texts a perceptron on the mean word embeddings of MiniLM.
    **settings
        Those of a study's datasets: n_train_domains and n_unseen_domains (numbers of training and unseen domains, 25
        each), max_train_rows and max_test_rows (per domain), min_cell_size, hidden, epochs, batch_size, image_size.
    """

    def register(read: Read) -> Read:
        add_dataset(make_dataset(name, read, kind=kind, network=network, **settings))
        return read

    return register


def register_method(name: str) -> Callable[[Made], Made]:
    """Register a function of a target recall and a seed that returns an estimator as a method for studies.

    The estimator has `fit(X, y)` or `fit(X, y, domains=…)`, and `predict_set(X)`, which returns booleans (example,
    label), or `predict(X)`, which returns one label each. X is numeric and standardised as for the study's networks.

    ::

        @register_method("boosted")
        def boosted(target_recall, seed):
            trees = HistGradientBoostingClassifier(random_state=seed)
            return ConformalSetClassifier(trees, "robust", target_recall=target_recall, random_state=seed)
    """

    def register(make: Made) -> Made:
        source = code_digest(make)
        add_method(Method(name, lambda run: make(run.target_recall, run.seed), from_plugin=True, plugin_source=source))
        return make

    return register


def load_plugins(modules: Iterable[str]) -> None:
    """Import plug-ins: modules by name, files by path, and the entry points of installed packages."""
    for entry in entry_points(group=GROUP):
        _import(entry.value, entry.load)
    for module in modules:
        _import(
            module, partial(_import_file, Path(module)) if module.endswith(".py") else partial(_import_name, module)
        )


def registered() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the datasets and methods that plug-ins have registered."""
    datasets = tuple(name for name in REGISTERED if name not in CATALOGUE)
    return datasets, tuple(name for name, method in METHODS.items() if method.from_plugin)


def absolute(plugin: str) -> str:
    """Return a plug-in's name for other processes: the absolute path of a file."""
    return os.path.abspath(plugin) if plugin.endswith(".py") else plugin


def _check_unchanged(name: str, path: Path) -> None:
    """Raise if a file has changed since this process imported it, as it may in long-lived cluster workers."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if _read.setdefault(name, digest) != digest:
        raise InputError("it has changed since this process imported it; restart the workers.")


def _import(name: str, load: Callable[[], object]) -> None:
    try:
        load()
    except InputError as error:
        raise InputError(f"plug-in {name}: {error}") from None
    except Exception as error:
        reason = " ".join(str(error).split())
        raise InputError(f"plug-in {name} cannot be imported: {type(error).__name__}: {reason}") from error


def _import_name(module: str) -> None:
    if os.getcwd() not in sys.path:  # it may be in the current folder, as with `python -m`
        sys.path.insert(0, os.getcwd())
    found = import_module(module)
    if found.__file__ is not None:
        _check_unchanged(module, Path(found.__file__))


class _SourceLoader(SourceFileLoader):
    """Compiles the file itself: compiled code is kept by size and second, and an edit may change neither."""

    def get_code(self, fullname: str) -> Any:  # noqa: ARG002 - importlib's
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_file(path: Path) -> None:
    """Import a file, at most once per process."""
    place = path.resolve()
    name = f"domaincover_plugin_{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
    if not place.is_file():
        raise InputError("the file does not exist.")
    _check_unchanged(name, place)
    if name in sys.modules:
        return
    loader = _SourceLoader(name, str(place))
    spec = spec_from_loader(name, loader)
    assert spec is not None  # noqa: S101 - for the type checker
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _read[name]
        raise
