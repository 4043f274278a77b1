"""Which method's sets are smallest at the same safety, on every data set at hand.

    python -m benchmarks.set_quality [FOLDER] [--splits 3] [--rows-per-domain 300] [--out set_quality.csv]

FOLDER holds Parquet tables with columns `label` and `domain`; beside them are the paper's synthetic data and what
`domaincover[data]` installs. A quarter of the domains is unseen. SET-COVER trains on the others with its defaults; ERM,
the same network, trains on three quarters of them, and the rest calibrates the four rules.

A method alone stands at its own place on the trade-off between share at target and size. For comparison, all its
thresholds are moved alike until nine in ten unseen domains are at target, and the labels per set are counted there (the
median over domains, mean over splits). No user could do this, since it looks at the answers.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.real_tables import NOT_FEATURES, usable
from domaincover import (
    ERMClassifier,
    GaussianDomains,
    SetCoverClassifier,
    cell_thresholds,
    domain_report,
    joint_thresholds,
    order_thresholds,
    pooled_thresholds,
    robust_thresholds,
)
from domaincover.calibration.scales import quantile_scale
from domaincover.data.splits import draw_domains
from domaincover.paper.packaged_data import INSTALLABLE

TARGET, SHARE, CONFIDENCE = 0.9, 0.9, 0.9
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
    parser.add_argument("--out", type=Path, default=Path("set_quality.csv"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name, data in datasets(options.folder, options.rows_per_domain):
        for split in range(options.splits):
            rows += [{"data": name, "split": split} | row for row in of_split(data, split)]
        print(name, file=sys.stderr, flush=True)
    found = pd.DataFrame(rows)
    found.to_csv(options.out, index=False)
    means = found.groupby(["data", "method"], sort=False).mean(numeric_only=True).drop(columns="split")
    print(means.round(3).unstack().to_string())


def datasets(folder: Path | None, rows_per_domain: int) -> Iterator[tuple[str, Data]]:
    """Yield the data sets by name."""
    for n_features in (10, 50):
        for covariance in ("shared", "random"):
            drawn = GaussianDomains.of_paper(n_features, covariance=covariance)
            sample = drawn.sample(33, rows_per_domain, np.random.default_rng(0))
            yield f"synthetic {n_features}-d, {covariance}", Data(sample.examples, sample.labels, sample.domains)
    for name, installable in INSTALLABLE.items():
        X, y, domains = installable.read()
        yield name, _table(X.assign(label=np.asarray(y), domain=np.asarray(domains)), rows_per_domain)
    for path in sorted(folder.glob("*.parquet")) if folder else ():
        frame = pd.read_parquet(path)
        if "text" not in frame and path.stem not in ("tv16", "nycflights13"):  # these are votes and flights again
            yield path.stem, _table(frame, rows_per_domain)


def _table(frame: pd.DataFrame, rows_per_domain: int) -> Data:
    frame = usable(frame.reset_index(drop=True), 100)
    frame = frame.sample(frac=1, random_state=0).groupby("domain").head(rows_per_domain).reset_index(drop=True)
    labels, domains = (pd.factorize(frame[name], sort=True)[0] for name in ("label", "domain"))
    return Data(_Frame(frame.drop(columns=NOT_FEATURES, errors="ignore")), labels, domains)


class _Frame:
    """A table of which rows are taken as of an array."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __getitem__(self, rows: np.ndarray) -> pd.DataFrame:
        return self._frame[rows]


def of_split(data: Data, split: int) -> Iterator[dict[str, Any]]:
    """Yield how each method does on the same unseen domains."""
    n_domains = int(data.domains.max()) + 1
    n_unseen = round(n_domains / 4)
    seen, unseen = draw_domains(data.domains, n_domains - n_unseen, n_unseen, np.random.default_rng(split))
    n_calibration = max(9, round(len(seen) / 4))  # as many as a confidence of 0.9 takes
    train, test = data.of(seen), data.of(unseen)
    model = SetCoverClassifier(TARGET, random_state=split).fit(*train[:2], domains=train.domains)
    yield figures("SET-COVER", model.label_scores(test.X) - model.thresholds_, test)
    calibration, own = data.of(seen[:n_calibration]), data.of(seen[n_calibration:])
    erm = ERMClassifier(random_state=split).fit(*own[:2], domains=own.domains)
    scores = [np.log(np.maximum(erm.predict_proba(part.X), 1e-30)) for part in (own, calibration, test)]
    for name, rule in (("robust", robust_thresholds), ("pooled", pooled_thresholds)):
        thresholds = rule(scores[1], *calibration[1:], TARGET, MIN_CELL_SIZE)
        yield figures(name, scores[2] - thresholds, test)
    promise: dict[str, Any] = {"min_cell_size": MIN_CELL_SIZE, "on_infeasible": "widen"}
    thresholds = order_thresholds(scores[1], *calibration[1:], TARGET, CONFIDENCE, **promise)
    yield figures("order", scores[2] - thresholds, test)
    scale = quantile_scale(scores[0], own.labels, TARGET)
    levels = [(part - scale.base) / scale.unit for part in scores[1:]]
    thresholds = joint_thresholds(levels[0], *calibration[1:], TARGET, CONFIDENCE, **promise)
    yield figures("joint", levels[1] - thresholds, test)


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
