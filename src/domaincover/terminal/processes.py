"""The processes, cores and memory that a command runs on."""

from __future__ import annotations

import os


def is_main_process() -> bool:
    """Return whether this process writes files and messages: rank 0 under torchrun."""
    return os.environ.get("RANK", "0") == "0"


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_of_machine() -> int:
    """Return the bytes of the machine's memory; a terabyte where the system does not say."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return 10**12
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
