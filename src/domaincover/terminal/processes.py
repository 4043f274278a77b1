"""The processes and cores that a command runs on."""

from __future__ import annotations

import os


def is_main_process() -> bool:
    """Return whether this process writes files and messages: rank 0 under torchrun."""
    return os.environ.get("RANK", "0") == "0"


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
