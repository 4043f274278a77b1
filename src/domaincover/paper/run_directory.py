"""Run directories: written whole or not at all, never half-read.

A study's directory holds `study.json` (the mark that it is one) and a folder per run with `config.json`,
`predictions.parquet`, `report.json`, `history.npz` (what training went through), and last `DONE`, with the SHA-256 of
each of these; where `config.json` or `report.json`, which tables are made of, has changed since, it is noticed. `DONE`
is empty in runs of older versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from domaincover.errors import InputError
from domaincover.files import UNFINISHED as UNFINISHED_NAME
from domaincover.files import fault, move_into_place, plain_json, remove_leftovers, unfinished_name, write_whole
from domaincover.paper.run_report import is_report
from domaincover.paper.study import Run

MARK = "study.json"
FORMAT = 1
UNFINISHED = ".unfinished"
DONE = "DONE"
LOCK = ".lock"


def open_study(path: Path) -> None:
    """Make the study's directory, or accept one that is ours; refuse what is not."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; name a directory.")
    try:
        if path.is_dir() and any(not UNFINISHED_NAME.fullmatch(item) for item in os.listdir(path)):
            _check_mark(path)
        else:
            write_whole(path / MARK, (json.dumps({"domaincover_study": FORMAT}) + "\n").encode())
        (path / UNFINISHED).mkdir(exist_ok=True)
        for folder in (path, path / UNFINISHED):
            remove_leftovers(folder)
        os.rmdir(tempfile.mkdtemp(dir=path / UNFINISHED))  # a read-only study is noticed now, not after training
    except OSError as error:
        raise InputError(f"cannot write to {path}: {fault(error)}.") from None


def check_study(path: Path) -> None:
    """Refuse a path that holds no study."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a study's directory.")
    if not path.is_dir():
        raise InputError(f"there is no directory {path}; `domaincover paper synthetic --out {path}` makes one.")
    _check_mark(path)


def _check_mark(path: Path) -> None:
    try:
        found = plain_json((path / MARK).read_text(encoding="utf-8"))["domaincover_study"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path} holds files but no domaincover study; name another directory.") from None
    if found != FORMAT:
        raise InputError(f"{path} has format {found} and this version reads {FORMAT}; update domaincover.")


@contextmanager
def at_work(out: Path) -> Iterator[None]:
    """Have a study's directory for oneself, against other calls that would write to it; may be nested."""
    lock = FileLock(out / LOCK, is_singleton=True)
    try:
        with lock.acquire(timeout=0):
            yield
    except Timeout:
        raise InputError(
            f"another call is at work in {out}; wait until it has ended, or name another directory."
        ) from None


def is_finished(out: Path, run: Run) -> bool:
    """Tell whether the run is there; refuse one with the same name and other settings."""
    folder = out / run.folder
    if not (folder / DONE).exists():
        return False
    made, asked = _read_json(folder / "config.json"), run.to_dict()
    differing = [f"{key} {made.get(key)!r}" for key in asked | made if made.get(key) != asked.get(key)]
    if differing:
        raise InputError(
            f"{folder} was made with {', '.join(differing)}, not what is asked for now; name another directory."
        )
    return True


def write_run(out: Path, run: Run, write_files: Callable[[Path], None]) -> None:
    """Fill a temporary folder, mark it as done, and move it to its place in one step."""
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
            if not (final / DONE).exists():  # else another worker was quicker, and its run stays
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_json(path: Path, content: Any) -> None:
    """Write JSON that any reader takes: no NaN."""
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_reports(out: Path) -> Iterator[dict[str, Any]]:
    """Yield the report of every finished run, in a fixed order."""
    check_study(out)
    for done in sorted(out.glob("*/*/target-*/seed-*/DONE")):
        report = _read_json(done.parent / "report.json")
        if not is_report(report):
            raise InputError(f"{done.parent / 'report.json'} is not a run's report; delete that folder and run again.")
        yield report


def _read_json(path: Path) -> dict[str, Any]:
    """Read a file of a finished run, and refuse it where it is not what was written."""
    try:
        content: dict[str, Any] = dict(plain_json(path.read_text(encoding="utf-8")))
        seal = (path.parent / DONE).read_bytes()
        if seal and plain_json(seal)[path.name] != _digest(path):
            raise ValueError("it is not what was written")
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read ({reason}); delete that folder and run the study again.") from None
    return content


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
