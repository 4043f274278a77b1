"""Kills commands at random moments, and sees what they leave: `python -m benchmarks.faults --each 100`.

Every command is a real process that ends by SIGKILL, with all it started, after a time drawn uniformly from its usual
duration. Most are forked from a server that has everything imported; some are fresh ones. After each kill the outputs
are either as before or whole new ones, and the same command, run again, gives the same bytes as one that was never
disturbed.
"""

import argparse
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from domaincover import ERMClassifier, SetCoverClassifier, load
from domaincover.files import UNFINISHED
from tests.faults.processes import Child, command, contents

ROWS = {"parquet": 200_000, "csv": 30_000}  # of the tables to predict
EARLIEST = 0.05  # seconds after which a forked process has come to our own code, which is what signals are for
TIMED = ("seconds", "expected")
ROLES = ("--label", "outcome", "--domain", "ward")


@dataclass
class Case:
    """A command: what stands before it, what it is, what it leaves, and how to check that nothing is torn."""

    name: str
    prepare: Callable[[Path], None]
    arguments: Callable[[Path], list[object]]
    outputs: tuple[str, ...]
    check: Callable[[Path], None]
    again: Callable[[Path], list[object]] | None = None
    work: Callable[[Path], Callable[[], object]] | None = None  # in place of a command: a call of Python
    durations: list[float] = field(default_factory=list)

    def start(self, folder: Path, arguments: list[object], fresh: bool, said: Path) -> Child | subprocess.Popen[bytes]:
        """Start the command in a folder, forked or anew."""
        if self.work is not None and not fresh:
            return Child(self.work(folder), said)
        if not fresh:
            return command(*arguments, said=said)
        call = ["-m", "domaincover", *map(str, arguments)]
        if self.work is not None:
            call = ["-m", "benchmarks.faults", "--save", str(folder / self.outputs[0])]
        with said.open("ab") as file:
            return subprocess.Popen([sys.executable, *call], stdout=file, stderr=file, start_new_session=True)


def patients(n_rows: int, seed: int) -> pd.DataFrame:
    """Draw a table of patients by ward."""
    rng = np.random.default_rng(seed)
    ward, ill = rng.integers(6, size=n_rows), rng.integers(2, size=n_rows)
    columns = {f"x{k}": rng.normal(size=n_rows) + ill * (k + 1) / 4 + ward / 10 for k in range(3)}
    return pd.DataFrame(columns | {"outcome": np.where(ill, "ill", "well"), "ward": ward})


def small_model(seed: int) -> SetCoverClassifier:
    """Fit a model that is quick to fit."""
    table = patients(120, 0)
    model = SetCoverClassifier(hidden=4, epochs=1, random_state=seed)
    return model.fit(table[["x0", "x1", "x2"]], table["outcome"], domains=table["ward"])


def cases(material: Path) -> list[Case]:
    """Return the commands; what they read is in a folder that none of them writes to."""
    patients(240, 1).to_csv(material / "train.csv", index=False)
    patients(ROWS["parquet"], 2).to_parquet(material / "new.parquet")
    patients(ROWS["csv"], 2).to_csv(material / "new.csv", index=False)
    old = small_model(0)
    old.save(material / "old")
    large = ERMClassifier(hidden=1000, epochs=1, random_state=1)
    large.fit(patients(60, 0)[["x0", "x1", "x2"]], patients(60, 0)["outcome"], domains=patients(60, 0)["ward"])
    toml = 'title = "Small"\ndatasets = ["synthetic-10"]\nmethods = ["erm", "pooled-train", "set-cover"]\nseeds = 2\n'
    toml += (
        "epochs = 2\nmin_cell_size = 5\nfigures = []\nn_train_domains = 6\nn_unseen_domains = 4\nmax_train_rows = 60\n"
    )
    (material / "small.toml").write_text(toml + "max_test_rows = 60\n")
    study = ["run", material / "small.toml", "--jobs", 1, "--out"]
    report = ["report", material / "study", "--out"]
    fit = ["fit", material / "train.csv", *ROLES, "--method", "erm", "--out"]

    def older(name: str) -> Callable[[Path], None]:
        return lambda folder: shutil.copytree(material / "old", folder / name) and None

    def finished(_: Path) -> None:
        if not (material / "study").exists():
            process = command(*study, material / "study", said=material / "said")
            assert process.wait(300) == 0, (material / "said").read_text()

    def page(folder: Path) -> None:
        finished(folder)
        (folder / "page.html").write_text("<html>older</html>")

    def sets(name: str) -> Callable[[Path], None]:
        return lambda folder: (folder / name).write_bytes(b"older") and None

    def kept(folder: Path) -> list[object]:
        return [*fit, folder / "model", "--epochs", 40, "--checkpoints", folder / "kept"]

    def saved(folder: Path) -> Callable[[], object]:
        return lambda: large.save(folder / "model")

    def predict(kind: str) -> Callable[[Path], list[object]]:
        return lambda f: ["predict", material / "old", material / f"new.{kind}", "--out", f / f"sets.{kind}"]

    return [
        Case("fit, new", nothing, lambda f: [*fit, f / "model", "--epochs", 3], ("model",), loads),
        Case("fit, over a model", older("model"), lambda f: [*fit, f / "model", "--epochs", 3], ("model",), loads),
        Case("fit, checkpoints", nothing, kept, ("model",), loads, lambda f: [*kept(f), "--resume"]),
        Case("save, new", nothing, no_arguments, ("model",), loads, work=saved),
        Case("save, over a model", older("model"), no_arguments, ("model",), loads, work=saved),
        Case("predict, parquet", sets("sets.parquet"), predict("parquet"), ("sets.parquet",), whole_table),
        Case("predict, csv", sets("sets.csv"), predict("csv"), ("sets.csv",), whole_table),
        Case("report", page, lambda f: [*report, f / "page.html"], ("page.html",), whole_page),
        Case("study", nothing, lambda f: [*study, f / "runs"], ("runs",), whole_study),
    ]


