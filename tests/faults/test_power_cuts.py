"""What has its name is on the disk: files and folders are flushed before they are renamed, and the rename after."""

import errno
import os

import pandas as pd
import pytest

from domaincover.data.tables import write_table
from domaincover.errors import InputError
from domaincover.files import write_whole
from domaincover.paper.run_directory import write_run
from domaincover.paper.study import Run
from domaincover.saving.models import write_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="only POSIX systems flush folders")


def write_a_file(folder):
    write_whole(folder / "out", b"content")
    return folder / "out"


def write_a_table(folder):
    write_table(folder / "out.csv", iter([pd.DataFrame({"a": [1, 2]})]))
    return folder / "out.csv"


def write_a_model(folder):
    write_folder(folder / "out", {}, {"extra.json": b"{}", "part-0.safetensors": b"weights"})
    return folder / "out"


def write_a_run(folder):
    run = Run("synthetic-10", "erm", 0.9, 0)
    write_run(folder, run, lambda unfinished: (unfinished / "report.json").write_text("{}"))
    return folder / run.folder


DOORS = pytest.mark.parametrize("write", [write_a_file, write_a_table, write_a_model, write_a_run])


@pytest.fixture
def steps(monkeypatch):
    """The inodes that are flushed, and None for every rename, in order."""
    found = []

    def fsync(number):
        found.append(os.fstat(number).st_ino)

    def renaming(rename):
        def renamed(*names):
            rename(*names)
            found.append(None)

        return renamed

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, renaming(getattr(os, name)))
    return found


@DOORS
def test_everything_is_flushed_before_the_rename_and_the_rename_after_it(write, steps, tmp_path):
    written = write(tmp_path)
    renamed = steps.index(None)
    inside = [written, *(written.rglob("*") if written.is_dir() else ())]
    assert {path.stat().st_ino for path in inside} <= set(steps[:renamed])
    assert steps[renamed + 1] == written.parent.stat().st_ino


def test_a_model_that_replaces_another_is_flushed_first(steps, tmp_path):
    write_a_model(tmp_path)
    steps.clear()
    inside = list(write_a_model(tmp_path).iterdir())
    assert {path.stat().st_ino for path in inside} <= set(steps)
    assert steps[-1] == tmp_path.stat().st_ino


@DOORS
def test_what_cannot_be_flushed_does_not_get_its_name(write, monkeypatch, tmp_path):
    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises((InputError, OSError), match="Input/output error"):
        write(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.name in ("out", "out.csv", "DONE")] == []


def test_a_disk_that_cannot_flush_folders_is_written_to_all_the_same(monkeypatch, tmp_path):
    def files_only(number, fsync=os.fsync):
        if os.path.isdir(f"/proc/self/fd/{number}") or os.path.isdir(f"/dev/fd/{number}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(number)

    monkeypatch.setattr(os, "fsync", files_only)
    assert write_a_file(tmp_path).read_bytes() == b"content"
