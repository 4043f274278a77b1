"""Fixed thresholds against adapted ones on the scores that `benchmarks.domain_scores` wrote.

    python -m benchmarks.adaptive_thresholds FOLDER [--scorers boosting,erm,set-cover,erm+boosting] [--rows 30,100,all]

Out-of-fold scores calibrate and the mean of the fold models predicts. For each data set: the median over unseen domains
of the mean set size, the share of unseen domains at target, and the size once all thresholds are moved until nine in
ten unseen domains are at target, which no user could do; means over splits. Rows that give the evidence are the first
of a random order; recall is counted on them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincover.calibration.adaptation import AdaptiveThresholds, self_calibrated_thresholds
from domaincover.calibration.adaptation_fit import ScoredRows, fit_adaptive_thresholds, random_ranks
from domaincover.calibration.links import fit_link, log_odds, mean_probabilities
from domaincover.calibration.rules import cell_thresholds

TARGET, CONFIDENCE, SHARE = 0.9, 0.9, 0.9
MIN_CELL_SIZE = 20
MARGINS = ("set-cover",)


def main() -> None:
    """Compare, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scorers", default="boosting,erm,set-cover,erm+boosting")
    parser.add_argument("--rows", default="30,100,300,all")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    numbers = [10**9 if each == "all" else int(each) for each in options.rows.split(",")]
    found = pd.DataFrame(
        row for scorer in options.scorers.split(",") for row in compared(options.folder, scorer, numbers)
    )
    if options.out:
        found.to_csv(options.out, index=False)
    by_set = found.groupby(["scorer", "thresholds", "data"], sort=False)[["size", "share", "size_at_share"]].mean()
    for scorer in options.scorers.split(","):
        print(f"\n{scorer}: size / share by data set")
        print(by_set.loc[scorer].unstack(0)[["size", "share"]].round(3).to_string())
    summary = by_set.groupby(level=[0, 1], sort=False).agg(
        {"size": geometric_mean, "share": ["mean", "min"], "size_at_share": geometric_mean}
    )
    print(summary.round(3).to_string())


def geometric_mean(values: Any) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(values).mean()))


def compared(folder: Path, scorer: str, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the figures of every data set and split, with fixed thresholds and those from so many rows."""
    for path in sorted(folder.glob(f"*.{scorer.split('+')[0]}.*.npz")):
        name, _, split = path.stem.rsplit(".", 2)
        parts = [folder / f"{name}.{each}.{split}.npz" for each in scorer.split("+")]
        if not all(part.exists() for part in parts):
            continue
        calibration, unseen = together([scored(part) for part in parts])
        rng = np.random.default_rng(int(split))
        rule = fit_adaptive_thresholds(calibration, TARGET, CONFIDENCE, min_cell_size=MIN_CELL_SIZE, rng=rng)
        place = random_ranks(unseen.domains, rng)
        which = {"scorer": scorer, "data": name, "split": int(split)}
        yield which | {"thresholds": "fixed"} | figures(unseen, np.tile(rule.fixed, (unseen.n_domains, 1)))
        for number in numbers:
            batch = unseen.of(place < number)
            adapted = domain_thresholds(rule, batch, unseen.n_domains)
            yield which | {"thresholds": "all" if number == 10**9 else str(number)} | figures(batch, adapted)


def domain_thresholds(rule: AdaptiveThresholds, rows: ScoredRows, n_domains: int) -> np.ndarray:
    """Return the thresholds of every domain, domains × labels, from its unlabelled rows."""
    evidence = self_calibrated_thresholds(rows.scores, rows.probabilities, rows.domains, TARGET, n_domains)
    return rule.of_evidence(evidence, np.bincount(rows.domains, minlength=n_domains))


def scored(path: Path) -> tuple[ScoredRows, ScoredRows]:
    """Return what calibrates, and what the mean of the fold models says of unseen domains."""
    with np.load(path) as stored:
        out_of_fold, unseen = stored["calibration"].astype(float), stored["unseen"].astype(float)
        codes = [stored[name] for name in ("labels", "domains", "unseen_labels", "unseen_domains")]
    if path.stem.rsplit(".", 2)[1] in MARGINS:
        link = fit_link(out_of_fold, codes[0])
        out_of_fold, unseen = link.log_probabilities(out_of_fold), [link.log_probabilities(each) for each in unseen]
    seen, mean = np.exp(out_of_fold), mean_probabilities(unseen)
    return ScoredRows(log_odds(seen), seen, *codes[:2]), ScoredRows(log_odds(mean), mean, *codes[2:])


def together(scorers: list[tuple[ScoredRows, ScoredRows]]) -> tuple[ScoredRows, ScoredRows]:
    """Return the mean of several scorers."""
    means = []
    for parts in zip(*scorers, strict=True):
        probabilities = mean_probabilities([np.log(part.probabilities) for part in parts])
        means.append(ScoredRows(log_odds(probabilities), probabilities, parts[0].labels, parts[0].domains))
    return means[0], means[1]


def figures(rows: ScoredRows, thresholds: np.ndarray) -> dict[str, float]:
    """Return size and share at target, and the size at the share that is asked for."""
    margins = rows.scores - thresholds[rows.domains]
    asked = cell_thresholds(margins, rows.labels, rows.domains, TARGET, MIN_CELL_SIZE).min(axis=1)
    counted = np.sort(asked[np.isfinite(asked) | (asked == -np.inf)])[::-1]
    if not len(counted):  # so few rows that no label counts
        return {"size": _median_size(margins >= 0, rows.domains), "share": np.nan, "size_at_share": np.nan}
    moved = counted[int(np.ceil(SHARE * len(counted))) - 1]
    return {
        "size": _median_size(margins >= 0, rows.domains),
        "share": float((counted >= 0).mean()),
        "size_at_share": _median_size(margins >= moved, rows.domains),
    }


def _median_size(sets: np.ndarray, domains: np.ndarray) -> float:
    return float(np.median(np.bincount(domains, sets.sum(axis=1)) / np.bincount(domains)))


if __name__ == "__main__":
    main()
