"""Rules by which held-out domains set SET-COVER's thresholds, on the margins that `benchmarks.domain_scores` wrote.

    python -m benchmarks.held_out_thresholds FOLDER

Each fold of domains is held out of one network, as in a fit of `SetCoverClassifier`: its margins set the thresholds,
which are then applied to the same network's margins in unseen domains. For each data set: the median over unseen
domains of the mean set size, the share of unseen domains at target, both means over splits and folds, and the largest
of these sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.adaptive_thresholds import MIN_CELL_SIZE, TARGET, figures, geometric_mean
from domaincover.calibration.adaptation_fit import ScoredRows
from domaincover.calibration.rules import cell_thresholds
from domaincover.criteria import criterion_for
from domaincover.data.dataset import DomainDataset
from domaincover.estimators.stacked_fit import SmallestSets

Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def main() -> None:
    """Compare, and print a table."""
    rows = [row for path in sorted(Path(sys.argv[1]).glob("*.set-cover.*.npz")) for row in compared(path)]
    by_set = pd.DataFrame(rows).groupby(["data", "rule"], sort=False)
    found = by_set.agg(size=("size", "mean"), share=("share", "mean"), largest=("size", "max"))
    print(found.unstack(0).round(2).T.to_string())
    over_sets = {"size": geometric_mean, "share": ["mean", "min"], "largest": geometric_mean}
    print(found.groupby("rule", sort=False).agg(over_sets).round(3).to_string())


def compared(path: Path) -> list[dict[str, object]]:
    """Return the figures of every rule with each fold of a split."""
    with np.load(path) as stored:
        held = {name: stored[name] for name in stored.files}
    rows = []
    for fold in range(len(held["unseen"])):
        own = held["fold"] == fold
        domains = np.unique(held["domains"][own], return_inverse=True)[1]
        margins = held["unseen"][fold].astype(float)
        unseen = ScoredRows(margins, margins, held["unseen_labels"], held["unseen_domains"])
        for name, rule in RULES.items():
            thresholds = np.minimum(rule(held["calibration"][own], held["labels"][own], domains), 0)
            at = figures(unseen, np.tile(thresholds, (unseen.n_domains, 1)))
            rows.append({"data": path.stem.split(".")[0], "rule": name} | at)
    return rows


def one_threshold(scores: np.ndarray, labels: np.ndarray, domains: np.ndarray) -> np.ndarray:
    """Return one threshold for all labels, at which every cell is at target."""
    return np.full(scores.shape[1], cell_thresholds(scores, labels, domains, TARGET, 10).min())


def pooled_rows(scores: np.ndarray, labels: np.ndarray, domains: np.ndarray) -> np.ndarray:
    """Return a threshold for each label, at which its rows are at target over all domains."""
    return cell_thresholds(scores, labels, np.zeros_like(domains), TARGET)[0]


def lowest_of_each_label(scores: np.ndarray, labels: np.ndarray, domains: np.ndarray) -> np.ndarray:
    """Return a threshold for each label, at which every cell of the label is at target."""
    return cell_thresholds(scores, labels, domains, TARGET, MIN_CELL_SIZE).min(axis=0)


def chosen(scores: np.ndarray, labels: np.ndarray, domains: np.ndarray) -> np.ndarray:
    """Return the thresholds of `SetCoverClassifier`."""
    held_out = DomainDataset.from_arrays(scores, labels, domains)
    return SmallestSets(held_out, criterion_for(TARGET, range(scores.shape[1])), MIN_CELL_SIZE)._thresholds(scores)


RULES: dict[str, Rule] = {
    "one threshold": one_threshold,
    "pooled rows": pooled_rows,
    "lowest of each label": lowest_of_each_label,
    "pooled rows and one offset": chosen,
}


if __name__ == "__main__":
    main()
