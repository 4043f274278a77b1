"""Ctrl-C, SIGTERM and a reader who leaves end a command in one line, and leave nothing half-written."""

import os
import signal
import subprocess
import sys

import pytest

from domaincover.cli import main
from tests.faults.conftest import FIT, patients
from tests.faults.processes import Child, command
from tests.processes import LIMIT, wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def test_a_fit_that_is_told_to_end_says_so_in_one_line_and_leaves_nothing(tmp_path, table):
    # not forked: a fork of a process with threads may wait for ever for a lock of one that it does not have
    arguments = ["fit", table, *FIT[:-1], 10**6, "--out", tmp_path / "model"]
    command_line = [sys.executable, "-m", "domaincover", *map(str, arguments)]
    process = subprocess.Popen(command_line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    told = ""
    while "Evaluating" not in told:
        told = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=LIMIT)[1]
    assert (process.returncode, rest) == (143, "domaincover: stopped; no model was written.\n")
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


def test_predict_that_is_told_to_end_leaves_the_older_file(tmp_path, model):
    new, said, out = tmp_path / "new.parquet", tmp_path / "said", tmp_path / "sets.csv"
    patients(400_000).to_parquet(new)
    out.write_text("older")
    process = command("predict", model, new, "--out", out, said=said)
    wait_until(lambda: list(tmp_path.glob(".*.part")), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
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
