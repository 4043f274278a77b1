"""Training on a table that stays on disk, against the same training in memory.

    python -m benchmarks.disk_training FOLDER [--rows 5000000] [--features 40] [--epochs 2] [--only disk]

The table is sorted by domain, as folders domain=0, domain=1, … of Parquet, the hardest case for training in blocks.
Both fits take the same steps, of SET-COVER without held-out domains, and must give the same files in every byte. Memory
is the peak of what a process has for itself, which files mapped into memory are not part of.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

N_DOMAINS, N_LABELS, POLL = 100, 3, 0.1
OPTIONS = ["--label", "label", "--domain", "domain", "--method", "set-cover", "--hold-out-domains", "0"]
OPTIONS += ["--domain-confidence", "none"]


def make(folder: Path, n_rows: int, n_features: int) -> Path:
    """Write the table: clouds of labels, which every domain moves."""
    from domaincover.data.tables import write_table

    table = folder / f"rows-{n_rows}-{n_features}"
    for domain in range(N_DOMAINS):
        path = table / f"domain={domain}" / "part.parquet"
        if path.exists():
            continue
        rng, own = np.random.default_rng([1, domain]), n_rows // N_DOMAINS
        labels = np.sort(rng.integers(N_LABELS, size=own))
        X = rng.standard_normal((own, n_features), dtype=np.float32) + rng.normal(0, 0.4, n_features).astype(np.float32)
        X[np.arange(own), labels] += 2
        names = [f"x{k}" for k in range(n_features)]
        write_table(path, [pd.DataFrame(X, columns=names).assign(label=labels.astype(np.int8))])
    return table


def fit(table: Path, out: Path, epochs: int, *options: str) -> tuple[float, float, float]:
    """Fit in a process of its own; return its seconds, the processor's, and the peak of its own memory in GB."""
    import psutil

    command = [sys.executable, "-m", "domaincover", "fit", table, "--out", out, *OPTIONS, "--epochs", str(epochs)]
    started, peak, processor = time.perf_counter(), 0, 0.0
    running = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)
    process = psutil.Process(running.pid)
    while running.poll() is None:
        with contextlib.suppress(psutil.Error, OSError):  # it has ended
            peak = max(peak, process.memory_info().rss - process.memory_info().shared)
            processor = sum(process.cpu_times()[:2])
        time.sleep(POLL)
    if running.returncode:
        sys.exit(f"fit ended with {running.returncode}")
    return time.perf_counter() - started, processor, peak / 1e9


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--only", choices=["memory", "disk"])
    asked = parser.parse_args()
    table = make(asked.folder, asked.rows, asked.features)
    ways = {"memory": [], "disk": ["--on-disk"]}
    for name, options in ways.items():
        if asked.only in (None, name):
            seconds, processor, peak = fit(table, asked.folder / name, asked.epochs, *options)
            print(f"{name:<8} {seconds:8.1f} s {processor:8.1f} s of the processor {peak:6.2f} GB", flush=True)
    if asked.only is None:
        for path in (asked.folder / "memory").iterdir():
            assert path.read_bytes() == (asked.folder / "disk" / path.name).read_bytes(), path
        print("The models are the same in every byte.")


if __name__ == "__main__":
    main()
