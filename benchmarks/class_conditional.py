"""Adapted thresholds against class-conditional split conformal sets, on the scores of `benchmarks.domain_scores`.

    python -m benchmarks.class_conditional FOLDER [--out class_conditional.csv]

Class-conditional sets, as MAPIE and crepes make them, have one threshold per label: the ⌈level · (n + 1)⌉-th highest of
the n out-of-fold scores of its rows. At a level of 0.9 few unseen domains are at target, so the level is raised until
as many are as with the adapted thresholds in question, which no user could do. This is done in three ways: one level
for all splits of a data set (`one_level`), a level for every split (`each_split`), and both kinds of sets moved to nine
in ten unseen domains at target in every split (`both_moved`). The median set size over unseen domains is compared, mean
over splits, and then its geometric mean over data sets.
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
    SHARE,
    TARGET,
    domain_thresholds,
    figures,
    geometric_mean,
    scored,
    together,
)
from domaincover.calibration.adaptation_fit import ScoredRows, fit_adaptive_thresholds

LOWEST = -1e6  # scores are log-odds
SINGLE = ("boosting", "erm", "set-cover")
PEER = ("one_level", "each_split", "both_moved")
SCORERS = (*SINGLE, "erm+boosting", "set-cover+erm+boosting")


def main() -> None:
    """Compare, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = pd.DataFrame(row for name in names(options.folder) for row in compared(options.folder, name))
    if options.out:
        found.to_csv(options.out, index=False)
    found = found.set_index(["data", "scorer", "peer"])
    same = found[found.index.get_level_values("scorer") == found.index.get_level_values("peer")].droplevel("peer")
    print("same scorer")
    print(same.unstack().round(2).T.to_string())
    print(same.groupby("scorer", sort=False).agg(geometric_mean).round(3).T.to_string())
    table = pd.DataFrame([best(each) | {"data": name} for name, each in found.groupby("data", sort=False)])
    print("best scorer of each")
    print(table.set_index("data").round(3).to_string())
    sizes = table[["size", "moved", *PEER]].agg(geometric_mean)
    print(sizes.round(3).to_string())
    for own, peer in zip(("size", "size", "moved"), PEER, strict=True):
        print(f"{peer}: adapted sets are {1 - sizes[own] / sizes[peer]:.1%} smaller")


def names(folder: Path) -> list[str]:
    """Return the data sets."""
    return sorted({path.stem.rsplit(".", 2)[0] for path in folder.glob("*.npz")})


def compared(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Yield for each scorer the adapted sets of a data set, and class-conditional ones at the same share."""
    splits = [path.stem.rsplit(".", 1)[1] for path in sorted(folder.glob(f"{name}.{SINGLE[0]}.*.npz"))]
    parts = {each: [scored(folder / f"{name}.{each}.{split}.npz") for split in splits] for each in SINGLE}
    scorers = {
        each: [together(list(of_split)) for of_split in zip(*(parts[part] for part in each.split("+")), strict=True)]
        for each in SCORERS
    }
    for scorer, rows in scorers.items():
        own = pd.DataFrame([adapted(*each, int(split)) for each, split in zip(rows, splits, strict=True)])
        for peer in dict.fromkeys((scorer, *SINGLE)):
            pairs = scorers[peer]
            each_split = [at_share([pair], share) for pair, share in zip(pairs, own["share"], strict=True)]
            yield {
                "data": name,
                "scorer": scorer,
                "peer": peer,
                "size": own["size"].mean(),
                "share": own["share"].mean(),
                "moved": own["size_at_share"].mean(),
                "one_level": at_share(pairs, own["share"].mean()),
                "each_split": np.mean(each_split),
                "both_moved": np.mean([at_share([pair], SHARE) for pair in pairs]),
            }


def adapted(calibration: ScoredRows, unseen: ScoredRows, split: int) -> dict[str, float]:
    """Return the figures of adapted thresholds."""
    rng = np.random.default_rng(split)
    rule = fit_adaptive_thresholds(calibration, TARGET, CONFIDENCE, min_cell_size=MIN_CELL_SIZE, rng=rng)
    return figures(unseen, domain_thresholds(rule, unseen, unseen.n_domains))


def at_share(pairs: list[tuple[ScoredRows, ScoredRows]], share: float) -> float:
    """Return the mean size of class-conditional sets at the lowest level that gives the mean share, by bisection."""
    low, high, size = 0.5, 1.0, np.nan
    while high - low > 2e-4 or np.isnan(size):
        level = (low + high) / 2 if high - low > 2e-4 else high
        found = pd.DataFrame([_figures_at(*pair, level) for pair in pairs]).mean()
        if found["share"] >= share - 1e-9 or level == high:
            high, size = level, float(found["size"])
        else:
            low = level
    return size


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
    """Return the smallest adapted sets of a data set, and the smallest class-conditional ones around one scorer."""
    of_data = of_data.droplevel("data")
    scorer = of_data["size"].groupby(level="scorer").first().idxmin()
    own = of_data.loc[scorer]
    found = {
        "scorer": scorer,
        "size": own["size"].iloc[0],
        "share": own["share"].iloc[0],
        "moved": own["moved"].iloc[0],
    }
    return found | own.loc[list(SINGLE), list(PEER)].min().to_dict()


if __name__ == "__main__":
    main()
