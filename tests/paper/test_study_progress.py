"""Progress of a study where no terminal shows bars."""

import pytest

from domaincover.paper.commands.study_progress import LEAST_SHARE, PlainLines, WorkToDo, time_left
from domaincover.paper.job import plan_jobs
from domaincover.paper.study import Study


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def lines(capsys):
    """A function that takes seconds and epochs done by job, and returns what is printed then."""
    clock = Clock()
    progress = PlainLines(WorkToDo({"short": 10, "long": 10}, {"short": 1, "long": 9}), clock)

    def printed(now, **done):
        clock.now = now
        progress({"short": 0, "long": 0} | done)
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return printed


def test_a_short_study_prints_nothing(lines):
    assert lines(3, short=10) + lines(6, short=10, long=5) + lines(9, short=10, long=10) == ""


def test_a_line_is_printed_at_a_tenth_of_the_work_and_not_again_before_the_next(lines):
    assert lines(12, short=10) == "10 % after 12 s, 1 of 2 jobs finished.\n"
    assert lines(25, short=10) == ""
    assert lines(30, short=10, long=2) == "28 % after 30 s, 1 of 2 jobs finished, about 77 s left.\n"


def test_a_line_is_printed_once_a_minute_however_little_was_done(lines):
    assert lines(59, long=0) == ""
    assert lines(61, long=0) == "0 % after 61 s, 0 of 2 jobs finished.\n"
    assert lines(100, long=0) == ""
    assert lines(122, long=0).startswith("0 % after 2 min")


def test_the_end_is_left_to_the_outcome(lines):
    assert lines(100, short=10, long=10) == ""


def test_the_time_left_is_not_estimated_from_a_small_share():
    assert time_left(LEAST_SHARE - 0.01, 60) == time_left(1.0, 60) == ""
    assert time_left(LEAST_SHARE, 60) == ", about 3 min left"


def jobs_of(*datasets):
    studies = [Study(name, ("erm", "set-cover"), seeds=(0,), epochs=3) for name in datasets]
    return plan_jobs(run for study in studies for run in study.runs())


def test_work_is_weighted_by_its_networks():
    jobs = plan_jobs(Study("synthetic-10", ("erm", "erm-joint"), seeds=(0,), epochs=3).runs())
    assert sorted(job.n_networks for job in jobs) == [1, 5]
    work = WorkToDo.of(jobs)
    done = {job.name: job.epochs if job.n_networks == 1 else 0 for job in jobs}
    assert work.share(done) == pytest.approx(1 / 6)


def test_the_time_left_of_several_datasets_is_not_guessed():
    jobs = jobs_of("synthetic-10", "synthetic-50")
    half = {job.name: job.epochs if k < len(jobs) / 2 else 0 for k, job in enumerate(jobs)}
    assert WorkToDo.of(jobs).time_left(half, 60) == ""
    alone = jobs_of("synthetic-10")
    assert WorkToDo.of(alone).time_left({job.name: job.epochs // 2 for job in alone}, 60).startswith(", about ")
