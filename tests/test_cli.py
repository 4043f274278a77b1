import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import domaincover
from tests import held as hold_script
from tests.processes import DOMAINCOVER, LIMIT, call, wait_until, without_progress

SMALL = ["paper", "synthetic-10", "--seeds", "1", "--set", "epochs=1", "--jobs", "1"]


@pytest.fixture(scope="module")
def study(once_for_all_workers):
    def work(place):
        done = call(*SMALL, "--out", place / "rüns")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"synthetic-10: Comparison of the paper's methods: {place}")
        assert "SET-COVER" in done.stdout
        assert done.stderr.startswith("6 runs: 0 finished, 6 to do in 3 jobs")
        assert "\n6 runs finished in " in done.stderr

    _, place = once_for_all_workers("a study with spaces", work)
    return place / "rüns"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "target_recalls=90"], "target recall must lie between 0 and 1, got 90"),
        (["--set", "target_recalls=high"], "--set target_recalls must be a list of numbers, got 'high'"),
        (["--set", "epochs=2.5"], "--set: epochs must be an integer, got 2.5"),
        (["--set", "epochs"], "--set takes KEY=VALUE, got 'epochs'"),
        (["--set", "epoch=3"], "--set: unknown key 'epoch'; did you mean epochs?"),
        (["--set", "name=mine"], "--set: unknown key 'name'; there are datasets, methods, "),
        (["--set", "seeds=2", "--seeds", "3"], "--seeds and --set seeds are both given"),
        (["--seeds", "-1"], "--seeds is the number of seeds and must be at least 1, got -1"),
        (["--seeds", "two"], "Invalid value for '--seeds': Input should be a valid integer"),
        (["--set", "methods=set-cover,sett"], "unknown method 'sett'; methods are erm, irm, vrex"),
        (["--set", "methods="], "--set: methods is empty"),
        (["--datasets", ","], "--datasets is empty"),
        (["synthetic-7"], "must be even, got 7"),
        (["synthetic-4000"], "synthetic data have at most 2000 features, got 4000"),
        (["syntetic"], "no experiment or data set 'syntetic'; did you mean synthetic?"),
        (["list"], "no experiment or data set 'list'"),
        (["--set", "epochs=0"], "epochs must be at least 1, got 0"),
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--dimms", "10"], "No such option: --dimms"),
        (["--set", "domain_confidence=95"], "domain confidence must lie between 0 and 1, got 95; write 95 % as 0.95"),
        (
            ["--set", "domain_confidence=0.99", "--set", "methods=erm-joint"],
            "takes 99 calibration domains, and there are 25, which allow 0.961 at most",
        ),
    ],
)
def test_bad_options_get_one_line_and_nothing_is_written(arguments, message, refused, tmp_path):
    refused(message, "paper", "synthetic", "--out", tmp_path / "runs", *arguments)


