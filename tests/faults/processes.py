"""Real processes that are started by fork, with everything imported, and ended by their number."""

import contextlib
import os
import signal
import sys
import time
import warnings
from pathlib import Path

from domaincover.cli import main

STEPS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir")  # of which Python tells


class Child:
    """A forked process that leads a group of its own, so that its workers can be ended with it."""

    def __init__(self, work, said=os.devnull):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of threads; the child uses none of them
            self.pid = os.fork()
        if self.pid == 0:
            _be_the_child(work, said)
        self.status = None

    def wait(self, seconds=60.0):
        """Return the exit code, below 0 for a signal, once the process has ended; None if it does not in time."""
        limit = time.monotonic() + seconds
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > limit:
                return None
            else:
                time.sleep(0.002)
        return self.status

    def send_signal(self, number):
        """Send a signal to the process, if it is still there."""
        if self.status is None:
            os.kill(self.pid, number)

    def kill(self):
        """End the process and all it has started, and return its exit code."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def command(*arguments, said=os.devnull):
    """Start the command line in a child."""

    def work():
        sys.argv = ["domaincover", *map(str, arguments)]
        main()

    return Child(work, said)


def killed_at(step, folder, work):
    """Do some work in a child that is killed as it comes to so many steps in a folder; return its exit code.

    Steps are whatever Python opens, makes, renames or removes there.
    """

    def counted():
        left = step

        def look(event, arguments):
            nonlocal left
            if event in STEPS and str(folder) in str(arguments[0]):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(look)
        work()

    return Child(counted).wait()


def contents(folder):
    """Return the bytes of every file below a folder, by name; hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def _be_the_child(work, said):
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (the process ends with it)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        work()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
