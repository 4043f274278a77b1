"""What the tests of the command line share."""

import json
import os
import sys

import pytest
from filelock import FileLock

from domaincover.cli import main


def pytest_collection_modifyitems(items):
    """Do not count lines in slow tests, which repeat what others run: it takes them half as long again."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker("no_cover")


@pytest.fixture(scope="session")
def once_for_all_workers(tmp_path_factory):
    """Do something costly in one of the test processes, and give all of them what came out, as JSON has it."""

    def do(name, work):
        base = tmp_path_factory.getbasetemp()
        place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
        with FileLock(f"{place}.lock"):
            if not place.exists():
                place.mkdir()
                place.with_suffix(".json").write_text(json.dumps(work(place)))
        return json.loads(place.with_suffix(".json").read_text()), place

    return do


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
