"""Adapted thresholds against class-conditional split conformal sets, on the scores of `benchmarks.domain_scores`.

    python -m benchmarks.class_conditional FOLDER [--out class_conditional.csv]

Class-conditional sets, as MAPIE and crepes make them, have one threshold per label: the ⌈level · (n + 1)⌉-th highest of
the n out-of-fold scores of its rows. At a level of 0.9 few unseen domains are at target, so the level is raised until
as many are as with the adapted thresholds in question, which no user could do. The median set size over unseen domains
is compared, mean over splits, and then its geometric mean over data sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.adaptive_thresholds import (
    CONFIDENCE,
    MIN_CELL_SIZE,
    TARGET,
    figures,
    geometric_mean,
    scored,
    together,
)
from domaincover.calibration.adaptation_fit import ScoredRows, fit_adaptive_thresholds

LOWEST = -1e6  # scores are log-odds
SINGLE = ("boosting", "erm", "set-cover")
SCORERS = (*SINGLE, "erm+boosting", "set-cover+erm+boosting")


def main() -> None:
    """Compare, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = pd.DataFrame(compared(options.folder))
    if options.out:
        found.to_csv(options.out, index=False)
    means = found.groupby(["data", "scorer", "peer"], sort=False).mean(numeric_only=True).drop(columns="split")
    print("adapted size / share, and the class-conditional size at that share, same scorer")
    same = means[means.index.get_level_values("scorer") == means.index.get_level_values("peer")].droplevel("peer")
    print(same[["size", "share", "peer_size"]].unstack().round(2).to_string())
    print((same.groupby("scorer", sort=False)[["size", "peer_size"]].agg(geometric_mean)).round(3).to_string())
    rows = [best(each) | {"data": name} for name, each in means.groupby(level="data", sort=False)]
    table = pd.DataFrame(rows).set_index("data")
    print(table.round(3).to_string())
    sizes = table[["size", "peer_size"]].agg(geometric_mean)
    print(f"best of each: {sizes['size']:.3f} adapted, {sizes['peer_size']:.3f} class-conditional at the same share:")
    print(f"{1 - sizes['size'] / sizes['peer_size']:.1%} smaller")


def compared(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield for every data set and split each scorer's adapted sets, and class-conditional ones at the same share."""
    for path in sorted(folder.glob(f"*.{SINGLE[0]}.*.npz")):
        name, _, split = path.stem.rsplit(".", 2)
        parts = {each: scored(folder / f"{name}.{each}.{split}.npz") for each in SINGLE}
        by_scorer = {each: together([parts[part] for part in each.split("+")]) for each in SCORERS}
        for scorer, (calibration, unseen) in by_scorer.items():
            rng = np.random.default_rng(int(split))
            rule = fit_adaptive_thresholds(calibration, TARGET, CONFIDENCE, min_cell_size=MIN_CELL_SIZE, rng=rng)
            adapted = rule.of_domains(unseen.scores, unseen.probabilities, unseen.domains, unseen.n_domains)
            own = figures(unseen, adapted)
            for peer in dict.fromkeys((scorer, *SINGLE)):
                moved = at_share(*by_scorer[peer], own["share"])
                which = {"data": name, "split": int(split), "scorer": scorer, "peer": peer}
                yield which | own | {f"peer_{key}": value for key, value in moved.items()}


def at_share(calibration: ScoredRows, unseen: ScoredRows, share: float) -> dict[str, float]:
    """Return the figures of class-conditional sets at the lowest level that gives the share, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        level = (low + high) / 2
        low, high = (low, level) if _figures_at(calibration, unseen, level)["share"] >= share else (level, high)
    return _figures_at(calibration, unseen, high) | {"level": high}


def _figures_at(calibration: ScoredRows, unseen: ScoredRows, level: float) -> dict[str, float]:
    return figures(unseen, np.tile(class_thresholds(calibration, level), (unseen.n_domains, 1)))


def class_thresholds(calibration: ScoredRows, level: float) -> np.ndarray:
    """Return each label's threshold by split conformal prediction; below all scores where rows are too few."""
    thresholds = np.full(calibration.scores.shape[1], LOWEST)
    for label in range(len(thresholds)):
        own = np.sort(calibration.scores[calibration.labels == label, label])[::-1]
        rank = int(np.ceil(level * (len(own) + 1) - 1e-9))
        if 1 <= rank <= len(own):
            thresholds[label] = own[rank - 1]
    return thresholds


def best(of_data: pd.DataFrame) -> dict[str, Any]:
    """Return the smallest adapted sets of a data set, and the smallest class-conditional ones of one scorer there."""
    scorer = of_data["size"].groupby(level="scorer").first().idxmin()
    own = of_data.xs(scorer, level="scorer").droplevel("data")
    peers = own.loc[list(SINGLE), "peer_size"]
    first = own.iloc[0]
    return {
        "scorer": scorer,
        "size": first["size"],
        "share": first["share"],
        "peer": peers.idxmin(),
        "peer_size": peers.min(),
    }


if __name__ == "__main__":
    main()
