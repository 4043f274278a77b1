"""Tables: sets against the bare network, the time of a fit, and memory that does not grow with the rows."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.measure import Row, ratio, seconds
from domaincover import SetCoverClassifier
from domaincover.data.tables import write_table

N_FEATURES, N_LABELS, ROWS_AT_ONCE = 50, 5, 16_384
# What would hide the difference: threads that wait for each other on busy cores, and memory that is given back to the
# system and fetched again, which one side may happen to do in a process and the other not.
STEADY = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
# From a process of its own, since a child is charged for the memory of the one that starts it.
PEAK_OF_CHILD = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def rows() -> Iterator[Row]:
    """Yield the table's lines; Linux only, where the peak is counted in KiB."""
    found = printed("-c", "from benchmarks.tables import sets_against_scores; print(sets_against_scores())", env=STEADY)
    yield Row("predict_set on 1,000,000 x 50 / the network's forward pass", f"{float(found):.2f} x", "<= 1.5 x")
    yield _fit()
    with tempfile.TemporaryDirectory() as folder:
        SetCoverClassifier(epochs=1, random_state=0).fit(*_mixed(5_000, 0)).save(f"{folder}/model")
        yield _memory(Path(folder), ".parquet", few=200_000, many=2_000_000)
        yield _memory(Path(folder), ".csv", few=100_000, many=1_000_000)


def _numbers(n_rows: int, n_domains: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return examples, labels and domains: overlapping clouds that every domain moves."""
    rng = np.random.default_rng(0)
    labels, domains = rng.integers(N_LABELS, size=n_rows), rng.integers(n_domains, size=n_rows)
    clouds, shifts = rng.normal(0, 0.4, (N_LABELS, N_FEATURES)), rng.normal(0, 0.2, (n_domains, N_FEATURES))
    noise = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    return (noise + clouds[labels] + shifts[domains]).astype(np.float32), labels, domains


def sets_against_scores(n_rows: int = 1_000_000) -> float:
    """Return the time of sets divided by that of scores alone."""
    X, labels, _ = _numbers(n_rows, 1)
    model = SetCoverClassifier(epochs=1, random_state=0).fit(X[:20_000], labels[:20_000])
    return ratio(partial(model.predict_set, X), partial(_scores, model.network_, torch.from_numpy(X)), repeats=15)


@torch.no_grad()
def _scores(network: torch.nn.Module, examples: torch.Tensor) -> torch.Tensor:
    """Return the scores of rows that stand ready, in blocks, which is faster than all at once."""
    return torch.cat([network(block) for block in examples.split(ROWS_AT_ONCE)])


def _fit() -> Row:
    X, labels, domains = _numbers(100_000, 50)
    took = seconds(lambda: SetCoverClassifier(random_state=0).fit(X, labels, domains=domains))
    return Row("fit with defaults: 100,000 x 50, 50 domains, 5 labels", f"{took:.0f} s", "< 60 s")


def _memory(folder: Path, ending: str, few: int, many: int) -> Row:
    few_peak, many_peak = (_peak_of_predict(folder, ending, n_rows) for n_rows in (few, many))
    what = f"peak memory of predict, {ending}: {many:,} rows / {few:,} ({few_peak / 2**20:.2f} GiB)"
    return Row(what, f"{many_peak / few_peak:.2f} x", "~ 1 x")


def _peak_of_predict(folder: Path, ending: str, n_rows: int) -> int:
    """Return the peak in KiB of `domaincover predict` on a table that is written in several parts."""
    table, size = folder / f"{n_rows}{ending}", 50_000
    write_table(table, (_mixed(size, part)[0] for part in range(n_rows // size)))
    predict = [sys.executable, "-m", "domaincover", "predict", f"{folder}/model", table, "--out"]
    return int(printed("-c", PEAK_OF_CHILD, *predict, folder / f"sets{ending}"))


def printed(*arguments: str | Path, env: dict[str, str] | None = None) -> str:
    """Run Python with these arguments, and return what it prints."""
    command, env = [sys.executable, *arguments], os.environ | (env or {})
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout


def _mixed(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with numbers, a category and a date, and labels."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.standard_normal((n_rows, 10)), columns=[f"number {k}" for k in range(10)])
    table["colour"] = rng.choice(["red", "green", "blue"], n_rows)
    table["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(365, size=n_rows), unit="D")
    return table, rng.integers(3, size=n_rows)
