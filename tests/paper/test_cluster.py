"""A study on a real dask cluster of this machine: a scheduler and two workers, each a process."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from domaincover import InputError
from domaincover.paper.collect import collect
from domaincover.paper.runner import Workers, plan_study, run_study
from domaincover.paper.study import Study

pytest.importorskip("distributed", reason="pip install 'domaincover[dask]'")

STUDY = Study(
    ("synthetic-10",), ("erm", "irm", "vrex", "pooled-held-out", "set-cover"), seeds=(0,), epochs=3, quick=True
)
LONG = Study(("synthetic-10",), ("erm", "irm", "vrex", "pooled-held-out"), seeds=(0,), epochs=400, quick=True)


@pytest.fixture
def cluster(tmp_path):
    """Start a scheduler and two workers; give the address and the workers' processes by name."""
    started = []

    def start(name, *arguments):
        command = [Path(sys.executable).with_name("dask"), *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        with (tmp_path / f"{name}.log").open("w") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path))
        return started[-1]

    def said(name, what):
        limit = time.monotonic() + 60
        while not (found := re.search(what, (tmp_path / f"{name}.log").read_text())) and time.monotonic() < limit:
            time.sleep(0.1)
        assert found, (tmp_path / f"{name}.log").read_text()
        return found

    start("scheduler", "scheduler", "--port", "0")
    address = said("scheduler", r"Scheduler at:\s+(tcp://\S+)")[1]
    workers = [start(name, "worker", address, "--name", name, "--nthreads", "1", "--no-nanny") for name in ("a", "b")]
    said("a", "Registered to"), said("b", "Registered to")
    yield address, workers
    for process in started:  # at once: told to end, a worker may wait long for a scheduler that is gone
        process.kill()
    for process in started:
        process.wait(timeout=30)


def n_done(out):
    return len(list(out.glob("*/*/*/*/DONE")))


@pytest.mark.slow
def test_a_study_outlives_a_worker_and_stops_when_it_is_told_to(cluster, tmp_path):
    address, (first, _) = cluster
    out = tmp_path / "runs"
    killed = []

    def kill_one(done):
        if any(done.values()) and not killed:
            killed.append(first.pid)
            first.kill()

    outcome = run_study(plan_study(STUDY, out), out, Workers(scheduler=address), kill_one)
    assert killed
    assert (outcome.n_new, outcome.failures) == (5, ())
    assert n_done(out) == 5
    here = tmp_path / "here"
    run_study(plan_study(STUDY, here), here)
    there, expected = (collect(place).results.drop(columns="train_seconds") for place in (out, here))
    assert there.equals(expected)

    def interrupt(done):
        if any(done.values()) and not killed[1:]:
            killed.append("the study")
            os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "long"
    with pytest.raises(KeyboardInterrupt):
        run_study(plan_study(LONG, out), out, Workers(scheduler=address), interrupt)
    assert not list(out.glob(".progress/*"))
    assert n_done(out) < 4
    shutil.rmtree(out)
    again = run_study(plan_study(STUDY, out), out, Workers(scheduler=address))
    assert (again.n_new, n_done(out)) == (5, 5), "the worker was free again"


def test_where_no_scheduler_answers_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("domaincover.paper.executors.PATIENCE", 0.5)
    plan = plan_study(STUDY, tmp_path / "runs")
    with pytest.raises(InputError, match=r"no dask scheduler answers at tcp://127.0.0.1:9"):
        run_study(plan, tmp_path / "runs", Workers(scheduler="tcp://127.0.0.1:9"))
    with pytest.raises(InputError, match="no dask scheduler answers at nonsense://x"):
        run_study(plan, tmp_path / "runs", Workers(scheduler="nonsense://x"))
