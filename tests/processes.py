"""Processes that tests start: the same wherever the tests run, and awaited by events."""

import re
import signal
import subprocess
import sys
import time

from tests import held

# Under nohup, in the background of a script or in some containers a process inherits signals as ignored, and passes
# them on to every process that it starts.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
LIMIT = 7200.0  # seconds; only a process that hangs takes that long, however busy the machine and fast its clock
# What is told where training or a study takes long: where a command is slow, there are such lines between its others.
PROGRESS = re.compile(r"\w+( × \d+)?: (epoch \d+ of|stopped early, at|trained for) .*|\d+ of \d+ jobs ended after .*\.")


DOMAINCOVER = [sys.executable, "-m", "domaincover"]


def call(*arguments, **settings):
    """Run the command line in a process of its own, and return the process that has ended."""
    settings = {"capture_output": True, "text": True, "timeout": LIMIT} | settings
    return subprocess.run([*DOMAINCOVER, *map(str, arguments)], check=False, **settings)


def restore_signals():
    """Handle signals as Python does in a terminal; processes started from now on inherit it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def wait_until(condition, process=None):
    """Return what a condition gives as soon as it is true; fail if the process ends before, or at the limit."""
    limit = time.monotonic() + LIMIT
    while True:
        has_ended = process is not None and process.poll() is not None  # looked at first: the condition may be its end
        if found := condition():
            return found
        assert not has_ended, f"the process ended with {process.poll()} before what was waited for"
        assert time.monotonic() < limit, f"not within {LIMIT:.0f} seconds"
        time.sleep(0.01)


def without_progress(told):
    """Return the lines of what a command told, without those that only a slow machine gets."""
    return [line for line in told.splitlines() if not PROGRESS.fullmatch(line)]


class Held:
    """Processes that wait where they are about to rename something to a name; `tests/held.py` is what they import."""

    def __init__(self, folder, name):
        self.folder = folder
        self.environment = {held.NAME: name, held.FOLDER: str(folder)}

    def processes(self):
        """Return the numbers of the processes that were held."""
        return [int(path.name.removeprefix("held-")) for path in self.folder.glob("held-*")]

    def wait(self, process=None):
        """Wait until one is held, and return the numbers."""
        return wait_until(self.processes, process)

    def let_go(self):
        """Let all go on, those held from now on too."""
        (self.folder / "go").touch()

    def again(self):
        """Hold processes from now on as if none had been held before."""
        for path in self.folder.iterdir():
            path.unlink()


def held_command(*arguments):
    """Return a command line of ours that can be held."""
    code = f"import runpy; runpy.run_path({held.__file__!r}); from domaincover.cli import main; main()"
    return [sys.executable, "-c", code, *map(str, arguments)]
