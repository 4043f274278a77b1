"""Files and folders are written completely or not at all, and errors of the disk are reported in one line.

What is being written has a hidden name that says which process writes it. It is flushed to the disk before it is
renamed, so that neither a killed process nor a power cut leaves a part of it under its name. The next process that
writes to the same folder removes what killed processes left there.
"""

import contextlib
import errno
import functools
import json
import os
import platform
import re
import secrets
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from domaincover.errors import InputError

UNFINISHED = re.compile(r"\..*\.(\d+)-([0-9a-f]{8})-[0-9a-f]{12}\.part", re.DOTALL)
PUT_ASIDE = re.compile(UNFINISHED.pattern.removesuffix("part") + "old", re.DOTALL)
LONGEST_NAME = 150  # bytes of a file's name that its unfinished one takes over; most disks allow 255 in all
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP)  # some network disks cannot flush a folder
SWAP = 2  # RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS alike


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary name in the same folder, flush, then rename; on failure the old file stays as it was."""
    if not path.name or os.path.isdir(path):
        raise InputError(f"cannot write {path}: it is a directory, not a file.")
    unfinished = unfinished_name(path)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path.parent)
            unfinished.write_bytes(content)
            move_into_place(unfinished, path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


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
    with open(path, "rb+") as file:  # Windows flushes only what is open for writing
        os.fsync(file.fileno())


def _flush_entries(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can open folders and the disk supports it."""
    if os.name != "posix":
        return
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
    """Turn a fault of the disk into one line that names the path and says what to do."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {fault(error)}.") from error


def fault(error: OSError) -> str:
    """Say what the system found wrong; where the disk is full, what to do as well."""
    if is_full(error):
        return "no space is left on the disk; free some and run the same command again"
    return error.strerror or str(error)


def is_full(error: BaseException) -> TypeGuard[OSError]:
    """Tell whether the disk is full, or one's share of it."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


def unfinished_name(path: Path) -> Path:
    """Return a hidden name beside a path, for what is being written by this process and no other."""
    return path.with_name(f"{_hidden(path)}{os.getpid()}-{machine()}-{secrets.token_hex(6)}.part")


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes of this machine left unfinished in a folder, but nothing of one still at work."""
    for path, owner in _unfinished(folder):
        if is_left_by(*owner):
            _remove(path)


def plain_json(content: str | bytes) -> Any:
    """Return what JSON says; lists in lists without end are a ValueError, as every other fault is."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def remove_unfinished(folder: Path) -> None:
    """Remove whatever was left unfinished in a folder, by other machines too; nothing may be writing there."""
    for path, _ in _unfinished(folder):
        _remove(path)


def is_left_by(pid: int, host: str) -> bool:
    """Tell whether a process of this machine is gone; of other machines it cannot be told."""
    return host == machine() and not _is_alive(pid)


@functools.cache
def machine() -> str:
    """Return a short name of where processes have these numbers: this machine, or this container."""
    try:
        numbering = os.readlink("/proc/self/ns/pid")
    except OSError:  # systems without containers
        numbering = ""
    return f"{zlib.crc32(f'{platform.node()}{numbering}'.encode()):08x}"


def replace_folder(finished: Path, target: Path) -> None:
    """Flush a finished folder and rename it to its name, which is no link; what was there is deleted only afterwards.

    At every moment one of the two is under that name, whole, where the system can swap two names in one step. Where
    it cannot, there is a moment with neither; after a failure the old one comes back, after a kill by `recover_folder`.
    """
    _flush(finished)
    try:
        os.rename(finished, target)  # a new name, or an empty folder
    except OSError:
        if not target.is_dir() or not finished.is_dir():
            raise
        if not _swap(finished, target):
            _put_in_place(finished, target)
    _flush_entries(target.parent)
    _remove(finished)


def _swap(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where this system, or this disk, cannot."""
    import ctypes

    libc: Any = ctypes.CDLL(None) if os.name == "posix" else None
    names = os.fsencode(one.absolute()), os.fsencode(other.absolute())
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        return bool(libc.renamex_np(*names, SWAP) == 0)
    if hasattr(libc, "renameat2"):
        return bool(libc.renameat2(0, names[0], 0, names[1], SWAP) == 0)  # absolute, so 0 is not looked at
    return False


def _put_in_place(finished: Path, target: Path) -> None:
    old = finished.with_suffix(".old")
    try:
        os.rename(target, old)
        os.rename(finished, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise
    _remove(old)


def recover_folder(target: Path) -> None:
    """Put back the folder that a process had put aside when it was killed, or remove it where there is another.

    This happens only on disks that cannot swap two names.
    """
    for path, owner in _unfinished(target.parent, PUT_ASIDE):
        if path.name.startswith(_hidden(target)) and is_left_by(*owner):
            if target.exists():
                _remove(path)
            else:
                os.rename(path, target)


def _hidden(path: Path) -> str:
    return f".{os.fsencode(path.name)[:LONGEST_NAME].decode(errors='ignore')}."


def _unfinished(folder: Path, names: re.Pattern[str] = UNFINISHED) -> Iterator[tuple[Path, tuple[int, str]]]:
    found: list[str] = []
    with contextlib.suppress(OSError):  # of a folder that may be written but not listed, or is not there
        found = os.listdir(folder)
    for name in found:
        if match := names.fullmatch(name):
            yield folder / name, (int(match[1]), match[2])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _is_alive(pid: int) -> bool:
    if os.name != "posix":  # elsewhere, to ask is to send Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is there, and somebody else's
        pass
    return True
