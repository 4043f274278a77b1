"""Ctrl-C, SIGTERM and a reader who leaves end a command in one line, and leave nothing half-written."""

import os
import signal
import subprocess
import sys

import pytest

from domaincover.cli import main
from tests.faults.conftest import FIT, patients
from tests.faults.processes import Child, called, signalled_at
from tests.processes import LIMIT, without_progress

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


deep = pytest.mark.deep
STOPS = pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=deep)])
def test_a_fit_that_is_told_to_end_says_so_in_one_line_and_leaves_nothing(tmp_path, table, number, code):
    # not forked: a fork of a process with threads may wait for ever for a lock of one that it does not have
    arguments = ["fit", table, *FIT[:-1], 10**6, "--out", tmp_path / "model"]
    command_line = [sys.executable, "-m", "domaincover", *map(str, arguments)]
    process = subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any("Evaluating" in line for line in process.stderr)
    process.send_signal(number)
    printed, rest = process.communicate(timeout=LIMIT)
    assert (process.returncode, printed) == (code, "")
    assert without_progress(rest) == ["domaincover: stopped; no model was written."]
    assert os.listdir(tmp_path) == []


CAUGHT = "try:\n        exec('raise KeyboardInterrupt')\n    except KeyboardInterrupt:\n        return 130\n    "


@pytest.mark.parametrize("caught", ["", CAUGHT], ids=["raised", "as typer does"])
def test_an_interrupt_while_a_module_is_imported_ends_with_the_status_of_an_interrupt(tmp_path, caught):
    # dataclasses and named tuples run a text, and `python -m` would end by the signal where one was interrupted
    (tmp_path / "stopped.py").write_text(
        "import sys\nimport domaincover.cli\ncommand_line = sys.modules['domaincover.cli.app']\n"
        f"def app(**_):\n    {caught}exec('raise KeyboardInterrupt')\n"
        "command_line.app = app\ncommand_line.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT
    )
    assert (done.returncode, done.stderr) == (130, "domaincover: stopped; nothing was written.\n")


@STOPS
def test_predict_that_is_told_to_end_leaves_the_older_file(tmp_path, model, number, code):
    new, said, out = tmp_path / "new.parquet", tmp_path / "said", tmp_path / "sets.csv"
    patients(400).to_parquet(new)
    out.write_text("older")
    predict = called("predict", model, new, "--out", out)
    assert Child(signalled_at(1, tmp_path / ".sets.csv", predict, number), said).wait() == code  # 0 is to open it
    assert said.read_text() == "domaincover: stopped; nothing was written.\n"
    assert out.read_text() == "older"
    assert sorted(os.listdir(tmp_path)) == ["new.parquet", "said", "sets.csv"]


def test_a_reader_who_leaves_ends_a_command_without_a_word(tmp_path, study):
    def unread():
        reading, writing = os.pipe()
        os.close(reading)
        sys.stdout = open(writing, "w", encoding="utf-8")  # noqa: SIM115
        sys.argv = ["domaincover", "results", str(study)]
        main()

    assert Child(unread, tmp_path / "said").wait() == 1
    assert (tmp_path / "said").read_text() == ""


def test_sigterm_means_what_it_meant_once_a_command_has_ended(here):
    before = signal.getsignal(signal.SIGTERM)
    assert here("--version")[0] == 0
    assert signal.getsignal(signal.SIGTERM) is before
