"""How `predict` and `evaluate` grow with the rows of a table in parts, with one worker and with two.

    python -m benchmarks.parts FOLDER [--rows 1000000 3000000 10000000] [--out docs/images/beyond-one-machine.png]

A part has 500,000 rows of 10 features in single precision, 25 MB. Every part has rows of all 10,000 domains, which is
the hardest case: the rows that set a domain's thresholds lie in all parts. The model is a promised network of 64 hidden
units, and `evaluate` reports adapted and fixed thresholds. Memory is the peak of any worker, all its pages counted.

What is in FOLDER already, parts and measurements, is not done again, so that a run can be stopped and go on. The
smallest size is also done without workers, and must be the same in every bit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

N_FEATURES, N_LABELS, N_DOMAINS, ROWS_OF_PART = 10, 3, 10_000, 500_000
NAMES = [f"x{k}" for k in range(N_FEATURES)]
POLL = 0.1  # seconds between looks at the memory
COMMANDS = ("predict", "evaluate")


def rows_of(number: int, n_rows: int, first_domain: int = 0, n_domains: int = N_DOMAINS) -> pd.DataFrame:
    """Return the rows of one part: clouds of labels that every domain moves."""
    rng = np.random.default_rng([1, first_domain, number])
    labels, domains = rng.integers(N_LABELS, size=n_rows), rng.integers(n_domains, size=n_rows)
    shifts = np.random.default_rng([2, first_domain]).normal(0, 0.4, (n_domains, N_FEATURES)).astype(np.float32)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32) + shifts[domains]
    X[np.arange(n_rows), labels] += 2
    table = pd.DataFrame(X, columns=NAMES)
    return table.assign(label=labels.astype(np.int8), domain=(first_domain + domains).astype(np.int32))


def write_part(folder: Path, number: int) -> None:
    """Write a part, unless it is there."""
    from domaincover.data.tables import write_table

    path = folder / f"part-{number:05d}.parquet"
    if not path.exists():
        write_table(path, [rows_of(number, ROWS_OF_PART)])


def make(folder: Path, n_rows: int) -> Path:
    """Write the parts of a table, two at a time; those of a smaller table are links to the same files."""
    from joblib import Parallel, delayed

    store, table = folder / "parts", folder / f"rows-{n_rows}"
    numbers = range(n_rows // ROWS_OF_PART)
    Parallel(n_jobs=2)(delayed(write_part)(store, number) for number in numbers)
    table.mkdir(exist_ok=True)
    for number in numbers:
        link = table / f"part-{number:05d}.parquet"
        if not link.exists():
            link.hardlink_to(store / link.name)
    return table


def fit(folder: Path) -> Path:
    """Save a promised model, fitted on domains that the parts do not have."""
    from domaincover import ERMClassifier, PromisedSetClassifier, save

    model = folder / "model"
    if not model.exists():
        table = rows_of(0, 60_000, first_domain=10**6, n_domains=100)
        promised = PromisedSetClassifier(
            ERMClassifier(epochs=3, random_state=0), calibration="held-out-domains", random_state=0
        )
        promised.fit(table[NAMES], table["label"], domains=table["domain"])
        save(promised, model, extra={"settings": {"label": "label", "domain": "domain", "target_recall": 0.9}})
    return model


def measured(folder: Path, n_rows: int, command: str, workers: int | None) -> dict[str, Any]:
    """Run a command, and return its seconds and the largest memory of a worker; what is known is not run again."""
    kept = folder / f"{command}-{n_rows}-{workers}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    out = folder / f"sets-{n_rows}-{workers}"
    arguments = [folder / "model", folder / f"rows-{n_rows}"]
    arguments += ["--out", out] if command == "predict" else ["--format", "json"]
    arguments += [] if workers is None else ["--workers", str(workers)]
    started = time.perf_counter()
    with open(folder / f"{command}-{n_rows}-{workers}.txt", "w", encoding="utf-8") as printed:
        running = subprocess.Popen([sys.executable, "-m", "domaincover", command, *arguments], stdout=printed)
        peak, processor = _watched(running, workers)
    if running.returncode:
        sys.exit(f"{command} ended with {running.returncode}")
    seconds = time.perf_counter() - started
    found = {"rows": n_rows, "command": command, "workers": workers, "seconds": seconds, "memory": peak}
    found["processor"] = processor
    kept.write_text(json.dumps(found))
    return found


def _watched(running: subprocess.Popen, workers: int | None) -> tuple[float, float]:
    """Return the largest resident memory of a worker, in MB, and the processor's seconds of all processes.

    Without workers, the memory is that of the command.
    """
    import psutil

    root, peak, seconds = psutil.Process(running.pid), 0, {}
    while running.poll() is None:
        try:
            others = root.children(recursive=True)
            for process in [root, *others]:
                with contextlib.suppress(psutil.Error):  # it has ended
                    used = process.cpu_times()
                    seconds[process.pid] = used.user + used.system
                    if workers is None or process is not root:
                        peak = max(peak, process.memory_info().rss)
        except psutil.Error:
            break
        time.sleep(POLL)
    running.wait()
    return peak / 1e6, sum(seconds.values())


def check_equal(folder: Path, n_rows: int, workers: int) -> None:
    """Stop if workers and one process differ in a bit."""
    for command in COMMANDS:
        measured(folder, n_rows, command, None)
    report = folder / f"evaluate-{n_rows}-None.txt"
    assert report.read_bytes() == (folder / f"evaluate-{n_rows}-{workers}.txt").read_bytes()
    sets = folder / f"sets-{n_rows}-None"
    for path in sets.iterdir():
        assert path.read_bytes() == (folder / f"sets-{n_rows}-{workers}" / path.name).read_bytes(), path
    print(f"{n_rows:,} rows: {workers} workers and one process are the same in every bit.")


def chart(found: pd.DataFrame) -> Any:
    """Draw seconds and memory of a worker by rows."""
    import altair as alt

    from domaincover.report.charts import INK, chart_config

    found = found.dropna(subset="workers")
    workers = (
        found["workers"]
        .astype(int)
        .map({1: "one worker"})
        .fillna(found["workers"].astype(int).astype(str) + " workers")
    )
    found = found.assign(line=found["command"] + ", " + workers)
    lines = sorted(found["line"].unique())
    colors = alt.Scale(domain=lines, range=["#2f5d8a", "#8fb0cf", "#b3261e", "#e0938d"])
    panels = []
    for name, title in (("seconds", "Seconds"), ("memory", "Memory of a worker, MB")):
        is_time = name == "seconds"
        ticks = [10**k * digit for k in range(5) for digit in (1, 3)]
        line = alt.Chart(found).encode(
            x=alt.X(
                "rows:Q",
                scale=alt.Scale(type="log", nice=False),
                title="Rows",
                axis=alt.Axis(format="~s", values=sorted(set(found["rows"])), grid=False),
            ),
            y=alt.Y(
                f"{name}:Q",
                scale=alt.Scale(type="log", nice=False) if is_time else alt.Scale(zero=True),
                title=title,
                axis=alt.Axis(values=ticks) if is_time else alt.Axis(tickCount=4),
            ),
            color=alt.Color("line:N", title=None, scale=colors),
        )
        panels.append(line.mark_line(point={"size": 50}).properties(width=260, height=240))
    return alt.hconcat(*panels, config=chart_config(INK))


def main() -> None:
    """Make what is missing, measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    fit(options.folder)
    found = []
    for n_rows in options.rows:
        make(options.folder, n_rows)
        for command in COMMANDS:
            for workers in options.workers:
                found.append(measured(options.folder, n_rows, command, workers))
                print(_line(found[-1]), flush=True)
    check_equal(options.folder, min(options.rows), options.workers[-1])
    if options.out is not None:
        from domaincover.paper.study_report.figures import save_chart

        save_chart(chart(pd.DataFrame(found)).to_dict(), options.out, "png")


def _line(found: dict[str, Any]) -> str:
    per_second = found["rows"] / found["seconds"]
    return (
        f"{found['rows']:>13,} rows  {found['command']:<9} {found['workers']} workers  {found['seconds']:8.1f} s  "
        f"{per_second:>11,.0f} rows/s  {found['processor']:7.1f} s of processors  {found['memory']:6.0f} MB per worker"
    )


if __name__ == "__main__":
    main()
