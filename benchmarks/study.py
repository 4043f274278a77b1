"""The whole of `domaincover paper synthetic`: time and peak memory of all its processes together, and its figures."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import vl_convert

from benchmarks.measure import Row
from domaincover.paper.collect import collect
from domaincover.paper.study_report.figures import figure_files

OPTIONS: list[str] = []  # more of the command


def rows() -> Iterator[Row]:
    """Yield the table's lines; Linux only, for it reads the process table."""
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "runs"
        command = [sys.executable, "-m", "domaincover", "paper", "synthetic", "--out", str(study), *OPTIONS]
        started = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(map(_memory, _family(process.pid))))
            time.sleep(0.2)
        took = time.perf_counter() - started
        assert process.returncode == 0
        yield figures_row(study, Path(folder) / "figures")
    yield Row("domaincover paper synthetic: 4 data sets x 6 methods x 20 seeds", f"{took:.0f} s", "~ 60 s")
    yield Row("the same: peak memory of all processes", f"{peak / 2**30:.2f} GiB", "< 2 GB")


def figures_row(study: Path, out: Path) -> Row:
    """Return the processor time of `figures` beside that of drawing the same charts in vl-convert, which is left."""
    draw, drawing = vl_convert.vegalite_to_png, []

    def timed(*chart: Any, **options: Any) -> bytes:
        started = time.process_time()
        picture = draw(*chart, **options)
        drawing.append(time.process_time() - started)
        return picture

    started = time.process_time()
    tables = collect(study)
    with mock.patch("vl_convert.vegalite_to_png", timed):
        figure_files(tables.results, tables.domains, out)
    took = time.process_time() - started
    what = f"figures of a study, {len(drawing)} pictures in {took:.1f} s of processor time / drawing alone"
    return Row(what, f"{took / sum(drawing):.2f} x", "<= 1.6 x, 2.3 x before")


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
