"""Progress of a study where no terminal shows bars."""

from types import SimpleNamespace

import pytest

from domaincover.paper.catalogue import study_dataset
from domaincover.paper.commands.run_studies import Progress
from domaincover.paper.job import plan_jobs
from domaincover.paper.study import Study


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def made_up_jobs():
    """A short job, and one of nine networks."""
    kinds = (("short", 1), ("long", 9))
    return [SimpleNamespace(name=name, epochs=10, n_networks=n) for name, n in kinds]


@pytest.fixture
def lines(capsys):
    """A function that takes seconds and epochs done by job, and returns what is printed then."""
    clock = Clock()
    progress = Progress(made_up_jobs(), clock)

    def printed(now, **done):
        clock.now = now
        progress.print_line({"short": 0, "long": 0} | done)
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return printed


def test_a_short_study_prints_nothing(lines):
    assert lines(3, short=10) + lines(6, short=10, long=5) + lines(9, short=10, long=10) == ""


def test_a_line_is_printed_at_a_tenth_of_the_work_and_not_again_before_the_next(lines):
    assert lines(12, short=10) == "10 % after 12 s, 1 of 2 jobs finished.\n"
    assert lines(25, short=10) == ""
    assert lines(30, short=10, long=2) == "28 % after 30 s, 1 of 2 jobs finished.\n"


def test_a_line_is_printed_once_a_minute_however_little_was_done(lines):
    assert lines(59, long=0) == ""
    assert lines(61, long=0) == "0 % after 61 s, 0 of 2 jobs finished.\n"
    assert lines(100, long=0) == ""
    assert lines(122, long=0).startswith("0 % after 2 min")


def test_the_end_is_left_to_the_outcome(lines):
    assert lines(100, short=10, long=10) == ""


def test_jobs_count_by_their_networks():
    jobs = plan_jobs(Study(study_dataset("synthetic-10"), ("erm", "erm-joint"), seeds=(0,), epochs=3).runs())
    done = {job.name: job.epochs if job.n_networks == 1 else 0 for job in jobs}
    assert Progress(jobs, Clock()).share(done) == pytest.approx(1 / 6)
