"""How long a user waits: the paths one walks most, each as a fresh process, beside a bare `import torch`."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
        yield from _processor_rows(folder)
        torch = _waited([sys.executable, "-c", "import torch"])
        yield Row("import torch, alone", f"{torch:.2f} s", "")
        for what, command in _commands(folder).items():
            took = _waited(command)
            yield Row(f"{what} / import torch ({took:.2f} s)", f"{took / torch:.2f} x", "")
        yield from _adapted_rows(folder)


def _processor_rows(folder: Path) -> Iterator[Row]:
    """Yield the processor time of commands on saved models, beside that of `import torch` in the same turns."""
    ours = [sys.executable, "-m", "domaincover"]
    train, few, many = folder / "train.parquet", folder / "1000.parquet", folder / "15000.parquet"
    _domains(6_000, 30).to_parquet(train)
    new = _domains(15_000, 60).assign(hospital=lambda table: "new " + table["hospital"])
    new.to_parquet(many)
    new[::15].to_parquet(few)
    roles = ["--label", "outcome", "--domain", "hospital"]
    for name, chosen in {"perceptron": ["--method", "set-cover"], "mean": []}.items():
        fit = [*ours, "fit", train, *roles, *chosen, "--epochs", "5", "--hold-out-domains", "0", "--out", folder / name]
        subprocess.run(fit, check=True, capture_output=True)
    wanted = {
        "--help": (["--help"], "< 0.5 s"),
        "plan": (["plan"], "< 0.5 s"),
        "check, 6,000 rows": (["check", train, *roles], "< 0.5 s"),
        "predict, 1,000 rows, perceptron": (
            ["predict", folder / "perceptron", few, "--out", folder / "x.csv"],
            "0.6 x",
        ),
        "predict, 1,000 rows, mean": (["predict", folder / "mean", few, "--out", folder / "x.csv"], "0.7 x"),
        "evaluate, 15,000 rows, perceptron": (["evaluate", folder / "perceptron", many], ""),
        "evaluate, 15,000 rows, mean": (["evaluate", folder / "mean", many], "1 x"),
    }
    torch = [sys.executable, "-c", "import torch"]
    for what, (command, limit) in wanted.items():
        turns = [(_processor_seconds([*ours, *command]), _processor_seconds(torch)) for _ in range(TIMES)]
        took, imported = (min(times) for times in zip(*turns, strict=True))  # the least is the least disturbed
        measured = f"{took:.2f} s, {took / imported:.2f} x import torch ({imported:.2f} s)"
        yield Row(f"processor time of {what}", measured, f"<= {limit}" if limit.endswith("x") else limit)


def _processor_seconds(command: Sequence[object]) -> float:
    """Return the processor time of a command, in user and system mode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
        "plan": [*ours, "plan", "--epsilon", "0.1", "--delta", "0.05"],
        "a tiny study": [*ours, *synthetic],
        "results of a study": [*ours, "results", f"{folder}/study"],
        "report of a study": [*ours, "report", f"{folder}/study", "--out", f"{folder}/report.html"],
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