def test_a_foreign_directory_is_refused_and_left_alone(refused, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    refused("is not empty and not a domaincover study; choose another", *SMALL, "--out", tmp_path)


def test_directories_that_cannot_be_made_or_hold_no_study_are_refused(refused, tmp_path):
    (tmp_path / "file").touch()
    refused("study.json: Not a directory.", *SMALL, "--out", tmp_path / "file" / "runs")
    refused("there is no directory", "results", tmp_path / "none")
    refused("not a domaincover study", "results", tmp_path)


def test_an_unknown_format_is_refused(refused, study):
    refused("'xls'", "results", study, "--format", "xls")


def test_results_as_json_are_one_record_per_data_set_method_target_and_split(here, study):
    records = json.loads(here("results", study, "--format", "json")[1])
    assert len(records) == 6 * 3
    asked = "dataset method target_recall split n_seeds n_domains min_recall min_recall_std min_recall_ci"
    asked += " set_size set_size_std set_size_ci share_at_target share_at_target_std share_at_target_ci train_seconds"
    assert list(records[0])[:16] == asked.split()
    assert {record["split"] for record in records} == {"train", "seen", "unseen"}
    assert {record["dataset"] for record in records} == {"synthetic-10"}
    assert records[0]["min_recall_std"] is None, "one seed has no deviation"


@pytest.mark.parametrize(("style", "mark"), [("table", "SET-COVER"), ("latex", "\\toprule"), ("csv", ",")])
def test_results_in_every_format(here, study, style, mark):
    code, printed, _ = here("results", study, "--format", style)
    assert code == 0
    assert mark in printed
    assert "\x1b[" not in printed


def test_a_table_shows_unseen_domains_and_all_splits_on_demand(here, study):
    few, many = (here("results", study, "--format", "latex", *more)[1] for more in ([], ["--all-splits"]))
    assert many.count("\n") == few.count("\n") + 12


def test_a_reader_that_leaves_early_is_no_error(study):
    reader = subprocess.Popen(["head", "-c", "1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    done = call("results", study, "--format", "csv", capture_output=False, stdout=reader.stdin, stderr=subprocess.PIPE)
    reader.stdin.close()
    assert reader.wait() == 0
    assert done.stderr == ""


def test_the_page_is_written_and_named(here, study, tmp_path):
    assert here("report", study, "--out", tmp_path / "page.html")[2] == (
        f"The page is {(tmp_path / 'page.html').as_uri()}\n"
    )
    assert "SET-COVER" in (tmp_path / "page.html").read_text()


def test_a_page_that_cannot_be_written_gets_one_line(refused, study, tmp_path):
    (tmp_path / "file").touch()
    refused("cannot write", "report", study, "--out", tmp_path / "file" / "page.html")


@pytest.mark.parametrize("command", [[], ["paper"]])
def test_a_command_left_out_gets_the_help(here, command):
    _, printed, told = here(*command)
    assert "Usage" in printed + told
    assert "domaincover: " not in told


def test_numbers_given_twice_are_run_once(here, tmp_path):
    arguments = [*SMALL, "synthetic-10", "--set", "methods=erm", "--set", "target_recalls=0.9,0.90"]
    assert here(*arguments, "--out", tmp_path / "runs")[2].startswith("1 run: 0 finished, 1 to do")


def test_the_version_is_printed(here):
    assert here("--version")[1] == f"{domaincover.__version__}\n"


def test_a_line_tells_of_each_job_that_has_ended(tmp_path):
    options = ["--set", "epochs=3", "--set", "methods=set-cover", "--out", tmp_path / "runs"]
    done = call(*SMALL, *options)
    assert done.returncode == 0
    assert re.search(r"^1 of 1 jobs ended after .*: synthetic-10 set-cover, seed 0\.$", done.stderr, re.MULTILINE)


def workers_of(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text(encoding="utf-8").split()]


ON_LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the process table of Linux")


# Two jobs in two processes, one of which is held when it has trained and is about to finish its run.
TWO_JOBS = ["paper", "synthetic-10", "--seeds", "1", "--set", "epochs=2", "--set", "methods=erm,set-cover", "--jobs"]
FINISHED = "*/*/*/*/DONE"


@pytest.fixture
def half_done(held, tmp_path):
    """A study of two runs, one finished and one held: its process, the held one's number, and what lets it go."""
    holds, out = held("set-cover/target"), tmp_path / "runs"
    command = [*DOMAINCOVER, *TWO_JOBS, "2", "--plugin", hold_script.__file__, "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | holds.environment)
    (pid,) = holds.wait(process)
    wait_until(lambda: list(out.glob(FINISHED)), process)
    yield process, pid, holds
    process.kill()
    process.communicate()


@ON_LINUX
@pytest.mark.deep
def test_where_a_process_is_killed_the_study_goes_on_without_it(half_done, tmp_path):
    process, pid, holds = half_done
    os.kill(pid, signal.SIGKILL)
    holds.let_go()
    _, message = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert "\n2 runs finished in " in message
    assert len(list((tmp_path / "runs").glob(FINISHED))) == 2
    assert not list((tmp_path / "runs").glob(".progress/*"))


@ON_LINUX
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.deep)])
def test_a_stopped_study_leaves_no_process_and_goes_on_where_it_was(half_done, here, tmp_path, how):
    out = tmp_path / "runs"
    process, _, _ = half_done
    workers = workers_of(process)
    process.send_signal(how)
    _, message = process.communicate(timeout=LIMIT)
    if how == signal.SIGINT:
        assert process.returncode == 130
        plan, *told = without_progress(message)
        assert plan.startswith("2 runs: 0 finished, 2 to do")
        assert told == ["domaincover: stopped; finished runs are kept, and the same command continues from there."]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert len(list(out.glob(FINISHED))) == 1
    code, _, told = here(*TWO_JOBS, "1", "--out", out)
    assert code == 0
    assert re.search(r"^1 run finished", told, re.MULTILINE)
    assert "1 were finished before" in told
    assert len(list(out.glob(FINISHED))) == 2
    assert not list(out.glob(".unfinished/*"))
