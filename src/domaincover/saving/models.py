"""Save fitted models to folders and load them on any machine.

A model folder contains data only: JSON, safetensors for networks, skops for scikit-learn estimators. Loading an
untrusted folder cannot execute code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from domaincover.errors import InputError, one_line, torch_needed_for
from domaincover.files import write_whole
from domaincover.predictors.domain_record import Record
from domaincover.predictors.interval_predictor import IntervalPredictor
from domaincover.predictors.label_scores import last_step
from domaincover.predictors.set_predictor import SetPredictor
from domaincover.saving.parts import PartsReader, PartsWriter
from domaincover.saving.sealed import RECORD, SavedFolder, digest, json_bytes, read_folder, write_folder
from domaincover.saving.values import from_json, to_json

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from domaincover.estimators.base import SetClassifier
    from domaincover.estimators.network import MakeNetwork

__all__ = ["load", "load_extra", "load_to_predict", "model_checksum", "save", "write_record"]

Read = TypeVar("Read")
EXTRA = "extra.json"
STACK = "by domain"  # tag of a large array in a record
LIBRARIES = ("numpy", "scikit-learn", "skops", "torch")  # their versions are reported when loading fails


def save(
    model: Any, folder: str | Path, extra: Mapping[str, Any] | None = None, *, trusted: Sequence[str] = ()
) -> None:
    """Write a fitted model to a folder atomically, replacing any earlier model.

    Parameters
    ----------
    model : estimator
        A domaincover estimator, a scikit-learn pipeline that may contain some, or another scikit-learn estimator.
    folder : path
        A new path, an empty folder, or one that contains an earlier model.
    extra : mapping or None
        JSON-serializable metadata to store with the model; read it with `load_extra`.
    trusted : sequence of str
        Additional types, such as "mypackage.steps.Winsorizer", that are safe to construct from a file.
    """
    _check_fitted(model)
    writer = PartsWriter(_listed(trusted))
    writer.add(model)
    files = writer.files | ({} if extra is None else {EXTRA: _extra_bytes(extra)})
    versions = {name: found for name in LIBRARIES if (found := _version(name)) is not None}
    content = {"domaincover": version("domaincover"), "versions": versions, "parts": writer.parts}
    write_folder(folder, content, files)
    write_record(folder, model)


def load(
    folder: str | Path, *, network: MakeNetwork | None = None, trusted: Sequence[str] = ()
) -> SetClassifier | Pipeline:
    """Load a model written by `save`, after verifying every file: a classifier of sets, or a pipeline with one.

    Parameters
    ----------
    folder : path
    network : function or None
        The function that built the network, if the model was given one: the folder stores its weights only.
    trusted : sequence of str
        Types that `save` was told to trust. List only types you know: a forged file can construct them.
    """
    saved, files = _read_whole(folder)
    reader = PartsReader(files, network, _listed(trusted))
    model = _made(saved, reader)
    if network is not None and not reader.used_network:
        raise InputError(f"network was given, but the model in {saved.path} was not made with a function.")
    return _with_record(model, saved)


def load_to_predict(folder: str | Path) -> Any:
    """Load a model to predict, evaluate and adapt with: of a perceptron on tables without scikit-learn and torch."""
    saved, files = _read_whole(folder)
    return _with_record(_made(saved, PartsReader(files, to_predict=True)), saved)


def load_extra(folder: str | Path) -> dict[str, Any] | None:
    """Return the metadata saved with a model, or None; its checksum is verified."""
    content = _unchanged(folder, lambda saved: saved.read(EXTRA) if EXTRA in saved.content["files"] else None)
    if content is None:
        return None
    try:
        extra = json.loads(content)
    except (ValueError, RecursionError):
        extra = None
    if not isinstance(extra, dict):
        raise InputError(f"{Path(folder) / EXTRA} is not a JSON object.")
    return extra


def model_checksum(folder: str | Path) -> str:
    """Return the SHA-256 that identifies a saved model: it covers the digests of all files, which `load` verifies.

    It stands at the end of `model.json`, so copies can be compared without this library.
    """
    return read_folder(folder).checksum


def write_record(folder: str | Path, model: Any) -> None:
    """Write the record of a model beside it, so that the model stays as it is; it names the model by its checksum."""
    record = getattr(last_step(model), "record_", None)
    if record is None:
        return
    content = {
        "model": read_folder(folder).checksum,
        "record": {name: to_json(value, _by_domain) for name, value in record._asdict().items()},
    }
    write_whole(Path(folder) / RECORD, json_bytes({**content, "checksum": digest(json_bytes(content))}))


def _with_record(model: Any, saved: SavedFolder) -> Any:
    """Return a model that was read, with its record if there is one."""
    path = saved.path / RECORD
    if not path.exists():
        return model
    try:
        content = json.loads(path.read_bytes())
        checksum = content.pop("checksum")
        found = {name: from_json(value, {STACK: _stacked}) for name, value in content["record"].items()}
        if checksum != digest(json_bytes(content)) or set(found) != set(Record._fields):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise InputError(f"{path} is corrupt; copy it again, or remove it to begin a new record.") from error
    if content["model"] != saved.checksum:
        raise InputError(f"{path} is the record of another model; remove it to begin a new one.")
    last_step(model).record_ = Record(**found)
    return model


def _by_domain(array: Any) -> Any:
    """Write a large array domain by domain."""
    return {STACK: [to_json(part, _by_domain) for part in array]}


def _stacked(parts: Any) -> Any:
    return np.stack([from_json(part, {STACK: _stacked}) for part in parts])


def _read_whole(folder: str | Path) -> tuple[SavedFolder, dict[str, bytes]]:
    """Read all files of one model."""
    return _unchanged(folder, lambda saved: (saved, {name: saved.read(name) for name in saved.content["files"]}))


def _unchanged(folder: str | Path, read: Callable[[SavedFolder], Read]) -> Read:
    """Read from a model's folder; start again if another process replaces the model meanwhile."""
    while True:
        before = _mark(folder)
        try:
            return read(read_folder(folder))
        except InputError:
            if _mark(folder) == before:
                raise


