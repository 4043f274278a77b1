import io
import itertools
import logging
import sqlite3

import pandas as pd
import pytest
from rich.console import Console

from domaincover import InputError
from domaincover.training.listeners import (
    SECONDS_BETWEEN_LINES,
    LoggedProgress,
    ProgressBar,
    Step,
    TimeLeft,
    Tracker,
    check_tracker,
    why_stopped,
)
from tests.processes import LIMIT, without_progress

STEPS = [Step(0, 10, 10, 0.75, 0.5, 1.5), Step(1, 10, 20, 0.25, float("inf"), 1.25), Step(2, 10, 30, 0.125)]


def track(kind, folder):
    tracker = Tracker(kind, folder, "SetCover × 3", {"epochs": None, "hidden": (3, 4), "rate": 0.1})
    tracker.start(3, 10)
    for step in STEPS:
        tracker.step(step)
    tracker.finish()
    tracker.finish()  # a second time does no harm


def test_a_csv_file_has_a_line_for_each_step_and_an_older_one_is_kept(tmp_path):
    track("csv", tmp_path)
    track("csv", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["SetCoverx3-1.csv", "SetCoverx3-2.csv"]
    table = pd.read_csv(tmp_path / "SetCoverx3-1.csv")
    assert table["batch"].tolist() == [10, 20, 30]
    assert table["loss"].tolist() == [0.75, 0.25, 0.125]
    assert table["worst_recall"].isna().tolist() == [False, True, True]


@pytest.mark.filterwarnings("ignore")  # of the package's own
def test_tensorboard_reads_what_was_tracked(tmp_path):
    pytest.importorskip("tensorboard")
    track("tensorboard", tmp_path)
    track("tensorboard", tmp_path)  # within the same second, perhaps
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folders = sorted(tmp_path.iterdir())
    assert [folder.name for folder in folders] == ["SetCoverx3-1", "SetCoverx3-2"]
    events = EventAccumulator(str(folders[0]))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(10, 0.75), (20, 0.25), (30, 0.125)]
    assert [event.step for event in events.Scalars("worst_recall")] == [10]


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
def test_mlflows_local_store_has_the_run(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track("mlflow", tmp_path)
    with sqlite3.connect(tmp_path / "mlflow.db") as store:
        losses = store.execute("select step, value from metrics where key = 'loss' order by step").fetchall()
        params = dict(store.execute("select key, value from params"))
        status = store.execute("select status from runs").fetchall()
    store.close()
    assert losses == [(10, 0.75), (20, 0.25), (30, 0.125)]
    assert params["hidden"] == "(3, 4)"
    assert status == [("FINISHED",)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_keeps_an_offline_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_X_SERVICE_WAIT", str(LIMIT))  # for its own process to start
    track("wandb", tmp_path)
    wandb.teardown()  # its own process writes, and is done once it has ended
    (written,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    content = written.read_bytes()
    assert b"worst_recall" in content
    assert b"SetCover" in content


def test_a_tracker_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(InputError, match="unknown tracker 'neptune': choose one of csv, tensorboard, mlflow, wandb"):
        check_tracker("neptune")


def test_a_tracker_whose_package_is_missing_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'domaincover\[trackers\]'"):
        check_tracker("wandb")


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*Not a directory"):
        Tracker("csv", tmp_path / "file" / "x", "a", {}).start(1, 1)


def test_the_bar_shows_loss_recall_size_speed_and_time_left():
    written = io.StringIO()
    clock = itertools.count(step=10)
    console = Console(file=written, force_terminal=True, width=160)
    bar = ProgressBar("SetCoverClassifier", console, lambda: float(next(clock)))
    bar.start(3, 10)
    for _ in range(10):
        bar.batch(64)
    bar.step(STEPS[0])
    bar._bar.refresh()
    bar.finish(why_stopped(1, 3))
    shown = written.getvalue()
    for part in (
        "SetCoverClassifier",
        "epoch 1 of 3",
        "loss 0.750",
        "worst recall 0.50",
        "size 1.50",
        "examples/s",
        "left",
        "SetCoverClassifier: stopped early, at epoch 1 of 3",
    ):
        assert part in shown


def test_a_training_that_fails_is_not_said_to_have_stopped_early():
    written = io.StringIO()
    bar = ProgressBar("ERMClassifier", Console(file=written, width=160))
    bar.start(3, 10)
    bar.finish()
    assert "stopped" not in written.getvalue()


def logged(caplog, level, seconds):
    """Return what is logged of a training whose clock goes on by so many seconds from each look at it to the next."""
    clock = itertools.count(step=seconds)
    with caplog.at_level(level, logger="domaincover"):
        log = LoggedProgress("ERMClassifier", lambda: next(clock))
        log.start(3, 10)
        for step in STEPS:
            log.step(step)
        log.finish(why_stopped(2, 3))
    return [record.getMessage() for record in caplog.records]


def test_a_long_training_logs_lines_and_why_it_stopped(caplog):
    lines = logged(caplog, logging.INFO, SECONDS_BETWEEN_LINES)
    assert len(lines) == len(STEPS) + 1
    assert lines[0].startswith("ERMClassifier: epoch 1 of 3, loss 0.750")
    assert lines[-1] == "ERMClassifier: stopped early, at epoch 2 of 3: held-out domains no longer improved"
    assert not without_progress("\n".join(lines))


def test_between_lines_there_is_half_a_minute(caplog):
    lines = logged(caplog, logging.INFO, SECONDS_BETWEEN_LINES / 2)
    assert [line.split(",")[0] for line in lines[:-1]] == ["ERMClassifier: epoch 2 of 3"]


def test_a_short_training_logs_nothing_but_for_debugging(caplog):
    assert logged(caplog, logging.INFO, 0) == []
    lines = logged(caplog, logging.DEBUG, 0)
    assert len(lines) == len({step.epoch for step in STEPS}) + 1


def test_how_long_all_trainings_take_is_said_after_the_first_epoch_and_after_each_of_them():
    said, times = [], iter([0.0, 2.0, 60.0, 100.0, 200.0, 300.0])
    left = TimeLeft(3, said.append, lambda: next(times))
    for end in ("stopped early", None, "trained"):  # the second training is interrupted, and starts again
        left.start(50, 10)
        left.epoch(1)
        left.finish(end)
    assert said == [
        "3 networks are trained one after the other, each for 50 epochs or until held-out domains no longer improve: "
        "5 min at most.",
        "1 of 3 networks are trained; about 2 min left.",
        "2 of 3 networks are trained; about 80 s left.",
    ]