def nothing(_: Path) -> None:
    """Start from an empty folder."""


def no_arguments(_: Path) -> list[object]:
    """Call no command."""
    return []


def loads(folder: Path) -> None:
    """A model is not there, or it loads."""
    if (folder / "model").exists():
        load(folder / "model")


def whole_study(folder: Path) -> None:
    """Every run that is there is done, and every file under its final name can be read to its end."""
    for config in folder.glob("runs/*/*/target-*/seed-*"):
        assert sorted(os.listdir(config)) == [
            "DONE",
            "config.json",
            "history.npz",
            "predictions.parquet",
            "report.json",
        ]
        json.loads((config / "report.json").read_text(encoding="utf-8"))
        pq.read_table(config / "predictions.parquet")
        with np.load(config / "history.npz") as history:
            assert all(len(history[name]) >= 0 for name in history)
    whole_page(folder, "runs/report.html")
    whole_pictures(folder)


def whole_page(folder: Path, name: str = "page.html") -> None:
    """A page is not there, or has its end."""
    if (folder / name).exists():
        assert (folder / name).read_text(encoding="utf-8").rstrip().endswith("</html>")


def whole_pictures(folder: Path) -> None:
    """Pictures have their ends."""
    for picture in folder.rglob("*.png"):
        assert picture.read_bytes().endswith(b"IEND\xaeB`\x82")


def whole_table(folder: Path) -> None:
    """A table is the older file, or has all rows."""
    for path in folder.glob("sets.*"):
        content = path.read_bytes()
        if content == b"older":
            continue
        n_rows = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else len(pd.read_csv(io.BytesIO(content)))
        assert n_rows == ROWS[path.suffix.removeprefix(".")]


def digests(case: Case, folder: Path) -> dict[str, str]:
    """Return a digest of every file of a command's outputs, without what times say."""
    found = {}
    for output in case.outputs:
        place = folder / output
        files = {"": place.read_bytes()} if place.is_file() else contents(place) if place.is_dir() else {}
        for name, content in files.items():
            if name == ".lock":
                continue
            if name.endswith("report.json"):
                content = json.dumps({k: v for k, v in json.loads(content).items() if k not in TIMED}).encode()
            if name.startswith("results/") or name == "report.html" or name.endswith("/DONE"):
                content = b"there"  # it tells how long training took, or has a digest of what does
            found[f"{output}/{name}"] = hashlib.blake2b(content, digest_size=8).hexdigest()
    return found


def done_times(folder: Path) -> dict[Path, int]:
    """Return when each finished run was finished."""
    return {done: done.stat().st_mtime_ns for done in folder.glob("runs/*/*/target-*/seed-*/DONE")}


def leftovers(folder: Path) -> list[Path]:
    """Return what is still named as unfinished."""
    return [path for path in folder.rglob("*") if UNFINISHED.fullmatch(path.name)]


