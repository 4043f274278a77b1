"""Write files and folders atomically, and report file system errors in one line.

Content is first written under a hidden temporary name that identifies the writing process. It is flushed to the disk
before it is renamed, so that neither a killed process nor a power cut leaves an incomplete file under the final name.
The next process that writes to the same folder removes temporary files left by killed processes.
"""

import contextlib
import errno
import fcntl
import functools
import json
import os
import platform
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from domaincover.errors import InputError

UNFINISHED = re.compile(r"\..*\.(\d+)-([0-9a-f]{8})-[0-9a-f]{12}\.part", re.DOTALL)
PUT_ASIDE = re.compile(UNFINISHED.pattern.removesuffix("part") + "old", re.DOTALL)
LONGEST_NAME = 150  # bytes of the target's name within its temporary name; most file systems allow 255 in all
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP)  # some network file systems cannot flush a folder
LOCK = ".lock"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside a path, and rename it at the end; after a failure an old file remains."""
    if not path.name or os.path.isdir(path):
        raise InputError(f"cannot write {path}: it is a directory, not a file.")
    unfinished = unfinished_name(path)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path.parent)
            file = open(unfinished, "xb")  # noqa: SIM115 (closed below)
        try:
            yield file
            with writing(path):
                file.close()
                move_into_place(unfinished, path)
        finally:
            with contextlib.suppress(OSError):  # such as a full disk
                file.close()
    finally:
        _remove(unfinished)


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file atomically: to a temporary name beside it, flush, then rename; on failure an old file remains."""
    with replacing(path) as file, writing(path):
        file.write(content)


def move_into_place(finished: Path, path: Path) -> None:
    """Flush a finished file, or a folder with its files, to the disk, and rename it; then flush the rename itself."""
    _flush(finished)
    os.replace(finished, path)
    _flush_entries(path.parent)


def _flush(path: Path) -> None:
    """Flush a file, or all files of a folder and then the folder itself, from memory to the disk."""
    if path.is_dir():
        for inner in path.iterdir():
            _flush(inner)
        _flush_entries(path)
        return
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _flush_entries(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the disk supports it."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise
    finally:
        os.close(number)


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn an OSError into an InputError that names the path and says what to do."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {fault(error)}.") from error


def fault(error: OSError) -> str:
    """Describe an OSError; for a full disk, also say what to do."""
    if is_full(error):
        return "no space is left on the disk; free some and run the same command again"
    return error.strerror or str(error)


def is_full(error: BaseException) -> TypeGuard[OSError]:
    """Return whether an error means that the disk or the user's quota is full."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


def unfinished_name(path: Path) -> Path:
    """Return a hidden temporary name beside a path, unique to this process."""
    return path.with_name(f"{_hidden(path)}{os.getpid()}-{machine()}-{secrets.token_hex(6)}.part")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that killed processes of this machine left in a folder."""
    for path in _temporary(folder, _is_left):
        _remove(path)


def remove_unfinished(folder: Path) -> None:
    """Remove all temporary files in a folder, also those of other machines; no process may be writing there."""
    for path in _temporary(folder, lambda _: True):
        _remove(path)


def plain_json(content: str | bytes) -> Any:
    """Parse JSON; excessive nesting raises ValueError, as every other syntax error does."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


@functools.cache
def machine() -> str:
    """Return a short identifier of the machine or container whose process ids these are."""
    try:
        numbering = os.readlink("/proc/self/ns/pid")
    except OSError:  # no PID namespaces
        numbering = ""
    return f"{zlib.crc32(f'{platform.node()}{numbering}'.encode()):08x}"


def replace_folder(finished: Path, target: Path) -> None:
    """Flush a finished folder, rename it to its target, which is not a link, and delete the folder it replaces.

    The old folder is first put aside: it is restored after a failure, or by `recover_folder` after a kill.
    """
    _flush(finished)
    try:
        os.rename(finished, target)  # succeeds for a new name or an empty folder
    except OSError:
        if not target.is_dir() or not finished.is_dir():
            raise
        old = finished.with_suffix(".old")
        try:
            os.rename(target, old)
            os.rename(finished, target)
        except BaseException:
            if old.exists() and not target.exists():
                os.rename(old, target)
            raise
        _remove(old)
    _flush_entries(target.parent)


@contextlib.contextmanager
def locked(path: Path, taken: str) -> Iterator[None]:
    """Lock a file, which is made if it is missing; where another process has locked it, say that it is taken."""
    with contextlib.ExitStack() as opened:
        with writing(path.parent):
            file = opened.enter_context(open(path, "ab"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(taken) from None
        yield


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Make a folder, and reject a second process that would write to it meanwhile.

    A folder in which nothing was written is removed again.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / LOCK, f"another command is writing to {folder}; wait for its end, or name another."):
        try:
            yield
        finally:
            _remove(folder / LOCK)
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()


@contextlib.contextmanager
def only_one_beside(path: Path) -> Iterator[None]:
    """Wait while another process writes to the folder of a path."""
    try:
        number = os.open(next(folder for folder in path.parents if folder.exists()), os.O_RDONLY)
    except OSError:  # it cannot be listed
        yield
        return
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def recover_folder(target: Path) -> None:
    """Restore the old folder of a replacement that was killed, or delete it if the target exists."""
    for path in _temporary(target.parent, _is_left, PUT_ASIDE):
        if path.name.startswith(_hidden(target)):
            _remove(path) if target.exists() else os.rename(path, target)


def _hidden(path: Path) -> str:
    return f".{os.fsencode(path.name)[:LONGEST_NAME].decode(errors='ignore')}."


def _temporary(
    folder: Path, chosen: Callable[[re.Match[str]], bool], names: re.Pattern[str] = UNFINISHED
) -> Iterator[Path]:
    """Yield the temporary files and folders in a folder that are chosen by the process and machine in their names."""
    found: list[str] = []
    with contextlib.suppress(OSError):  # the folder may be missing, or writable but not listable
        found = os.listdir(folder)
    matches = (match for name in found if (match := names.fullmatch(name)))
    return (folder / match[0] for match in matches if chosen(match))


def _is_left(owner: re.Match[str]) -> bool:
    """Return whether the process in a temporary name is known to have ended; False for those of other machines."""
    return owner[2] == machine() and not _is_alive(int(owner[1]))


def _remove(path: Path) -> None:
    if os.path.isdir(path) and not os.path.islink(path):  # which never raise
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it exists and belongs to another user
        pass
    return True