def _mark(folder: str | Path) -> tuple[int, ...]:
    """Return what tells a folder from another of this name, also from one with the same content."""
    try:
        found = os.stat(folder)
    except OSError:
        return ()
    return found.st_ino, found.st_ctime_ns


def _made(saved: SavedFolder, reader: PartsReader) -> Any:
    try:
        with torch_needed_for("its network"):
            return reader.read(saved.content["parts"])
    except InputError as error:
        raise InputError(f"cannot load {saved.path}: {error}") from error
    except Exception as error:  # forged content, or another version's, can fail in any way
        reason = one_line(error)
        raise InputError(f"cannot load {saved.path}: {reason} ({_other_versions(saved.content)}).") from error


def _other_versions(content: Mapping[str, Any]) -> str:
    """Describe version differences from the libraries that saved the model, a likely reason why loading failed."""
    kept = content.get("versions")
    kept = kept if isinstance(kept, dict) else {}
    here = {name: _version(name) for name in LIBRARIES}
    others = [f"{name} {kept.get(name)}, here {here[name]}" for name in LIBRARIES if kept.get(name) != here[name]]
    return f"saved with {'; '.join(others)}" if others else "versions match, so the content is not a valid model"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _check_fitted(model: Any) -> None:
    if isinstance(model, SetPredictor | IntervalPredictor):
        is_fitted = model.__sklearn_is_fitted__()
    else:
        from sklearn.base import BaseEstimator
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        if not isinstance(model, BaseEstimator):
            raise InputError(f"a {type(model).__name__} cannot be saved; domaincover saves scikit-learn estimators.")
        try:
            check_is_fitted(model)
            is_fitted = True
        except NotFittedError:
            is_fitted = False
    if not is_fitted:
        raise InputError(f"this {type(model).__name__} is not fitted; call fit before saving it.")


def _extra_bytes(extra: Mapping[str, Any]) -> bytes:
    try:
        return json_bytes(dict(extra))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"extra must be JSON-serializable: {one_line(error)}.") from error


def _listed(trusted: Sequence[str]) -> tuple[str, ...]:
    return (trusted,) if isinstance(trusted, str) else tuple(trusted)