def campaign(
    case: Case, n_kills: int, n_fresh: int, place: Path, rng: np.random.Generator, how: signal.Signals
) -> Counter[str]:
    """Kill a command so many times, and count where the kills fell."""
    reference = _undisturbed(case, place)
    fell: Counter[str] = Counter()
    fresh_seconds = _fresh_duration(case, place) if n_fresh else 0.0
    for number in range(n_kills):
        fresh = number < n_fresh
        folder = place / f"kill-{number}"
        folder.mkdir()
        case.prepare(folder)
        before, said = digests(case, folder), folder.with_suffix(".txt")
        usual = fresh_seconds if fresh else float(np.median(case.durations))
        process = case.start(folder, case.arguments(folder), fresh, said)
        time.sleep(rng.uniform(EARLIEST if how != signal.SIGKILL else 0, usual))
        code = _end(process, how)
        if how != signal.SIGKILL and case.work is None:
            assert code in (0, 128 + how), f"{case.name}, {how.name} {number}: {code}: {said.read_text()}"
            told = [line for line in said.read_text().splitlines() if line.startswith("domaincover: ")]
            assert len(told) == (code != 0), told
            assert "Traceback" not in said.read_text()
            assert not leftovers(folder)
        n_left, now = len(leftovers(folder)), digests(case, folder)
        case.check(folder)
        where = "ended before" if code == 0 else _where(before, now, reference, n_left)
        fell[where] += 1
        fell["leftovers"] += n_left
        finished = done_times(folder)
        again = case.arguments(folder) if case.again is None or not (folder / "kept").exists() else case.again(folder)
        if case.again is not None and code == 0:
            again = case.arguments(folder)
        started = time.monotonic()
        child = case.start(folder, again, False, said)
        assert child.wait(120) == 0, f"{case.name}, kill {number}: {said.read_text()}"
        if "new" in case.name or "over" in case.name or "predict" in case.name or "report" in case.name:
            case.durations.append(time.monotonic() - started)
        others = sorted(set(digests(case, folder).items()) ^ set(reference.items()))
        assert not others, f"{case.name}, kill {number}: other results: {others}"
        assert done_times(folder).items() >= finished.items(), f"{case.name}, kill {number}: a finished run was redone"
        assert not leftovers(folder), f"{case.name}, kill {number}: {leftovers(folder)}"
        assert not (folder / "kept").exists()
        shutil.rmtree(folder)
        said.unlink(missing_ok=True)
    return fell


def _undisturbed(case: Case, place: Path) -> dict[str, str]:
    found = []
    for number in range(3):
        folder = place / f"whole-{number}"
        folder.mkdir()
        case.prepare(folder)
        started = time.monotonic()
        child = case.start(folder, case.arguments(folder), False, place / "said")
        assert child.wait(120) == 0, (place / "said").read_text()
        case.durations.append(time.monotonic() - started)
        found.append(digests(case, folder))
        shutil.rmtree(folder)
    assert found[0] == found[1] == found[2], (
        f"{case.name} is not the same twice: {set(found[0].items()) ^ set(found[1].items())}"
    )
    return found[0]  # fmt: skip


def _fresh_duration(case: Case, place: Path) -> float:
    folder = place / "fresh"
    folder.mkdir()
    case.prepare(folder)
    started = time.monotonic()
    process = case.start(folder, case.arguments(folder), True, place / "said")
    assert process.wait(120) == 0, (place / "said").read_text()
    shutil.rmtree(folder)
    return time.monotonic() - started


def _end(process: Child | subprocess.Popen[bytes], how: signal.Signals) -> int | None:
    if how != signal.SIGKILL:
        process.send_signal(how)
        return process.wait(60)
    if isinstance(process, Child):
        return process.kill()
    if process.poll() is None:
        os.killpg(process.pid, 9)
    return process.wait()


def _where(before: dict[str, str], now: dict[str, str], after: dict[str, str], n_left: int) -> str:
    if now == after:
        return "after the write"
    if now == before and not n_left:
        return "before the write"
    return "within the write"


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=100, help="kills of each command")
    parser.add_argument("--fresh", type=int, default=10, help="of which fresh processes, not forked ones")
    parser.add_argument("--signal", default="KILL", help="KILL, INT or TERM")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a command's name")
    parser.add_argument("--save", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.save:
        table = patients(60, 0)
        model = ERMClassifier(hidden=1000, epochs=1, random_state=1)
        model.fit(table[["x0", "x1", "x2"]], table["outcome"], domains=table["ward"]).save(asked.save)
        return
    # A study that goes on trains fewer networks in a stack; only so are their bits the same (docs/determinism.md).
    os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")
    how = signal.Signals[f"SIG{asked.signal}"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DOMAINCOVER_CACHE"] = f"{folder}/cache"
        material = Path(folder) / "material"
        material.mkdir()
        for number, case in enumerate(cases(material)):
            if asked.only not in case.name:
                continue
            place = Path(folder) / f"case-{number}"
            place.mkdir()
            started, rng = time.monotonic(), np.random.default_rng([asked.seed, number])
            fell = campaign(case, asked.each, min(asked.fresh, asked.each), place, rng, how)
            usual, took = np.median(case.durations), time.monotonic() - started
            print(f"{case.name}, {how.name}: {dict(fell)}; usual {usual:.2f} s; {took:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
