"""Save fitted models to folders and load them on any machine.

A model folder contains data only: JSON, safetensors for networks, skops for scikit-learn estimators. Loading an
untrusted folder cannot execute code.

`model.json` lists the SHA-256 of every other file and ends with a checksum of its own content. Checksums detect
corruption (disks, interrupted copies, editors), not forgery: a forger can recompute them. Protection against forged
files comes from the formats, which never execute what they contain.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from domaincover.errors import InputError, one_line, torch_needed_for
from domaincover.files import (
    fault,
    only_one_beside,
    recover_folder,
    remove_leftovers,
    replace_folder,
    unfinished_name,
    write_whole,
    writing,
)
from domaincover.predictors.calibrated_predictors import last_step
from domaincover.predictors.domain_record import Record
from domaincover.predictors.interval_predictor import IntervalPredictor
from domaincover.predictors.set_predictor import SetPredictor
from domaincover.saving.parts import PartsReader, PartsWriter
from domaincover.saving.values import from_json, to_json

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from domaincover.estimators.base import SetClassifier
    from domaincover.estimators.network import MakeNetwork

Read = TypeVar("Read")
EXTRA = "extra.json"
STACK = "by domain"  # tag of a large array in a record
LIBRARIES = ("numpy", "scikit-learn", "skops", "torch")  # their versions are reported when loading fails
MANIFEST = "model.json"
FORMAT = "domaincover-model"
FORMAT_VERSION = 3
OPENING = f'{{"format":"{FORMAT}",'.encode()  # the first bytes of every manifest
# The only allowed file names, so that a manifest cannot refer to files outside its folder.
NAMES = re.compile(r"part-\d{1,6}\.(skops|safetensors)|arrays\.safetensors|extra\.json")
RECORD = "record.json"  # beside the files that the manifest lists


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


class SavedFolder(NamedTuple):
    """A model folder and its verified manifest."""

    path: Path
    content: dict[str, Any]

    @property
    def checksum(self) -> str:
        """The SHA-256 at the end of the manifest: over its content, and so over the digests of all files."""
        return digest(json_bytes(self.content))

    def read(self, name: str) -> bytes:
        """Return a file's bytes; raise if the file is missing or its checksum differs."""
        path = self.path / name
        if not os.path.isfile(path):
            raise InputError(f"{path} is missing, so the model is incomplete; copy or save it again.")
        content = _bytes_of(path)
        if digest(content) != self.content["files"][name]:
            raise _damaged(path)
        return content


def read_folder(folder: str | Path) -> SavedFolder:
    """Read and verify the manifest of a saved model."""
    path = Path(folder)
    if not os.path.isdir(path):
        with contextlib.suppress(OSError):
            recover_folder(_behind_links(path))
    if not os.path.isdir(path):
        is_there = os.path.exists(path)
        raise InputError(f"{path} {'is a file; a saved model is a folder.' if is_there else 'does not exist.'}")
    if not os.path.isfile(path / MANIFEST):
        raise InputError(f"{path} holds no {MANIFEST}, so it is not a model that domaincover saved.")
    content = _checked_manifest(path / MANIFEST)
    files = content.get("files")
    if not isinstance(files, dict) or not all(NAMES.fullmatch(name) for name in files):
        raise InputError(f"{path / MANIFEST} lists files that a model cannot contain.")
    return SavedFolder(path, content)


def write_folder(folder: str | Path, content: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write the files and their manifest to a temporary folder, then rename it into place."""
    target = _behind_links(folder)
    with only_one_beside(target), writing(folder):
        check_folder(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent)
        recover_folder(target)
        _write_beside(target, content, files)


def check_folder(folder: str | Path) -> None:
    """Raise if saving a model here would overwrite anything but an earlier model; call this before fitting."""
    target = _behind_links(folder)
    if not os.path.exists(target):
        above = next(parent for parent in target.parents if os.path.exists(parent))
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise InputError(f"cannot write {folder}: {above} is not a writable folder.")
        return
    if not target.is_dir():
        raise InputError(f"{folder} is a file; a model is saved to a folder, so choose another name.")
    try:
        names = os.listdir(target)
    except OSError as error:
        raise InputError(f"cannot read {folder}: {fault(error)}.") from error
    if names and not (MANIFEST in names and _bytes_of(target / MANIFEST).startswith(OPENING)):
        raise InputError(f"{folder} is not a model folder and is not empty; choose another name.")
    foreign = [name for name in names if name not in (MANIFEST, RECORD) and not NAMES.fullmatch(name)]
    if foreign:
        raise InputError(f"{folder} also contains {foreign[0]!r}, which would be lost; move it elsewhere.")


def is_model(folder: str | Path) -> bool:
    """Tell whether a folder holds a saved model."""
    return os.path.isfile(_behind_links(folder) / MANIFEST)


def _behind_links(folder: str | Path) -> Path:
    return Path(os.path.realpath(folder))  # a symbolic link to a model stays a link


def _write_beside(target: Path, content: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    unfinished = unfinished_name(target)
    try:
        unfinished.mkdir()
        digests = {}
        for name, part in files.items():
            (unfinished / name).write_bytes(part)
            digests[name] = digest(part)
        head = {"format": FORMAT, "format_version": FORMAT_VERSION}
        (unfinished / MANIFEST).write_bytes(_sealed({**head, **content, "files": digests}))
        replace_folder(unfinished, target)
    finally:  # also after a failure or Ctrl-C
        shutil.rmtree(unfinished, ignore_errors=True)


def _checked_manifest(path: Path) -> dict[str, Any]:
    content = _unsealed(_bytes_of(path))
    if content is None:
        raise _damaged(path)
    version = content.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"{path} has format {version!r}, but this domaincover reads up to {FORMAT_VERSION}; upgrade domaincover."
        )
    if version < FORMAT_VERSION:
        raise InputError(
            f"{path} was saved by an earlier domaincover, whose models it cannot read; fit the model anew."
        )
    return content


def _unsealed(written: bytes) -> dict[str, Any] | None:
    """Return the content of a manifest, or None if it was modified.

    The encoding is canonical, so any other bytes mean a modification. Later versions of the format keep this rule, so
    that a newer format can be told apart from corruption.
    """
    with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError):
        content = json.loads(written)
        del content["checksum"]
        if written.startswith(OPENING) and _sealed(content) == written:
            return content
    return None


def _sealed(content: Mapping[str, Any]) -> bytes:
    checksum = digest(json_bytes(content))
    return json_bytes({**content, "checksum": checksum})


def json_bytes(content: Any) -> bytes:
    """Return canonical strict JSON: no spaces, ASCII only, no NaN."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {fault(error)}.") from error


def digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is corrupt: its checksum differs; copy or save the model again.")
