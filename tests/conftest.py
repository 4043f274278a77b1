"""What the tests share: settings that are the same wherever they run, and the command line."""

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before the command line is imported: what a terminal or a CI service sets changes the width and colour of the output.
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH"):
    os.environ.pop(name, None)

# Before dask is imported: its processes wait for each other as long as it takes on a busy machine.
os.environ |= {f"DASK_DISTRIBUTED__COMM__TIMEOUTS__{name}": "2h" for name in ("CONNECT", "TCP")}

from domaincover import ERMClassifier, PromisedSetClassifier, save  # noqa: E402
from domaincover.cli import main  # noqa: E402
from tests import held as hold_script  # noqa: E402
from tests.deep import IS_DEEP  # noqa: E402
from tests.processes import Held, restore_signals, wait_until  # noqa: E402
from tests.wards import EXTRA, FEATURES, patients  # noqa: E402

# Nothing is timed, since the machine may be busy. The run of every day draws the same examples wherever it runs, and so
# passes everywhere or nowhere; a deep run draws others each time.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "database": None, "print_blob": True}
settings.register_profile("daily", max_examples=60, derandomize=True, **UNTIMED)
settings.register_profile("deep", max_examples=1000, derandomize=False, **UNTIMED)
settings.load_profile("deep" if IS_DEEP else "daily")


def pytest_collection_modifyitems(items):
    """Leave out deep tests, and do not count lines in slow tests and in those of many drawn examples.

    To count them takes longer, and these repeat what others run.
    """
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker("no_cover")
            if not IS_DEEP:
                item.add_marker(pytest.mark.skip(reason="one more of its kind: make test-all"))
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


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep the user's cache out of it: another processor may have computed what is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOMAINCOVER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def once_for_all_workers(tmp_path_factory):
    """Do something costly in one of the test processes, and give all of them what came out, as JSON has it."""

    def do(name, work):
        base = tmp_path_factory.getbasetemp()
        place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
        with open(f"{place}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                place.mkdir()
                place.with_suffix(".json").write_text(json.dumps(work(place)))
        return json.loads(place.with_suffix(".json").read_text()), place

    return do


@pytest.fixture
def held(tmp_path_factory):
    """Return what holds processes as they rename something to a name, and lets them go at the end."""
    made = []

    def hold(name):
        made.append(Held(tmp_path_factory.mktemp("held"), name))
        return made[-1]

    yield hold
    for each in made:
        each.let_go()


@pytest.fixture
def cluster(tmp_path, held, request):
    """Start a dask scheduler and two workers; give the address, the workers' processes and the scheduler's.

    The parameter is a name at which the workers are held; what holds them comes last.
    """
    started, holds = [], held(request.param)
    environment = os.environ | holds.environment

    def start(name, *arguments):
        command = [Path(sys.executable).with_name("dask"), *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        with (tmp_path / f"{name}.log").open("w") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, env=environment))
        return started[-1]

    def logged(process, name, what):
        return wait_until(lambda: re.search(what, (tmp_path / f"{name}.log").read_text()), process)

    try:
        scheduler = start("scheduler", "scheduler", "--port", "0")
        address = logged(scheduler, "scheduler", r"Scheduler at:\s+(tcp://\S+)")[1]
        options = ["--nthreads", "1", "--no-nanny", "--preload", hold_script.__file__]
        workers = {name: start(name, "worker", address, "--name", name, *options) for name in ("a", "b")}
        for name, worker in workers.items():
            logged(worker, name, "Registered to")
        yield address, [*workers.values()], scheduler, holds
    finally:
        for process in started:  # at once: told to end, a worker may wait long for a scheduler that is gone
            process.kill()
        for process in started:
            process.wait()


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


@pytest.fixture(scope="session")
def promised():
    """A model with a promise, fitted to patients of 25 wards."""
    table, scorer = patients(4000, 25), ERMClassifier(epochs=5, network="linear", random_state=0)
    model = PromisedSetClassifier(scorer, folds=2, random_state=0)
    return model.fit(table[FEATURES], table["outcome"], domains=table["ward"])


@pytest.fixture(scope="session")
def promised_model(promised, tmp_path_factory):
    """Its folder."""
    folder = tmp_path_factory.mktemp("promised") / "model"
    save(promised, folder, extra=EXTRA)
    return folder


@pytest.fixture(scope="session")
def unpromised_model(tmp_path_factory):
    """The folder of a model without a promise, fitted to the same columns."""
    table, folder = patients(300, 5), tmp_path_factory.mktemp("unpromised") / "model"
    fitted = ERMClassifier(epochs=1, network="linear", random_state=0)
    save(fitted.fit(table[FEATURES], table["outcome"], domains=table["ward"]), folder, extra=EXTRA)
    return folder
