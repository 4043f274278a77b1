"""A few labels of a new domain, on the scores and features that `benchmarks.domain_scores` wrote, beside rivals.

    python -m benchmarks.few_labels FOLDER [--scorer boosting] [--labels 30,100] [--choose uncertain] [--rivals]

Out-of-fold scores calibrate and the mean of the fold models predicts. In each unseen domain, half of the rows is
offered for labels and the others are counted. For each data set: the median over unseen domains of the mean set size,
and the share of them at target; means over splits and draws. Rivals get random rows, as they were meant to:

- own: each label's threshold is the quantile of its k own labels alone (all sets hold it where these are too few);
- pooled: of the calibration rows and the k rows together;
- few-shot: the quantile of the k rows' scores, lowered by the order statistic of how far calibration domains needed it
  lowered (Fisch and others 2021, for the recall of every label);
- vector: the same learner as ours with the log-probabilities as the only features.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.adaptive_thresholds import CONFIDENCE, MIN_CELL_SIZE, TARGET, figures, geometric_mean, scored
from domaincover.calibration.adaptation import domain_residuals, order_statistic
from domaincover.calibration.adaptation_fit import Promise, ScoredRows, fit_adaptive_thresholds
from domaincover.calibration.few_labels import (
    MOST_POOL,
    FeatureScale,
    Level,
    School,
    TaughtRows,
    fit_few_labels,
    log_probabilities,
    with_scores,
)
from domaincover.calibration.rules import cell_thresholds, pooled_row_thresholds


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scorer", default="boosting")
    parser.add_argument("--labels", default="30,100")
    parser.add_argument("--choose", default="uncertain")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--sets", default="")
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    numbers = [int(each) for each in options.labels.split(",")]
    wanted = set(filter(None, options.sets.split(",")))
    rows: list[dict[str, Any]] = []
    for path in sorted(options.folder.glob(f"*.{options.scorer}.*.npz")):
        name, _, split = path.stem.rsplit(".", 2)
        if (not wanted or name in wanted) and int(split) < options.splits:
            found = compared(path, numbers, options.choose, int(split), rivals=options.rivals)
            rows += [{"data": name, "split": int(split)} | row for row in found]
    table = pd.DataFrame(rows).groupby(["data", "method"], sort=False)[["size", "share"]].mean()
    print(
        table.unstack("method").swaplevel(axis=1).sort_index(axis=1, level=0, sort_remaining=False).round(3).to_string()
    )
    sizes, shares = table["size"].unstack("method"), table["share"].unstack("method")
    ratio = sizes.div(sizes["0"], axis=0).apply(geometric_mean)
    print(pd.DataFrame({"size / size without labels": ratio, "mean share": shares.mean()}).round(3).to_string())


def compared(path: Path, numbers: list[int], choose: Any, seed: int, *, rivals: bool) -> Iterator[dict[str, Any]]:
    """Yield the figures of one data set and split, by method and number of labels."""
    calibration, unseen = scored(path)
    with np.load(path) as stored:
        raw = [
            with_scores(stored[name], rows.probabilities)
            for name, rows in (("features", calibration), ("unseen_features", unseen))
        ]
    scale = FeatureScale.of(raw[0])
    features = [scale.standardised(each) for each in raw]
    rng = np.random.default_rng(seed)
    options: Any = {"min_cell_size": MIN_CELL_SIZE, "on_infeasible": "pool"}
    promise = Promise.of(calibration, TARGET, CONFIDENCE, **options)
    without = fit_adaptive_thresholds(
        calibration, TARGET, CONFIDENCE, recall_on="later rows", label_names=None, rng=rng, **options
    )

    def learner(name: str, features: list[np.ndarray], choose: Any) -> Iterator[dict[str, Any]]:
        old, new = (TaughtRows(*each) for each in zip((calibration, unseen), features, strict=True))
        found, *_ = fit_few_labels(promise, old, None, numbers, choose, rng)
        school = School.of(new, MOST_POOL, max(numbers), choose, rng)
        for number in (0, *numbers):
            level = max((each for each in found if each <= number), default=0)
            kept = found.get(level, Level(None, 0.0, without))
            pools = school.lessons[0].pool_sizes
            n_rows = kept.n_evidence(pools, np.minimum(number, pools))
            yield {"method": f"{name}{number}"} | mean_figures(
                (later, kept.thresholds.of_evidence(promise.evidence(batch, unseen.n_domains), n_rows))
                for batch, later in school.drawn(number, kept.prior_scale)
            )

    yield from learner("", features, choose)
    if not rivals:
        return
    in_logs = [log_probabilities(each.probabilities) for each in (calibration, unseen)]
    log_scale = FeatureScale.of(in_logs[0])
    yield from (
        row
        for row in learner("vector ", [log_scale.standardised(each) for each in in_logs], "random")
        if row["method"] != "vector 0"
    )
    schools = [
        School.of(TaughtRows(rows, np.empty((len(rows.labels), 0))), MOST_POOL, max(numbers), "random", rng)
        for rows in (calibration, unseen)
    ]
    for number in numbers:
        for name, rule in (("own", own_thresholds), ("pooled", pooled_thresholds), ("few-shot", few_shot_thresholds)):
            yield {"method": f"{name} {number}"} | mean_figures(rule(calibration, *schools, number))


def mean_figures(draws: Any) -> dict[str, float]:
    """Return the mean over draws of later rows and thresholds by domain."""
    return {name: float(value) for name, value in pd.DataFrame([figures(*each) for each in draws]).mean().items()}


def labelled(school: School, number: int) -> Iterator[tuple[ScoredRows, ScoredRows]]:
    """Yield so many labelled rows of every domain, and the later rows."""
    rows = school.taught.rows
    for lesson in school.lessons:
        chosen = lesson.order[:, :number]
        yield rows.of(chosen[chosen >= 0]), rows.of(~lesson.pool)


def own_thresholds(calibration: ScoredRows, _: School, school: School, number: int) -> Iterator[Any]:
    """Yield thresholds from the labels of each domain alone."""
    n_labels = calibration.scores.shape[1]
    for rows, later in labelled(school, number):
        cells = rows.domains * n_labels + rows.labels
        own = rows.scores[np.arange(len(cells)), rows.labels]
        found = pooled_row_thresholds(own, cells, school.taught.rows.n_domains * n_labels, TARGET)
        yield later, found.reshape(-1, n_labels)


def pooled_thresholds(calibration: ScoredRows, _: School, school: School, number: int) -> Iterator[Any]:
    """Yield thresholds from all calibration rows and the labels of each domain together."""
    n_labels = calibration.scores.shape[1]
    seen = calibration.scores[np.arange(len(calibration.labels)), calibration.labels]
    for rows, later in labelled(school, number):
        found = []
        for domain in range(school.taught.rows.n_domains):
            new = rows.of(rows.domains == domain)
            own = np.concatenate([seen, new.scores[np.arange(len(new.labels)), new.labels]])
            found.append(pooled_row_thresholds(own, np.concatenate([calibration.labels, new.labels]), n_labels, TARGET))
        yield later, np.array(found)


def few_shot_thresholds(_: ScoredRows, known: School, school: School, number: int) -> Iterator[Any]:
    """Yield quantiles of the labels of each domain, lowered as calibration domains needed it."""
    residuals = []
    for rows, later in labelled(known, number):
        asked = cell_thresholds(*later.labelled_scores, TARGET, MIN_CELL_SIZE)
        residuals.append(domain_residuals(asked, quantiles(rows, len(asked))[:, None], np.ones(asked.shape[1], bool)))
    offset = order_statistic(np.array(residuals), len(residuals[0]), CONFIDENCE)
    for rows, later in labelled(school, number):
        found = quantiles(rows, school.taught.rows.n_domains) + offset
        yield later, np.repeat(found[:, None], rows.scores.shape[1], axis=1)


def quantiles(rows: ScoredRows, n_domains: int) -> np.ndarray:
    """Return the score that the target share of each domain's labelled rows reach by their own label."""
    own = rows.scores[np.arange(len(rows.labels)), rows.labels]
    return np.array([np.quantile(own[rows.domains == domain], 1 - TARGET) for domain in range(n_domains)])


if __name__ == "__main__":
    main()
