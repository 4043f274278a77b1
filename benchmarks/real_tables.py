"""Every method with its defaults on a folder of Parquet tables that have columns `label` and `domain`.

    python -m benchmarks.real_tables FOLDER [--tables tv16,vehicles] [--methods erm,robust] [--splits 5] [--out F.csv]

Methods that end in -joint promise that a new domain is at target with probability 0.9; robust:irm puts robust
thresholds around IRM's network, as robust does around ERM's. Domains whose smallest cell has
fewer than `--min-cell-size` rows are left out first, so that recall can be measured.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from domaincover.data.dataset import draw_domains
from domaincover.estimators.calibrated_classifiers import ConformalSetClassifier
from domaincover.estimators.recipes import make_classifier
from domaincover.evaluation import domain_report
from domaincover.options import DomainPenalty

METHODS = [
    ("set-cover", "mlp"),
    ("robust", "mlp"),
    ("pooled", "mlp"),
    ("erm", "mlp"),
    ("robust", "boosting"),
    ("pooled", "boosting"),
    ("erm", "boosting"),
    ("set-cover-joint", "mlp"),
    ("erm-joint", "mlp"),
    ("erm-joint", "boosting"),
    *((name, "mlp") for name in get_args(DomainPenalty)),
    *((f"robust:{name}", "mlp") for name in get_args(DomainPenalty)),
]
CONFIDENCE = 0.9
NOT_FEATURES = ["label", "domain", "alt_domain", "station", "activity"]
TARGET = 0.9


def main() -> None:
    """Run, print means over splits, write every number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", default="")
    parser.add_argument("--methods", default="set-cover,robust,pooled,erm")
    parser.add_argument("--bases", default="mlp,boosting")
    parser.add_argument("--rows-per-domain", type=int, default=10**9)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--hold-out-domains", type=float, default=0.25)
    parser.add_argument("--min-cell-size", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("real_tables.csv"))
    options = parser.parse_args()
    rows = []
    for path in sorted(options.folder.glob("*.parquet")):
        if (options.tables and path.stem not in options.tables.split(",")) or "text" in pd.read_parquet(path).columns:
            continue
        frame = usable(pd.read_parquet(path), options.min_cell_size)
        frame = frame.sample(frac=1, random_state=0).groupby("domain").head(options.rows_per_domain)
        frame = frame.sort_index().reset_index(drop=True)
        for split in range(options.splits):
            rows += [{"table": path.stem, "split": split} | row for row in run_split(frame, split, options)]
            print(path.stem, split, file=sys.stderr, flush=True)
    results = pd.DataFrame(rows)
    results.to_csv(options.out, index=False)
    keys = ["table", "method", "base"]
    print(results.groupby(keys, sort=False).mean(numeric_only=True).drop(columns="split").round(3).to_string())


def usable(frame: pd.DataFrame, min_cell_size: int) -> pd.DataFrame:
    """Keep the domains in which every label has enough rows, with a lower bar where too few would be left."""
    counts = frame.groupby(["domain", "label"]).size().unstack(fill_value=0)
    for bar in (min_cell_size, 30, 1):
        kept = counts.index[(counts >= bar).all(axis=1)]
        if len(kept) >= 12:
            break
    return frame[frame["domain"].isin(kept)].reset_index(drop=True)


def run_split(frame: pd.DataFrame, split: int, options: Any) -> list[dict[str, Any]]:
    """Fit every method on the same domains and judge it on the same others."""
    X, labels = frame.drop(columns=NOT_FEATURES, errors="ignore"), frame["label"].to_numpy()
    domains, names = pd.factorize(frame["domain"], sort=True)
    n_unseen = round(options.hold_out_domains * len(names))
    drawn = draw_domains(domains, len(names) - n_unseen, n_unseen, np.random.default_rng(split))
    train, unseen = (np.isin(domains, codes) for codes in drawn)
    rows, scored = [], {}
    for method, base in METHODS:
        if base not in options.bases.split(",") or method not in options.methods.split(","):
            continue
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain, promises = method.removesuffix("-joint"), method.endswith("-joint")
            promise = {"domain_confidence": CONFIDENCE, "on_infeasible": "widen"} if promises else {}
            rule, _, inner = plain.partition(":")
            model = make_classifier(inner or rule, base, TARGET, random_state=split, **promise)
            if inner:
                model = ConformalSetClassifier(model, rule, target_recall=TARGET, random_state=split)
            model.fit(X[train], labels[train], domains=domains[train])
        seconds = time.perf_counter() - started
        report = model.domain_report(X[unseen], labels[unseen], domains[unseen], min_cell_size=20)
        scored[method, base] = (model.label_scores(X[unseen]) - getattr(model, "thresholds_", 0), report)
        rows.append({"method": method, "base": base} | figures(report) | {"seconds": seconds})
    codes = np.unique(labels, return_inverse=True)[1]
    for row in rows:
        if row["method"] in ("set-cover", "robust") and ("robust", "mlp") in scored and row["base"] == "mlp":
            robust = scored["robust", "mlp"][1].summary(TARGET).share_at_target
            scores = scored[row["method"], row["base"]][0]
            row["size_at_robust_share"] = size_at_share(scores, codes[unseen], domains[unseen], robust)
    return rows


def figures(report: Any) -> dict[str, float]:
    """Return the numbers of the log."""
    summary = report.summary(TARGET)
    return {
        "min_recall": summary.min_recall,
        "p10": summary.min_recall_p10,
        "size": summary.set_size,
        "share": summary.share_at_target,
        "n_unseen": summary.n_domains,
        "share_by_noise": summary.share_by_noise,
    }


def size_at_share(scores: np.ndarray, labels: np.ndarray, domains: np.ndarray, share: float) -> float:
    """Return the median size once all thresholds are moved alike until the share of unseen domains is at `share`.

    No user could do this, since it looks at the answers; it compares two scores at the same safety.
    """
    codes = np.unique(domains, return_inverse=True)[1]
    names = tuple(range(codes.max() + 1))
    low, high = -50.0, 50.0
    for _ in range(40):
        middle = (low + high) / 2
        report = domain_report(scores >= middle, labels, codes, tuple(range(scores.shape[1])), names)
        low, high = (middle, high) if report.summary(TARGET).share_at_target >= share else (low, middle)
    report = domain_report(scores >= low, labels, codes, tuple(range(scores.shape[1])), names)
    return float(np.median(report.set_size))


if __name__ == "__main__":
    main()
