"""Read and write run directories atomically.

A study's directory contains `study.json`, which identifies it, and a folder per run with `config.json`,
`predictions.parquet`, `report.json`, `history.npz` (the training history) and, written last, `DONE` with the SHA-256 of
each of these files; it is verified for `config.json` and `report.json`, from which tables are made. `DONE` is empty in
runs of older versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from domaincover.errors import InputError
from domaincover.files import (
    LOCK,
    fault,
    locked,
    move_into_place,
    plain_json,
    remove_leftovers,
    unfinished_name,
    write_whole,
)
from domaincover.files import UNFINISHED as UNFINISHED_NAME
from domaincover.paper.study import Run

MARK = "study.json"
FORMAT = 1
UNFINISHED = ".unfinished"
DONE = "DONE"
HELD = set[Path]()  # directories that this process has locked


def open_study(path: Path) -> None:
    """Create the study's directory, or accept an existing study; raise for any other directory."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; choose a directory.")
    try:
        if path.is_dir() and any(not UNFINISHED_NAME.fullmatch(item) for item in os.listdir(path)):
            _check_mark(path)
        else:
            write_whole(path / MARK, (json.dumps({"domaincover_study": FORMAT}) + "\n").encode())
        (path / UNFINISHED).mkdir(exist_ok=True)
        for folder in (path, path / UNFINISHED):
            remove_leftovers(folder)
        os.rmdir(tempfile.mkdtemp(dir=path / UNFINISHED))  # detects a read-only study before training
    except OSError as error:
        raise InputError(f"cannot write to {path}: {fault(error)}.") from None


def check_study(path: Path) -> None:
    """Raise if a path is not a study's directory."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a study's directory.")
    if not path.is_dir():
        raise InputError(f"there is no directory {path}; `domaincover paper synthetic --out {path}` makes one.")
    _check_mark(path)


def _check_mark(path: Path) -> None:
    try:
        found = plain_json((path / MARK).read_text(encoding="utf-8"))["domaincover_study"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path} is not empty and not a domaincover study; choose another directory.") from None
    if found != FORMAT:
        raise InputError(f"{path} has format {found} and this version reads {FORMAT}; update domaincover.")


@contextmanager
def at_work(out: Path) -> Iterator[None]:
    """Lock a study's directory against other processes; can be nested."""
    if out in HELD:
        yield
        return
    taken = f"another process is using {out}; wait until it has ended, or choose another directory."
    with locked(out / LOCK, taken):
        HELD.add(out)
        try:
            yield
        finally:
            HELD.remove(out)


def is_finished(out: Path, run: Run) -> bool:
    """Return whether a run is finished; raise if it was made with other settings."""
    folder = out / run.folder
    if not (folder / DONE).exists():
        return False
    check_made_with(read_json(folder / "config.json"), run.to_dict(), folder)
    return True


def check_made_with(made: Mapping[str, Any], asked: Mapping[str, Any], path: Path) -> None:
    """Raise if a result was made with other settings than those asked for."""
    differing = [f"{key} {made.get(key)!r}" for key in {**asked, **made} if made.get(key) != asked.get(key)]
    if differing:
        others = ", ".join(differing)
        raise InputError(f"{path} was made with other settings ({others}); delete it, or choose another directory.")


def write_run(out: Path, run: Run, write_files: Callable[[Path], None]) -> None:
    """Write a run to a temporary folder, mark it as done, and rename it."""
    folder = unfinished_name(out / UNFINISHED / "run")
    folder.mkdir(parents=True)
    try:
        write_json(folder / "config.json", run.to_dict())
        write_files(folder)
        write_json(folder / DONE, {path.name: _digest(path) for path in sorted(folder.iterdir())})
        final = out / run.folder
        final.parent.mkdir(parents=True, exist_ok=True)
        if final.exists() and not (final / DONE).exists():
            shutil.rmtree(final)
        try:
            move_into_place(folder, final)
        except OSError:
            if not (final / DONE).exists():  # otherwise another worker has finished the same run, which is kept
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON, without NaN."""
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of a finished run; raise if it was modified."""
    try:
        written = path.read_bytes()
        content: dict[str, Any] = dict(plain_json(written))
        seal = (path.parent / DONE).read_bytes()
        if seal and plain_json(seal)[path.name] != hashlib.sha256(written).hexdigest():
            raise ValueError("its checksum differs")
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read ({reason}); delete that folder and run the study again.") from None
    return content


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
