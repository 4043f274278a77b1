"""TorchCP's class-conditional and clustered predictors against our thresholds, by recall, set size and time.

    python -m benchmarks.clustered_labels

The clustered predictor (Ding et al., 2023) pools labels with similar scores, which steadies thresholds where labels are
many and rows are few. It promises recall for new rows of the population it was calibrated on. Ours promise recall in a
new domain, so both are tried without domains (`alike`) and with domains that shift the scores of each label
(`shifted`). In both, thresholds come from some domains, and cells of (domain, label) in others are judged: the share
with a recall of 0.9 or more is what `order_thresholds` promises. TorchCP is used as it comes, at a
level of 0.9, and then with the lowest level at which as many cells are at target as with ours, which no user could
know beforehand. Last, 20 rows of each label are one population and one domain for us: what clusters are made for.
"""

from __future__ import annotations

import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from benchmarks.measure import timed
from benchmarks.peers import missing_torchcp, negative_scores
from domaincover.calibration.rules import order_thresholds
from domaincover.criteria import covers, sets_from_scores
from domaincover.thresholds import cell_thresholds

TARGET, CONFIDENCE = 0.9, 0.9
N_LABELS, N_DOMAINS, ROWS_OF_LABEL = 100, 100, 20
LEVELS = np.arange(0.9, 0.9999, 0.002).tolist()
SIZES_OF_CELLS = {"alike": 5, "shifted, 5 rows a cell": 5, "shifted, 40 rows a cell": 40}
Thresholds = NDArray[np.float32]


class Scores(NamedTuple):
    """Scores, labels and domains of some rows."""

    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    domains: NDArray[np.int64]


def main() -> None:
    """Compare, and print a table."""
    if missing := missing_torchcp():
        sys.exit(missing)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DeprecationWarning)
    found = [row for name, n_rows in SIZES_OF_CELLS.items() for row in compared(name, n_rows)]
    found += one_population()
    print(pd.DataFrame(found).to_string(index=False, float_format=lambda number: f"{number:.3f}"))


def compared(name: str, n_rows: int) -> list[dict[str, object]]:
    """Return a line for each way to set thresholds."""
    spread = 0.0 if name == "alike" else 0.7
    calibration, test = made_up(spread, n_rows, 1), made_up(spread, 40, 2)
    our_time, ours = timed(of_ours, calibration, repeats=3)
    lines = [judged(name, "ours, for 90 % of new domains", our_time, ours, test)]
    for kind, make in {"class-conditional": class_conditional, "clustered": clustered}.items():
        took, thresholds = timed(make, calibration, 1 - TARGET)
        lines.append(judged(name, f"TorchCP {kind}, level 0.9", took, thresholds, test))
        lines.append(raised(name, kind, make, calibration, test, float(lines[0]["cells at target"])))
    return lines


def one_population() -> list[dict[str, object]]:
    """Return a line for each way to set thresholds from few rows that are all alike; clusters as TorchCP chooses."""
    scores, labels, domains = made_up(0.0, 1, 1)
    few = domains < ROWS_OF_LABEL
    calibration, test = Scores(scores[few], labels[few], np.zeros(few.sum(), dtype=np.int64)), made_up(0.0, 40, 2)
    ways: dict[str, Callable[[], Thresholds]] = {
        "ours, as one domain": lambda: cell_thresholds(*calibration, TARGET)[0],
        "TorchCP class-conditional, level 0.9": lambda: class_conditional(calibration, 1 - TARGET),
        "TorchCP clustered, level 0.9": lambda: clustered(calibration, 1 - TARGET, "auto", "auto"),
    }
    name = f"alike, {ROWS_OF_LABEL} rows a label"
    return [judged(name, what, *timed(way, repeats=3), test) for what, way in ways.items()]


def made_up(spread: float, n_rows: int, seed: int) -> Scores:
    """Return scores of rows of every cell; each domain moves what a label scores on its own rows."""
    rng = np.random.default_rng(seed)
    ease = np.random.default_rng(0).choice([2.0, 3.0, 4.0, 5.0], N_LABELS)  # of labels, the same with every seed
    domains, labels = (np.repeat(each.reshape(-1), n_rows) for each in np.indices((N_DOMAINS, N_LABELS)))
    scores = rng.standard_normal((len(labels), N_LABELS), dtype=np.float32)
    moved = ease + rng.normal(0, spread, (N_DOMAINS, N_LABELS))
    scores[np.arange(len(labels)), labels] += moved[domains, labels].astype(np.float32)
    return Scores(scores, labels, domains)


def of_ours(calibration: Scores) -> Thresholds:
    """Return the thresholds that promise a label's recall in nine of ten new domains."""
    return order_thresholds(*calibration, TARGET, CONFIDENCE).astype(np.float32)


def class_conditional(calibration: Scores, alpha: float) -> Thresholds:
    """Return TorchCP's threshold of each label."""
    from torchcp.classification.predictor import ClassConditionalPredictor

    return _thresholds(ClassConditionalPredictor(negative_scores), calibration, alpha)


def clustered(calibration: Scores, alpha: float, share: Any = 0.3, n_clusters: Any = 4) -> Thresholds:
    """Return TorchCP's threshold of each label's cluster; four clusters are how the data were made.

    The number that it chooses grows with the rows; if it reaches that of the labels, every set has every label.
    """
    from torchcp.classification.predictor import ClusteredPredictor

    with torch.random.fork_rng(devices=[]):
        predictor = ClusteredPredictor(negative_scores, ratio_clustering=share, num_clusters=n_clusters)
        return _thresholds(predictor, calibration, alpha)


def _thresholds(predictor: Any, calibration: Scores, alpha: float) -> Thresholds:
    scores, labels = map(torch.from_numpy, calibration[:2])
    predictor.calculate_threshold(scores, labels, alpha)
    return -predictor.q_hat.numpy()


def raised(
    name: str, kind: str, make: Callable[..., Thresholds], calibration: Scores, test: Scores, share: float
) -> dict[str, object]:
    """Return the line of the lowest level at which as many cells are at target."""

    def line(level: float) -> dict[str, object]:
        took, thresholds = timed(make, calibration, 1 - level)
        return judged(name, f"TorchCP {kind}, level {level:.4f}", took, thresholds, test)

    place = bisect_left(LEVELS, share, key=lambda level: line(level)["cells at target"])
    return line(LEVELS[min(place, len(LEVELS) - 1)])


def judged(name: str, what: str, took: float, thresholds: Thresholds, test: Scores) -> dict[str, object]:
    """Return recall and size of sets in domains that set no threshold."""
    sets = sets_from_scores(test.scores, thresholds)
    recall = covers(sets, test.labels).reshape(N_DOMAINS, N_LABELS, -1).mean(axis=2)
    by_label = recall.mean(axis=0)  # cells have as many rows
    return {
        "data": name,
        "thresholds": what,
        "seconds": took,
        "cells at target": (recall >= TARGET).mean(),
        "mean recall": by_label.mean(),
        "least label's recall": by_label.min(),
        "size": sets.sum(axis=1).mean(),
    }


if __name__ == "__main__":
    main()
