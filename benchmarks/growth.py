"""How training grows with rows, domains and labels, as a table and a chart.

    python -m benchmarks.growth [--out docs/images/growth.png]

Seconds are the processor's, of one thread, per epoch: those of five epochs less those of one, so that reading and
coding the data, which happens once, is left out. Each curve moves one thing and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from benchmarks.measure import Row
from domaincover import ERMClassifier, SetCoverClassifier

N_FEATURES, BATCH = 20, 256
USUAL = {"rows": 100_000, "domains": 100, "labels": 5}
GROWING = {
    "rows": [10_000, 30_000, 100_000, 300_000, 1_000_000],
    "domains": [10, 100, 1_000, 10_000],
    "labels": [2, 10, 100, 1_000],
}


class Point(NamedTuple):
    """What one training took."""

    grows: str
    size: int
    method: str
    seconds: float


def rows() -> Iterator[Row]:
    """Yield the table's lines: how much longer the largest takes than the smallest."""
    yield from _in_rows(measured())


def measured() -> pd.DataFrame:
    """Measure every point."""
    torch.set_num_threads(1)
    methods = {"SET-COVER": SetCoverClassifier, "ERM": ERMClassifier}
    for method in methods.values():
        _seconds_per_epoch(method, rows=2_000, domains=10, labels=2)  # first calls pay for imports and caches
    points = [
        Point(grows, size, name, _seconds_per_epoch(method, **{**USUAL, grows: size}))
        for grows, sizes in GROWING.items()
        for size in sizes
        for name, method in methods.items()
    ]
    return pd.DataFrame(points)


def _in_rows(points: pd.DataFrame) -> Iterator[Row]:
    wanted = {"rows": "~ linear", "domains": "~ 1 x", "labels": "<= linear"}
    for (grows, method), part in points.groupby(["grows", "method"], sort=False):
        (low, high), (fast, slow) = part["size"].iloc[[0, -1]], part["seconds"].iloc[[0, -1]]
        what = (
            f"an epoch of {method}, {grows} from {low:,} to {high:,} ({high / low:.0f} x): {fast:.2f} to {slow:.2f} s"
        )
        yield Row(what, f"{slow / fast:.1f} x", wanted[str(grows)])


def _seconds_per_epoch(method: type, rows: int, domains: int, labels: int) -> float:
    rng = np.random.default_rng(0)
    y, d = rng.integers(labels, size=rows), rng.integers(domains, size=rows)
    X = rng.standard_normal((rows, N_FEATURES), dtype=np.float32)
    X += rng.standard_normal((labels, N_FEATURES), dtype=np.float32)[y]
    settings = {"batch_size": BATCH, "patience": None, "random_state": 0}
    if method is SetCoverClassifier:
        settings["update_every"] = rows // BATCH // 4  # four moves of the multipliers in an epoch, whatever its length
    one, five = (_seconds(method(epochs=epochs, **settings), X, y, d) for epochs in (1, 5))
    return (five - one) / 4


def _seconds(model: SetCoverClassifier | ERMClassifier, X: np.ndarray, y: np.ndarray, domains: np.ndarray) -> float:
    started = time.process_time()
    model.fit(X, y, domains=domains)
    return time.process_time() - started


def growth_chart(points: pd.DataFrame):
    """Draw seconds per epoch, one panel for each thing that grows."""
    import altair as alt

    from domaincover.paper.study_report.style import KNOWN_METHODS

    styles = [KNOWN_METHODS[name] for name in ("set-cover", "erm")]
    colours = alt.Scale(domain=["SET-COVER", "ERM"], range=[style.color for style in styles])
    panels = []
    for grows, part in points.groupby("grows", sort=False):
        line = alt.Chart(part).encode(
            x=alt.X(
                "size:Q",
                scale=alt.Scale(type="log"),
                title=str(grows).capitalize(),
                axis=alt.Axis(format="~s", tickCount=3, grid=False),
            ),
            y=alt.Y(
                "seconds:Q",
                scale=alt.Scale(type="log"),
                title="Seconds per epoch, one thread",
                axis=alt.Axis(tickCount=4),
            ),
            color=alt.Color("method:N", scale=colours, title=None),
        )
        panels.append((line.mark_line() + line.mark_point(filled=True, size=50)).properties(width=220, height=220))
    return alt.hconcat(*panels).resolve_scale(y="shared")


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("growth.png"))
    options = parser.parse_args()
    points = measured()
    print(points.round(3).to_string(index=False))
    for row in _in_rows(points):
        print(*row)
    from domaincover.paper.study_report.figures import save_chart

    save_chart(growth_chart(points).to_dict(), options.out, "png")


if __name__ == "__main__":
    main()
