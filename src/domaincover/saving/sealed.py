"""Read and write a checksummed folder of files atomically.

`model.json` lists the SHA-256 of every other file and ends with a checksum of its own content. Checksums detect
corruption (disks, interrupted copies, editors), not forgery: a forger can recompute them. Protection against forged
files comes from the formats: JSON, safetensors and checked skops never execute what they contain.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from domaincover.errors import InputError
from domaincover.files import (
    fault,
    only_one_beside,
    recover_folder,
    remove_leftovers,
    replace_folder,
    unfinished_name,
    writing,
)

MANIFEST = "model.json"
FORMAT = "domaincover-model"
FORMAT_VERSION = 3
OPENING = f'{{"format":"{FORMAT}",'.encode()  # the first bytes of every manifest
# The only allowed file names, so that a manifest cannot refer to files outside its folder.
NAMES = re.compile(r"part-\d{1,6}\.(skops|safetensors)|arrays\.safetensors|extra\.json")
RECORD = "record.json"  # beside the files that the manifest lists


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
