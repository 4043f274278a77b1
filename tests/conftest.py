"""What the tests of the command line share."""

import sys

import pytest

from domaincover.cli import main


@pytest.fixture
def here(capsys, monkeypatch):
    """Call the command line in this process; returns the exit code, and what was printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["domaincover", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def refused(here, tmp_path):
    """Assert that a command ends with one line and code 2, and that it leaves files and folders as they were."""

    def check(message, *arguments):
        before = sorted(tmp_path.rglob("*"))
        code, printed, told = here(*arguments)
        assert told.startswith("domaincover: ")
        assert message in told
        assert told.count("\n") == 1
        assert (code, printed) == (2, "")
        assert sorted(tmp_path.rglob("*")) == before

    return check
