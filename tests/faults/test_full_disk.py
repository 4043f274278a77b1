"""On a full disk, what was finished is intact, nothing half-written stays, and one line says what to do."""

import errno
import os
import tempfile

import numpy as np
import pytest

from domaincover import ERMClassifier, InputError, load
from domaincover.data.examples import cached_features, text_keys
from domaincover.files import write_whole
from domaincover.paper.runner import plan_studies, run_study
from domaincover.training.settings import TrainingRun
from tests.faults.conftest import FIT, patients, tiny_study
from tests.faults.processes import contents

WHAT_TO_DO = "no space is left on the disk; free some and run the same command again."


@pytest.fixture
def left(small_disk, here):
    """Call a command with so many bytes free; assert that it is refused in one line and leaves the disk as it was."""

    def check(n_bytes, *arguments):
        disk = small_disk(n_bytes)
        before = contents(disk)
        code, _, told = here(*arguments)
        assert code == 2, told
        assert told.splitlines()[-1].startswith("domaincover: cannot write ")
        assert told.endswith(f"{WHAT_TO_DO}\n")
        assert "Traceback" not in told
        assert contents(disk) == before
        return told

    return check


@pytest.mark.parametrize("n_bytes", [0, 4096])
def test_a_fit_says_so_and_leaves_no_model(left, small_disk, table, n_bytes):
    left(n_bytes, "fit", table, *FIT, "--out", small_disk(n_bytes) / "model")


@pytest.mark.parametrize("n_bytes", [0, 4096])  # too few for the network's inputs
def test_a_fit_on_disk_without_room_leaves_neither_model_nor_files(left, small_disk, tmp_path, monkeypatch, n_bytes):
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk(n_bytes)))
    patients(5000).to_parquet(tmp_path / "rows.parquet")
    left(n_bytes, "fit", tmp_path / "rows.parquet", *FIT, "--on-disk", "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_fit_leaves_an_older_model_as_it_was(left, small_disk, table, model):
    load(model).save(small_disk(1_000_000) / "model")
    left(4096, "fit", table, *FIT, "--out", small_disk(1_000_000) / "model")
    load(small_disk(0) / "model")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_predict_leaves_an_older_file_as_it_was(left, small_disk, model, tmp_path, ending):
    new, out = tmp_path / "new.parquet", small_disk(100_000) / f"sets.{ending}"
    patients(40_000).to_parquet(new)
    out.write_text("older")
    left(4096, "predict", model, new, "--out", out)


def test_evaluate_leaves_no_page(left, small_disk, model, table):
    left(8192, "evaluate", model, table, *FIT[:4], "--html", small_disk(0) / "page.html")


def test_a_report_leaves_no_half_of_it(left, small_disk, study):
    left(8192, "report", study, "--out", small_disk(0) / "page.html")


def test_a_study_keeps_what_is_finished_and_goes_on_when_there_is_room(small_disk):
    out = small_disk(200_000) / "runs"
    run_study(plan_studies([tiny_study(1)], out), out)
    finished = {path: path.stat().st_mtime_ns for path in out.rglob("DONE")}
    small_disk(4096)
    outcome = run_study(plan_studies([tiny_study(2)], out), out)
    assert [failure.reason for failure in outcome.failures] == [f"cannot write to {out}: {WHAT_TO_DO}"]
    assert list((out / ".unfinished").iterdir()) == []
    small_disk(500_000)
    assert run_study(plan_studies([tiny_study(2)], out), out).failures == ()
    assert {path: path.stat().st_mtime_ns for path in out.rglob("DONE")}.items() >= finished.items()


def test_a_study_of_which_nothing_could_be_written_ends_with_one_line(left, small_disk):
    out = small_disk(1_000_000) / "runs"
    plan_studies([tiny_study()], out)
    (out / ".lock").touch()
    small = ["paper", "synthetic-2", "--seeds", "1", "--set", "epochs=1"]
    left(16_384, *small, "--set", "methods=erm", "--jobs", "1", "--out", out)


def test_checkpoints_keep_the_last_state_that_had_room(small_disk):
    rows, kept = patients(), small_disk(30_000) / "kept"
    network = ERMClassifier(hidden=200, epochs=8, random_state=0, run=TrainingRun(kept, resume=True))
    with pytest.raises(InputError, match=WHAT_TO_DO):
        network.fit(rows[["x0", "x1"]], rows["outcome"], domains=rows["ward"])
    assert not list(kept.rglob(".*"))
    small_disk(1_000_000)
    undisturbed = ERMClassifier(hidden=200, epochs=8, random_state=0)
    for model in (network, undisturbed):
        model.fit(rows[["x0", "x1"]], rows["outcome"], domains=rows["ward"])
    assert np.array_equal(*(model.predict_proba(rows[["x0", "x1"]]) for model in (network, undisturbed)))


def test_features_that_have_no_room_are_used_all_the_same(small_disk):
    folder, keys = small_disk(0) / "features", text_keys(map(str, range(2000)))
    with pytest.warns(UserWarning, match=f"features are not kept: .*{WHAT_TO_DO}"):
        features = cached_features(folder, "m", keys, 4, lambda rows: [(rows, np.ones((len(rows), 4), np.float32))])
    assert (features == 1).all()
    assert not list(folder.rglob("*.*"))


def test_a_full_disk_is_told_where_no_small_one_can_be_mounted_too(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=f"^cannot write .*page.html: {WHAT_TO_DO}$"):
        write_whole(tmp_path / "page.html", b"new")


def test_standard_output_without_room_is_told_in_one_line(study, monkeypatch, capsys):
    from domaincover.cli import main

    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stdout", full)
        monkeypatch.setattr("sys.argv", ["domaincover", "results", str(study)])
        with pytest.raises(SystemExit) as left:
            main()
    assert left.value.code == 2
    assert capsys.readouterr().err == f"domaincover: cannot write the output: {WHAT_TO_DO}\n"
