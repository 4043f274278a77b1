"""How long a user waits: the paths one walks most, each as a fresh process, beside a bare `import torch`."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from benchmarks.measure import Row, seconds

TIMES = 3
N_ROWS, N_DOMAINS = 1_000_000, 1000


def rows() -> Iterator[Row]:
    """Yield the table's lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _tables(folder)
        torch = _waited([sys.executable, "-c", "import torch"])
        yield Row("import torch, alone", f"{torch:.2f} s", "")
        for what, command in _commands(folder).items():
            took = _waited(command)
            yield Row(f"{what} / import torch ({took:.2f} s)", f"{took / torch:.2f} x", "")
        yield from _adapted_rows(folder)


def _adapted_rows(folder: Path) -> Iterator[Row]:
    """Yield what domains that set their own thresholds cost, with rows grouped by domain and not."""
    ours = [sys.executable, "-m", "domaincover"]
    model, few = f"{folder}/promised", folder / "few.parquet"
    _domains(20_000, 100).to_parquet(few)
    roles = ["--label", "outcome", "--domain", "hospital", "--method", "erm", "--base", "linear"]
    subprocess.run(
        [*ours, "fit", few, *roles, "--hold-out-domains", "0", "--out", model], check=True, capture_output=True
    )
    new = _domains(N_ROWS, N_DOMAINS)
    for order, table in (("grouped", new), ("in any order", new.sample(frac=1, random_state=0))):
        path = folder / "new.parquet"
        table.to_parquet(path, index=False)
        predict = [*ours, "predict", model, path, "--out", folder / "sets.parquet"]
        plain, adapted = zip(
            *[(_once(predict), _once([*predict, "--domain", "hospital"])) for _ in range(TIMES)], strict=True
        )
        slower = median(with_domain / without for without, with_domain in zip(plain, adapted, strict=True))
        what = f"predict --domain / predict ({median(plain):.1f} s), {N_ROWS:,} rows in {N_DOMAINS:,} domains, {order}"
        yield Row(what, f"{slower:.2f} x", "<= 1.3 x")


def _domains(n_rows: int, n_domains: int) -> pd.DataFrame:
    """Return rows with ten features, grouped by hospital."""
    rng = np.random.default_rng(n_rows)
    hospital, ill = np.sort(rng.integers(n_domains, size=n_rows)), rng.random(n_rows) < 0.5
    features = rng.standard_normal((n_rows, 10)) + rng.normal(0, 0.5, (n_domains, 10))[hospital]
    features[:, 0] += 2 * ill
    table = pd.DataFrame(features, columns=[f"x{k}" for k in range(10)])
    return table.assign(hospital=[f"hospital {k}" for k in hospital], outcome=np.where(ill, "ill", "well"))


def _commands(folder: Path) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "domaincover"]
    model, table, page = f"{folder}/model", f"{folder}/visits.csv", f"{folder}/page.html"
    fit = ["fit", table, "--label", "outcome", "--domain", "hospital", "--out", model]
    synthetic = [
        "paper",
        "synthetic-10",
        "synthetic-10-random",
        "--seeds",
        "1",
        "--set",
        "epochs=2",
        "--out",
        f"{folder}/study",
    ]
    return {
        "import domaincover": [sys.executable, "-c", "import domaincover"],
        "domaincover --help": [*ours, "--help"],
        "domaincover fit --help": [*ours, "fit", "--help"],
        "a mistyped option": [*ours, "predict", model, table, "--outt", "x.csv"],
        "fit, 1,200 rows": [*ours, *fit],
        "predict, 1,200 rows": [*ours, "predict", model, table, "--out", f"{folder}/sets.parquet"],
        "evaluate with a page, 1,200 rows": [*ours, "evaluate", model, table, "--html", page],
        "plan": [*ours, "plan", "--labels", "3", "--features", "50", "--epsilon", "0.1", "--delta", "0.05"],
        "a tiny study": [*ours, *synthetic],
        "results of a study": [*ours, "results", f"{folder}/study"],
        "report of a study": [*ours, "report", f"{folder}/study", "--out", f"{folder}/report.html"],
        "figures of a study": [*ours, "figures", f"{folder}/study", "--out", f"{folder}/figures"],
    }


def _tables(folder: Path) -> None:
    rng = np.random.default_rng(0)
    visits = pd.DataFrame(rng.standard_normal((1200, 6)), columns=list("abcdef"))
    visits["hospital"], visits["outcome"] = np.repeat(np.arange(12), 100), rng.choice(["well", "ill"], 1200)
    visits["a"] += visits["outcome"].eq("ill") * 2
    visits.to_csv(folder / "visits.csv", index=False)


def _waited(command: list[str]) -> float:
    return median(_once(command) for _ in range(TIMES))


def _once(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False))
