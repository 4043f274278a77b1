import io
import itertools
import logging

from rich.console import Console

from domaincover.training.listeners import (
    SECONDS_BETWEEN_LINES,
    LoggedProgress,
    ProgressBar,
    Step,
    TimeLeft,
    why_stopped,
)
from tests.processes import without_progress

STEPS = [Step(0, 10, 10, 0.75, 0.5, 1.5), Step(1, 10, 20, 0.25, float("inf"), 1.25), Step(2, 10, 30, 0.125)]


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
