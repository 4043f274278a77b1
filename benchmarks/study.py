"""The whole of `domaincover paper synthetic`: time and peak memory of all its processes together."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Row


def rows() -> Iterator[Row]:
    """Yield the table's lines; Linux only, for it reads the process table."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "domaincover", "paper", "synthetic", "--out", str(Path(folder) / "runs")]
        started = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(map(_memory, _family(process.pid))))
            time.sleep(0.2)
        took = time.perf_counter() - started
    assert process.returncode == 0
    yield Row("domaincover paper synthetic: 4 data sets x 5 methods x 5 seeds", f"{took:.0f} s", "~ 120 s")
    yield Row("the same: peak memory of all processes", f"{peak / 2**30:.2f} GiB", "< 2 GB")


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _memory(pid: int) -> int:
    """Return the memory of a process in bytes, shared pages counted in proportion."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
