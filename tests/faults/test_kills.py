"""A process that is killed at any step of writing leaves what was there, or the whole of what is new.

`python -m benchmarks.faults` does the same to whole commands, at hundreds of random moments.
"""

import os
import shutil
import signal

import numpy as np
import pandas as pd
import pytest
import torch

from domaincover import ERMClassifier, load
from domaincover.data.tables import write_table
from domaincover.files import UNFINISHED, machine, remove_leftovers, unfinished_name, write_whole
from domaincover.paper.collect import OF_DOMAIN, SUMMARY, read_reports
from domaincover.paper.run_directory import open_study, write_json, write_run
from domaincover.paper.study import Run
from domaincover.training.checkpoints import Checkpoints, State
from tests.deep import deep
from tests.faults.processes import Child, called, command, contents, killed_at

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
X = np.random.default_rng(0).normal(size=(40, 2))
Y, DOMAINS = np.arange(40) % 2, np.arange(40) // 10
TABLE = pd.DataFrame({"a": np.arange(5), "b": list("vwxyz")})


def model(seed):
    return ERMClassifier(hidden=2, epochs=1, random_state=seed).fit(X, Y, domains=DOMAINS)


def killed_everywhere(folder, work, look):
    """Kill work at its first step, its second, and so on until it ends by itself; yield what each kill left."""
    for step in range(200):
        code = killed_at(step, folder, work)
        yield look()
        if code == 0:
            assert step > 2
            return
        assert code == -9


def test_a_model_that_is_saved_over_another_is_one_or_the_other_at_every_step(tmp_path):
    older, newer, folder = model(0), model(1), tmp_path / "model"
    older.save(folder)
    before = contents(folder)
    newer.save(tmp_path / "beside")
    after = contents(tmp_path / "beside")
    shutil.rmtree(tmp_path / "beside")
    found = []

    def loaded():
        load(folder)  # puts back the older one where the kill came between two names
        return contents(folder)

    for now in killed_everywhere(tmp_path, lambda: newer.save(folder), loaded):
        assert now in (before, after)
        found.append(now)
        older.save(folder)
    assert found[0] == before
    assert found[-1] == after
    assert os.listdir(tmp_path) == ["model"]


def test_a_new_model_is_there_whole_or_not_at_all(tmp_path):
    new, folder = model(0), tmp_path / "model"
    for there in killed_everywhere(tmp_path, lambda: new.save(folder), folder.exists):
        if there:
            load(folder)
            shutil.rmtree(folder)
    new.save(folder)
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("ending", [".csv", *deep(".csv.gz", ".parquet")])
def test_a_table_is_the_older_one_or_whole_at_every_step(tmp_path, ending):
    path = tmp_path / f"sets{ending}"
    write_table(path, [TABLE])
    before = path.read_bytes()
    write_table(path, [TABLE, TABLE])
    after = path.read_bytes()
    write_table(path, [TABLE])
    for now in killed_everywhere(tmp_path, lambda: write_table(path, [TABLE, TABLE]), path.read_bytes):
        assert now in (before, after)
        write_table(path, [TABLE])
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_is_the_older_one_or_whole_at_every_step(tmp_path):
    path = tmp_path / "page.html"
    path.write_bytes(b"older")
    for now in killed_everywhere(tmp_path, lambda: write_whole(path, b"new"), path.read_bytes):
        assert now in (b"older", b"new")
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_run_is_there_whole_or_not_at_all(tmp_path):
    run, out = Run("synthetic-10", "erm", 0.9, 0), tmp_path / "runs"
    domain = {"domain": "a", "recall": {}} | dict.fromkeys(OF_DOMAIN, 0.5)
    splits = {"unseen": {"summary": dict.fromkeys(SUMMARY, 0.5), "domains": [domain]}}
    report = {"config": run.to_dict(), "labels": [], "seconds": {"train": 1.0}, "versions": {}, "splits": splits}

    def work():
        open_study(out)
        write_run(out, run, lambda folder: write_json(folder / "report.json", report))

    for found in killed_everywhere(
        tmp_path, work, lambda: list(read_reports(out)) if (out / "study.json").exists() else []
    ):
        assert found in ([], [report])
    assert [path.name for path in (out / run.folder).iterdir() if UNFINISHED.fullmatch(path.name)] == []
    assert list((out / ".unfinished").iterdir()) == []  # fmt: skip


def test_a_checkpoint_is_there_whole_or_the_one_before_is(tmp_path):
    def write(number):
        Checkpoints(tmp_path).write(State({"a": torch.full((3,), float(number))}, {"number": number}))

    write(1)
    for state in killed_everywhere(tmp_path, lambda: write(2), Checkpoints(tmp_path).newest):
        assert state.content["number"] in (1, 2)
        assert (state.tensors["a"] == state.content["number"]).all()
    assert not [name for name in os.listdir(tmp_path) if UNFINISHED.fullmatch(name)]


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    writing = Child(signal.pause)
    (tmp_path / f".page.{writing.pid}-{machine()}-0123456789ab.part").touch()
    try:
        remove_leftovers(tmp_path)
        assert len(os.listdir(tmp_path)) == 1
    finally:
        writing.kill()
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a" * 255, "😀" * 63, "\udcff" * 255], ids=["letters", "emoji", "not UTF-8"])
def test_the_longest_names_that_a_disk_takes_can_be_written(tmp_path, name):
    write_whole(tmp_path / name, b"whole")
    assert os.listdir(tmp_path) == [name]
    assert len(os.fsencode(unfinished_name(tmp_path / name).name)) <= 255


@pytest.mark.parametrize("step", [0, *(pytest.param(step, marks=pytest.mark.deep) for step in (2, 4, 6, 7))])
def test_a_command_that_is_killed_at_any_step_gives_the_same_when_it_is_run_again(tmp_path, step):
    table = tmp_path / "train.csv"
    pd.DataFrame({"x": X[:, 0], "label": Y, "domain": DOMAINS}).to_csv(table, index=False)
    fit = ["fit", table, "--label", "label", "--domain", "domain", "--method", "erm", "--base", "linear", "--epochs", 1]
    assert command(*fit, "--out", tmp_path / "whole").wait() == 0
    assert killed_at(step, tmp_path / ".model", called(*fit, "--out", tmp_path / "model")) == -signal.SIGKILL
    if (tmp_path / "model").exists():
        load(tmp_path / "model")
    assert command(*fit, "--out", tmp_path / "model").wait() == 0
    assert contents(tmp_path / "model") == contents(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["model", "train.csv", "whole"]
