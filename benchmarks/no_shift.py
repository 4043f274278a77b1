"""A control: domains drawn at random for the rows of a real table, so that no domain differs from another.

    python -m benchmarks.no_shift TABLE.parquet [--domains 40] [--splits 5]

Sets of SET-COVER and of the robust rule are compared with the pooled rule's around the same network at equal recall:
each label's pooled threshold is set where its recall on the unseen domains is that of the method compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.real_tables import NOT_FEATURES, TARGET
from domaincover import ERMClassifier
from domaincover.criteria import covers
from domaincover.estimators.recipes import make_classifier


def main() -> None:
    """Run, and print means over splits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--domains", type=int, default=40)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    frame = pd.read_parquet(options.table)
    rows = [row for split in range(options.splits) for row in run_split(frame, options.domains, split)]
    print(pd.DataFrame(rows).groupby("method", sort=False).agg(["mean", "std"]).round(3).to_string())


def run_split(frame: pd.DataFrame, n_domains: int, split: int) -> list[dict[str, object]]:
    """Compare the sets of each method with pooled ones of the same recall, label by label."""
    X = frame.drop(columns=NOT_FEATURES, errors="ignore")
    y = frame["label"].to_numpy()
    labels = np.unique(y, return_inverse=True)[1]
    domains = np.random.default_rng(split).integers(n_domains, size=len(frame))
    train = domains >= n_domains // 4
    network = ERMClassifier(random_state=split).fit(X[train], y[train], domains=domains[train])
    scores = network.label_scores(X[~train])
    rows = []
    for method in ("set-cover", "robust", "pooled"):
        model = make_classifier(method, "mlp", TARGET, random_state=split)  # type: ignore[arg-type]
        model.fit(X[train], y[train], domains=domains[train])
        sets = model.predict_set(X[~train])
        covered = covers(sets, labels[~train])
        recall = np.array([covered[labels[~train] == label].mean() for label in range(scores.shape[1])])
        own = [scores[labels[~train] == label, label] for label in range(scores.shape[1])]
        thresholds = np.array([np.quantile(s, 1 - r) for s, r in zip(own, recall, strict=True)])
        size, pooled_size = sets.sum(axis=1).mean(), (scores >= thresholds).sum(axis=1).mean()
        rows.append(
            {
                "method": method,
                "recall": recall.min(),
                "size": size,
                "pooled size, equal recall": pooled_size,
                "ratio": size / pooled_size,
            }
        )
    return rows


if __name__ == "__main__":
    main()
