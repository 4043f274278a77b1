"""What the tests of the command line share."""

import json
import os
import sys

import pytest
from filelock import FileLock
from hypothesis import settings

from domaincover.cli import main
from tests.deep import IS_DEEP
from tests.processes import restore_signals

# no deadline: timings are not asserted, since the machine may be busy
settings.register_profile("untimed", deadline=None, max_examples=60)
# Many examples, for a campaign by hand: HYPOTHESIS_PROFILE=deep python -m pytest tests/fuzz
settings.register_profile("deep", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "untimed"))


def pytest_collection_modifyitems(items):
    """Do not count lines in slow tests and in those of many drawn examples, which repeat what others run.

    To count them takes half as long again, and more where little is numpy's or torch's.
    """
    for item in items:
        if item.get_closest_marker("deep") and not IS_DEEP:
            item.add_marker(pytest.mark.skip(reason="one of its kind is enough for every day; HYPOTHESIS_PROFILE=deep"))
        if item.get_closest_marker("slow") or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("no_cover")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Do not count lines in fixtures either where a whole module is marked no_cover; pytest-cov looks at calls only."""
    controller = getattr(item.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    of_module = any(isinstance(node, pytest.Module) for node, _ in item.iter_markers_with_node("no_cover"))
    if controller is None or not of_module:
        return (yield)
    controller.pause()
    try:
        return (yield)
    finally:
        controller.resume()


@pytest.fixture(scope="session", autouse=True)
def signals_of_a_terminal():
    """Let tests and the processes that they start be interrupted, also where this run ignores it (nohup)."""
    restore_signals()


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
