"""Parts of a table outlive whatever happens to a worker, a scheduler, a disk or the command; a second call goes on."""

import logging
import os
import re
import signal
from contextlib import contextmanager

import pandas as pd
import pytest

from domaincover import InputError
from domaincover.cli.part_runs import PartRuns
from domaincover.terminal import processes as executors
from tests.faults.processes import Child, called, contents, killed_at, signalled_at
from tests.faults.test_full_disk import WHAT_TO_DO
from tests.processes import LIMIT, call, wait_until
from tests.wards import patients


def in_parts(folder, n_parts, n_rows):
    folder.mkdir()
    rows = patients(n_parts * n_rows, 8, seed=1, first_ward=100)
    for k in range(n_parts):
        rows[k * n_rows : (k + 1) * n_rows].to_parquet(folder / f"part-{k:02d}.parquet", index=False)
    return folder


def finished(out):
    return {path.name: path.stat().st_mtime_ns for path in out.glob("part-*.parquet")}


def patient(*arguments, said):
    """Start the command line in a child that waits for a scheduler however busy the machine is."""

    def work():
        executors.PATIENCE = LIMIT
        called(*arguments)()

    return Child(work, said)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["part-02.parquet"], indirect=True)
def test_parts_outlive_a_worker_and_a_scheduler(cluster, tmp_path, promised_model, here, monkeypatch):
    pytest.importorskip("distributed", reason="pip install 'domaincover[dask]'")
    monkeypatch.setattr(executors, "PATIENCE", LIMIT)
    address, _, scheduler, holds = cluster
    parts, out, told = in_parts(tmp_path / "parts", 4, 100), tmp_path / "sets", tmp_path / "told.txt"
    predict = ["predict", promised_model, parts, "--domain", "ward"]
    assert here(*predict, "--out", tmp_path / "here")[0] == 0
    expected = contents(tmp_path / "here")

    running = patient(*predict, "--out", out, "--scheduler", address, said=told)
    (pid,) = holds.wait(running)
    os.kill(pid, signal.SIGKILL)
    holds.let_go()
    assert running.wait() == 0
    assert contents(out) == expected

    evaluate = ["evaluate", promised_model, parts, "--format", "json"]
    there = here(*evaluate, "--scheduler", address, "--scratch", tmp_path / "scratch")
    assert there == here(*evaluate)

    holds.again()
    again = tmp_path / "again"
    running = patient(*predict, "--out", again, "--scheduler", address, said=told)
    holds.wait(running)
    scheduler.kill()
    assert running.wait() == 2
    (line,) = [line for line in told.read_text().splitlines() if line.startswith("domaincover: ")]
    assert re.search(rf"the scheduler at {address} is gone; start it and run the same command again", line)
    kept = finished(again)
    assert 0 < len(kept) < 4
    assert here(*predict, "--out", again)[0] == 0
    assert contents(again) == expected
    assert finished(again).items() >= kept.items()


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


@contextmanager
def local_cluster(n_workers):
    """Start workers of dask on this machine, and give the address of their scheduler."""
    distributed = pytest.importorskip("distributed", reason="pip install 'domaincover[dask]'")
    settings = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(n_workers, memory_limit=0, silence_logs=logging.CRITICAL, **settings) as cluster:
        yield cluster.scheduler_address


@pytest.mark.deep
def test_a_part_that_ends_its_process_is_named_and_the_others_are_done(monkeypatch):
    monkeypatch.setattr(executors, "ATTEMPTS", 1)  # each starts processes anew, which takes time
    parts, done = ["part-0", "part-1", "part-2"], []
    ended = PartRuns(n_processes=2).each("Parts", ends_its_process, parts, ", kept")
    with pytest.raises(InputError, match=r"part-1: its process was killed, .*\. 2 of 3 are finished, kept\."):
        done.extend(part for part, _ in ended)
    assert sorted(done) == ["part-0", "part-2"]


@pytest.mark.deep
def test_a_part_that_ends_its_workers_is_named_and_the_others_are_done():
    dask = pytest.importorskip("dask", reason="pip install 'domaincover[dask]'")
    parts, done = ["part-0", "part-1", "part-2"], []
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), local_cluster(2) as address:
        ended = PartRuns(address).each("Parts", ends_its_process, parts, ", kept")
        with pytest.raises(InputError, match=r"part-1: its workers died, .*again\. 2 of 3 are finished, kept\."):
            done.extend(part for part, _ in ended)
    assert sorted(done) == ["part-0", "part-2"]


def test_where_no_scheduler_answers_nothing_is_written(tmp_path, promised_model, refused, monkeypatch):
    pytest.importorskip("distributed", reason="pip install 'domaincover[dask]'")
    monkeypatch.setattr("domaincover.terminal.processes.PATIENCE", 0.5)
    parts = in_parts(tmp_path / "parts", 2, 100)
    options = ["--out", tmp_path / "sets", "--scheduler", "nonsense://x"]
    refused("no dask scheduler answers at nonsense://x", "predict", promised_model, parts, *options)


@pytest.mark.parametrize("domain", [[], ["--domain", "ward"]])
def test_a_full_disk_keeps_finished_parts_and_the_next_call_goes_on(small_disk, tmp_path, promised_model, here, domain):
    parts = in_parts(tmp_path / "parts", 6, 1000)
    predict = ["predict", promised_model, parts, "--id", "visit", "--scores", *domain, "--out"]
    assert here(*predict, tmp_path / "here")[0] == 0
    scratch = ["--scratch", tmp_path]
    disk = small_disk(100_000)
    code, _, told = here(*predict, disk / "sets", *scratch)
    assert code == 2
    assert WHAT_TO_DO in told
    kept = finished(disk / "sets")
    assert 0 < len(kept) < 6
    assert sorted(path.name for path in (disk / "sets").iterdir()) == sorted(kept)
    small_disk(1_500_000)
    assert here(*predict, disk / "sets", *scratch)[0] == 0
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


def held_by_workers(address):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return sum(map(len, client.has_what().values()))


def doubled(number):
    return 2 * number


@pytest.mark.deep
def test_workers_do_not_keep_results_that_were_fetched():
    with local_cluster(1) as address:
        ended = PartRuns(address).each("Parts", doubled, range(20))
        found = [next(ended) for _ in range(20)]
        wait_until(lambda: held_by_workers(address) == 0)  # soon, although the last step has not ended
        assert sorted(found) == [(number, 2 * number) for number in range(20)]
        ended.close()
