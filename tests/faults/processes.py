"""Processes that are started quickly, with everything imported, and killed by their number.

They are forks of a server that has imported everything and runs no threads: a fork of the test process itself, which
has threads of libraries, may wait for ever for a lock that one of those held.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import cloudpickle

from domaincover.cli import main
from tests.processes import LIMIT, restore_signals

STEPS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir")  # of which Python tells
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["pytest", "torch._dynamo", "pandas", "pyarrow.parquet", "scipy.stats", "sklearn.ensemble", "typer", "joblib"]
    + [f"domaincover.{name}" for name in ("cli", "estimators.assessment", "saving.models", "paper.runner", "paper.job")]
)


class Child:
    """A process that leads a group of its own, so that its workers can be ended with it."""

    def __init__(self, work, said=os.devnull):
        arguments = (cloudpickle.dumps(work), dict(os.environ), os.getcwd(), os.fspath(said))
        self._process = FORKS.Process(target=_be_the_child, args=arguments)
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        """Return the exit code, below 0 for a signal, if the process has ended; else None."""
        return self._process.exitcode

    def wait(self, seconds=LIMIT):
        """Return the exit code once the process has ended; None if it does not in time."""
        self._process.join(seconds)
        return self.poll()

    def send_signal(self, number):
        """Send a signal to the process, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End the process and all it has started, and return its exit code."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.wait()


def called(*arguments):
    """Return work for a child: the command line with these arguments."""

    def work():
        sys.argv = ["domaincover", *map(str, arguments)]
        main()

    return work


def command(*arguments, said=os.devnull):
    """Start the command line in a child."""
    return Child(called(*arguments), said)


def killed_at(step, folder, work):
    """Do some work in a child that is killed as it comes to so many steps in a folder; return its exit code."""
    return Child(signalled_at(step, folder, work, signal.SIGKILL)).wait()


def signalled_at(step, folder, work, number):
    """Return work for a child that gets a signal as it comes to so many steps in a folder.

    Steps are whatever Python opens, makes, renames or removes there.
    """

    def counted():
        left = step

        def look(event, arguments):
            nonlocal left
            if event in STEPS and str(folder) in str(arguments[0]):
                left -= 1
                if left == -1:
                    os.kill(os.getpid(), number)

        sys.addaudithook(look)
        work()

    return counted


def contents(folder):
    """Return the bytes of every file below a folder, by name; hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def _be_the_child(work, environment, folder, said):
    code = 1
    try:
        os.setsid()
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        restore_signals()
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (the process ends with it)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        cloudpickle.loads(work)()
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
