"""Sets and reports of 10,000,000 rows x 5 labels x 10,000 domains, against one pass of numpy over the same bytes.

Each line is measured in a process of its own, so that its peak of memory is its own; "more memory" is the peak above
what the inputs take.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

from benchmarks.measure import Row, timed
from benchmarks.tables import PEAK_OF_CHILD, printed
from domaincover import SetCoverClassifier, domain_report
from domaincover.criteria import sets_from_scores

N_ROWS, N_LABELS, N_DOMAINS = 10_000_000, 5, 10_000


def rows() -> Iterator[Row]:
    """Yield the table's lines; Linux only, where the peak is counted in KiB."""
    for name in ("sets_of_scores", "sets_of_features", "report", "page"):
        found = json.loads(printed("-c", f"from benchmarks import scale; scale.{name}()"))
        what = f"10,000,000 rows, {N_LABELS} labels, 10,000 domains: {found['what']} ({found['seconds']:.2f} s)"
        yield Row(f"{what}, {found['more']:.2f} GiB more memory", f"{found['ratio']:.1f} x", "")
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_peak_of_evaluate(Path(folder), n) for n in (N_ROWS // 10, N_ROWS))
        what = f"peak memory of evaluate: {N_ROWS:,} rows ({many / 2**20:.2f} GiB) / {N_ROWS // 10:,}"
        yield Row(what, f"{many / few:.2f} x", "")


def sets_of_scores() -> None:
    """Compare scores with thresholds."""
    scores, _, _ = _made_up(N_LABELS)
    thresholds = np.zeros(N_LABELS, dtype=np.float32)
    _compare("scores to sets / their sum", lambda: sets_from_scores(scores, thresholds), scores.sum)


def sets_of_features() -> None:
    """Predict sets by a network of 64 hidden units."""
    X, labels, domains = _made_up(N_LABELS)
    some = slice(0, 20_000)
    model = SetCoverClassifier(epochs=1, random_state=0).fit(X[some], labels[some], domains=domains[some] % 20)
    _compare("predict_set of SET-COVER / the sum of X", lambda: model.predict_set(X), X.sum)


def report() -> None:
    """Report by domain."""
    scores, labels, domains = _made_up(N_LABELS)
    sets, names = scores >= 0, (tuple(range(N_LABELS)), tuple(range(N_DOMAINS)))
    del scores
    ours = lambda: domain_report(sets, labels, domains, *names).summary(0.9)  # noqa: E731
    _compare("domain_report and summary / the sums", ours, lambda: (sets.sum(), labels.sum(), domains.sum()))


def page() -> None:
    """Write the page of 10,000 domains."""
    from domaincover.report.pages import write_domain_page

    scores, labels, domains = _made_up(N_LABELS)
    made = domain_report(scores >= 0, labels, domains, tuple(range(N_LABELS)), tuple(range(N_DOMAINS)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        ours = lambda: write_domain_page(path, {"made up": made}, 0.9, title="Made up")  # noqa: E731
        _compare("the report's page / the sums", ours, lambda: (scores.sum(), labels.sum(), domains.sum()))


def _made_up(n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    examples = rng.standard_normal((N_ROWS, n_columns), dtype=np.float32)
    return examples, rng.integers(N_LABELS, size=N_ROWS), rng.integers(N_DOMAINS, size=N_ROWS)


def _compare(what: str, ours: Callable[[], Any], one_pass: Callable[[], Any]) -> None:
    before = getrusage(RUSAGE_SELF).ru_maxrss
    took, _ = timed(ours, repeats=3)
    more = (getrusage(RUSAGE_SELF).ru_maxrss - before) / 2**20
    passed, _ = timed(one_pass, repeats=3)
    print(json.dumps({"what": what, "seconds": took, "ratio": took / passed, "more": more}))


def _peak_of_evaluate(folder: Path, n_rows: int) -> int:
    """Return the peak in KiB of `domaincover evaluate` on a Parquet file of so many rows."""
    making = f"from benchmarks import scale; scale.write_rows({str(folder)!r}, {n_rows})"
    subprocess.run([sys.executable, "-c", making], check=True)
    evaluate = [sys.executable, "-m", "domaincover", "evaluate", folder / "model", folder / "rows.parquet"]
    told = printed("-c", PEAK_OF_CHILD, *evaluate, "--format", "json", "--html", folder / "page.html")
    return int(told.splitlines()[-1])


def write_rows(folder: str, n_rows: int) -> None:
    """Write a table in parts, and a model that was fitted on some of it."""
    import pandas as pd

    from domaincover.data.tables import write_table
    from domaincover.saving.models import save

    rng, size = np.random.default_rng(0), 500_000
    names = [f"feature {k}" for k in range(N_LABELS)]

    def part() -> pd.DataFrame:
        table = pd.DataFrame(rng.standard_normal((size, N_LABELS), dtype=np.float32), columns=names)
        return table.assign(label=rng.integers(N_LABELS, size=size), domain=rng.integers(N_DOMAINS, size=size))

    first = part()[:20_000]
    model = SetCoverClassifier(epochs=1, random_state=0)
    model.fit(first[names], first["label"], domains=first["domain"] % 20)
    save(model, f"{folder}/model", extra={"settings": {"label": "label", "domain": "domain"}})
    write_table(Path(folder) / "rows.parquet", (part() for _ in range(n_rows // size)))
