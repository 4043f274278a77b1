"""A study on a real dask cluster of this machine: a scheduler and two workers, each a process."""

import os
import signal
import socket
import threading
import time

import pytest

from domaincover import InputError
from domaincover.paper.catalogue import study_dataset
from domaincover.paper.collect import collect
from domaincover.paper.runner import Workers, plan_studies, run_study
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import QUICK
from tests.processes import LIMIT

pytest.importorskip("distributed", reason="pip install 'domaincover[dask]'")

SETTING = study_dataset("synthetic-10").with_sizes(QUICK)
STUDY = Study(
    study_dataset("synthetic-10").with_sizes(QUICK),
    ("erm", "irm", "vrex", "pooled-held-out", "set-cover"),
    seeds=(0,),
    epochs=3,
    quick=True,
)
ENDLESS = Study(
    study_dataset("synthetic-10").with_sizes(QUICK),
    ("erm", "irm", "vrex", "pooled-held-out"),
    seeds=(0,),
    epochs=10**6,
    quick=True,
)


def meanwhile(is_time, act):
    """Do something in a thread as soon as it is time."""

    def watch():
        while not is_time():
            time.sleep(0.05)
        act()

    threading.Thread(target=watch, daemon=True).start()


def n_done(out):
    return len(list(out.glob("*/*/*/*/DONE")))


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["set-cover/target"], indirect=True)
def test_a_study_outlives_a_worker_and_stops_when_it_is_told_to(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("domaincover.terminal.processes.PATIENCE", LIMIT)
    address, _, _, holds = cluster
    out = tmp_path / "runs"
    killed = []

    def kill_one():
        killed.extend(holds.processes())
        os.kill(killed[0], signal.SIGKILL)
        holds.let_go()

    meanwhile(holds.processes, kill_one)
    outcome = run_study(plan_studies([STUDY], out), out, Workers(scheduler=address))
    assert killed
    assert (outcome.n_new, outcome.failures) == (5, ())
    assert n_done(out) == 5
    here = tmp_path / "here"
    run_study(plan_studies([STUDY], here), here)
    there, expected = (collect(place).results.drop(columns="train_seconds") for place in (out, here))
    assert there.equals(expected)

    out = tmp_path / "long"
    meanwhile(lambda: any(out.glob(".progress/*/*")), lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run_study(plan_studies([ENDLESS], out), out, Workers(scheduler=address))
    assert not list(out.glob(".progress/*"))
    assert n_done(out) == 0
    out = tmp_path / "again"
    again = run_study(plan_studies([STUDY], out), out, Workers(scheduler=address))
    assert (again.n_new, n_done(out)) == (5, 5), "the worker was free again"


def test_where_no_scheduler_answers_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("domaincover.terminal.processes.PATIENCE", 0.5)
    plan = plan_studies([STUDY], tmp_path / "runs")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen, so that nobody can
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"no dask scheduler answers at {address}"):
            run_study(plan, tmp_path / "runs", Workers(scheduler=address))
    with pytest.raises(InputError, match="no dask scheduler answers at nonsense://x"):
        run_study(plan, tmp_path / "runs", Workers(scheduler="nonsense://x"))
