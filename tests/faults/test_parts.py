"""Parts of a table outlive whatever happens to a worker, a disk or the command; a second call goes on."""

import os
import signal

import pandas as pd
import pytest

from domaincover import InputError
from domaincover.cli.part_runs import PartRuns
from domaincover.terminal import processes as executors
from tests.faults.processes import Child, called, contents, killed_at, signalled_at
from tests.faults.test_full_disk import WHAT_TO_DO
from tests.processes import call
from tests.wards import patients


def in_parts(folder, n_parts, n_rows):
    folder.mkdir()
    rows = patients(n_parts * n_rows, 8, seed=1, first_ward=100)
    for k in range(n_parts):
        rows[k * n_rows : (k + 1) * n_rows].to_parquet(folder / f"part-{k:02d}.parquet", index=False)
    return folder


def finished(out):
    return {path.name: path.stat().st_mtime_ns for path in out.glob("part-*.parquet")}


@pytest.mark.slow
def test_processes_of_this_machine_give_what_one_gives(tmp_path, promised_model, here):
    parts = in_parts(tmp_path / "parts", 4, 400)
    predict = ["predict", promised_model, parts, "--domain", "ward"]
    one = here(*predict, "--out", tmp_path / "one")
    two = call(*predict, "--out", tmp_path / "two", "--workers", 2)
    assert two.returncode == one[0] == 0
    assert two.stderr.replace("/two", "/one") == one[2]
    assert contents(tmp_path / "two") == contents(tmp_path / "one")


def ends_its_process(part):
    if part == "part-1":
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.deep
def test_a_part_that_ends_its_process_is_named_and_the_others_are_done(monkeypatch):
    monkeypatch.setattr(executors, "ATTEMPTS", 1)  # each starts processes anew, which takes time
    parts, done = ["part-0", "part-1", "part-2"], []
    ended = PartRuns(n_processes=2).each("Parts", ends_its_process, parts, ", kept")
    with pytest.raises(InputError, match=r"part-1: its process was killed, .*\. 2 of 3 are finished, kept\."):
        done.extend(part for part, _ in ended)
    assert sorted(done) == ["part-0", "part-2"]


@pytest.mark.parametrize("domain", [[], ["--domain", "ward"]])
def test_a_full_disk_keeps_finished_parts_and_the_next_call_goes_on(small_disk, tmp_path, promised_model, here, domain):
    parts = in_parts(tmp_path / "parts", 6, 1000)
    predict = ["predict", promised_model, parts, "--id", "visit", "--scores", *domain, "--out"]
    assert here(*predict, tmp_path / "here")[0] == 0
    disk = small_disk(100_000)
    code, _, told = here(*predict, disk / "sets")
    assert code == 2
    assert WHAT_TO_DO in told
    kept = finished(disk / "sets")
    assert 0 < len(kept) < 6
    assert sorted(path.name for path in (disk / "sets").iterdir()) == sorted(kept)
    small_disk(1_500_000)
    assert here(*predict, disk / "sets")[0] == 0
    assert contents(disk / "sets") == contents(tmp_path / "here")
    assert finished(disk / "sets").items() >= kept.items()


@pytest.mark.parametrize("step", [6, *(pytest.param(step, marks=pytest.mark.deep) for step in (0, 2, 4, 9, 12))])
def test_a_command_that_is_killed_leaves_whole_parts_and_the_next_goes_on(tmp_path, promised_model, here, step):
    parts, out = in_parts(tmp_path / "parts", 3, 100), tmp_path / "sets"
    predict = ["predict", promised_model, parts, "--out"]
    assert here(*predict, tmp_path / "here")[0] == 0
    assert killed_at(step, out, called(*predict, out)) == -signal.SIGKILL
    for path in out.glob("part-*.parquet"):
        assert len(pd.read_parquet(path)) == 100
    assert here(*predict, out)[0] == 0
    assert contents(out) == contents(tmp_path / "here")


def test_ctrl_c_says_that_finished_parts_are_kept(tmp_path, promised_model):
    parts, out, told = in_parts(tmp_path / "parts", 3, 100), tmp_path / "sets", tmp_path / "told.txt"
    predict = called("predict", promised_model, parts, "--out", out)
    assert Child(signalled_at(0, out / ".part-01", predict, signal.SIGINT), told).wait() == 130
    assert list(finished(out)) == ["part-00.parquet"]
    assert "stopped; finished parts are kept, and the same command continues from there." in told.read_text()
