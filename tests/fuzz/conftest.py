"""How many cases were tried at each door, told at the end of a run."""

from collections import Counter

import pytest

CASES: Counter[str] = Counter()
KEY = "fuzz_cases"


@pytest.fixture(scope="session")
def door():
    """Count a case at a door: `door("tables")`, or many at once."""

    def count(name, n_cases=1):
        CASES[name] += n_cases

    return count


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):  # noqa: ARG001 - pytest-xdist's signature
    CASES.update(getattr(node, "workeroutput", {}).get(KEY, {}))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist hands its counts to the first one
        session.config.workeroutput[KEY] = dict(CASES)


def pytest_terminal_summary(terminalreporter):
    if CASES:
        listed = ", ".join(f"{name} {count:,}" for name, count in sorted(CASES.items()))
        terminalreporter.write_line(f"fuzz cases by door: {listed}; {sum(CASES.values()):,} in all")
