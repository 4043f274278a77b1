"""Holds a process as it is about to rename a file or folder to its final name, until the test lets it go.

It works where it is imported: by a plug-in of a study, by a worker of dask (`--preload`), or by a command line started
with `held_command`. So a test knows what is under way, and need not be faster than a process.
"""

import os
import sys
import time
from pathlib import Path

NAME, FOLDER = "HELD_AT", "HELD_IN"  # variables: what to look for in the new name, and where it is told


def hold(event, arguments):
    """Wait before a rename to a name that is looked for, and tell so by a file with this process's number."""
    if event != "os.rename" or os.environ[NAME] not in os.fspath(arguments[1]):
        return
    folder = Path(os.environ[FOLDER])
    (folder / f"held-{os.getpid()}").touch()
    while folder.exists() and not (folder / "go").exists():
        time.sleep(0.01)


if NAME in os.environ:
    sys.addaudithook(hold)
