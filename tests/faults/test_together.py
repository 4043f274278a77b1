"""Two processes at once in one place: work is done once, or one of them says why it leaves."""

import os

import numpy as np
import pytest

from domaincover import ERMClassifier, InputError, load
from domaincover.cli.network_options import checkpoints_in
from domaincover.files import write_whole
from domaincover.paper.run_directory import write_json, write_run
from domaincover.paper.runner import plan_studies, run_study
from domaincover.paper.study import Run
from tests.faults.conftest import FIT, patients, tiny_study
from tests.faults.processes import Child, command
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def test_two_studies_in_one_directory_do_every_run_once(tmp_path):
    out = tmp_path / "runs"

    def work():
        run_study(plan_studies([tiny_study(2)], out), out)

    processes = [Child(work, tmp_path / f"said-{number}") for number in range(2)]
    codes = sorted(process.wait() for process in processes)
    said = "".join((tmp_path / f"said-{number}").read_text() for number in range(2))
    assert codes == [0, 0] or "another process is using" in said
    assert codes[0] == 0
    assert len(list(out.rglob("DONE"))) == 2
    assert list((out / ".unfinished").iterdir()) == []


def test_a_run_that_two_processes_write_at_once_is_one_of_theirs_whole(tmp_path):
    run = Run("synthetic-10", "erm", 0.9, 0)

    begun = tmp_path / "begun"
    begun.mkdir()

    def write(number):
        def files(folder):
            write_json(folder / "a", number)
            (begun / str(number)).touch()
            wait_until(lambda: len(os.listdir(begun)) == 3)
            write_json(folder / "b", number)

        return lambda: write_run(tmp_path, run, files)

    processes = [Child(write(number)) for number in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    folder = tmp_path / run.folder
    assert (folder / "a").read_text() == (folder / "b").read_text()
    assert sorted(os.listdir(folder)) == ["DONE", "a", "b", "config.json"]


def test_a_file_that_many_processes_write_is_one_of_theirs_whole(tmp_path):
    path = tmp_path / "file"

    def write(number):
        return lambda: [write_whole(path, bytes([number]) * 100_000) for _ in range(20)]

    processes = [Child(write(number)) for number in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert len(set(path.read_bytes())) == 1
    assert os.listdir(tmp_path) == ["file"]


def test_a_model_can_be_loaded_while_others_are_saved_in_its_place(tmp_path):
    rows = patients()
    models = [
        ERMClassifier(hidden=2, epochs=1, random_state=seed).fit(
            rows[["x0", "x1"]], rows["outcome"], domains=rows["ward"]
        )
        for seed in range(2)
    ]
    models[0].save(tmp_path / "model")
    enough = tmp_path / "enough"

    def save_again_and_again(model):
        while not enough.exists():
            model.save(tmp_path / "model")

    processes = [Child(lambda model=model: save_again_and_again(model)) for model in models]
    expected = [model.predict_proba(rows[["x0", "x1"]]) for model in models]
    for _ in range(30):
        found = load(tmp_path / "model").predict_proba(rows[["x0", "x1"]])
        assert any(np.array_equal(found, each) for each in expected)
    enough.touch()
    assert [process.wait() for process in processes] == [0, 0]
    enough.unlink()
    assert os.listdir(tmp_path) == ["model"]


def test_two_fits_with_the_same_checkpoints_are_told_apart(tmp_path, table):
    long = ["fit", table, *FIT[:-1], 10**6, "--out", tmp_path / "model", "--checkpoints", tmp_path / "kept", "--resume"]
    first = command(*long)
    wait_until(lambda: list(tmp_path.glob("kept/*/state-*")), first)
    second = command(*long, said=tmp_path / "said")
    try:
        assert second.wait() == 2
    finally:
        first.kill()
    assert "another command is writing to" in (tmp_path / "said").read_text()


def test_checkpoints_are_free_again_when_their_fit_has_ended_or_was_refused(tmp_path):
    def fit(resume):
        with checkpoints_in(tmp_path / "kept", resume=resume):
            pass

    def stopped():
        with checkpoints_in(tmp_path / "kept", resume=False):
            (tmp_path / "kept" / "0123456789abcdef").mkdir()
            with pytest.raises(InputError, match="another command is writing to"):
                fit(resume=True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    with pytest.raises(InputError, match="add --resume to resume it"):
        fit(resume=False)
    assert os.listdir(tmp_path / "kept") == ["0123456789abcdef"]
    fit(resume=True)
    assert os.listdir(tmp_path) == []
