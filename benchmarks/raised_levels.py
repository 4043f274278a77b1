"""Class-conditional split conformal sets at a raised level beside promised sets, on the same unseen domains.

    python -m benchmarks.raised_levels [FOLDER] [--sets storms,tv16,…] [--levels 0.9,0.95,0.97] [--splits 5]
                                       [--rows-per-domain 300] [--unseen 0.25] [--out raised_levels.csv]

What a careful scikit-learn user does without this library: boosted trees, out-of-fold scores with whole domains left
out (`GroupKFold`), one threshold per label at a level, and, since the target is missed in many new domains, a higher
level. Beside it, `PromisedSetClassifier` around the same trees, with a domain confidence of 0.9. Domains at target,
the recall of the worst tenth of domains, and labels per set, all on unseen domains; mean over splits. FOLDER as in
`benchmarks.set_quality`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from benchmarks.class_conditional import class_thresholds
from benchmarks.set_quality import CONFIDENCE, MIN_CELL_SIZE, TARGET, Data, datasets, split_domains
from domaincover import domain_report
from domaincover.calibration.adaptation_fit import ScoredRows
from domaincover.estimators.recipes import make_classifier

FOLDS = 5


def main() -> None:
    """Run, print the table, write every number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sets", default="storms")
    parser.add_argument("--levels", default="0.9,0.95,0.97")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows-per-domain", type=int, default=300)
    parser.add_argument("--unseen", type=float, default=0.25)
    parser.add_argument("--out", type=Path, default=Path("raised_levels.csv"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    levels = [float(level) for level in options.levels.split(",")]
    rows = []
    for name, data in datasets(options.folder, options.rows_per_domain, set(options.sets.split(",")), MIN_CELL_SIZE):
        for split in range(options.splits):
            train, test = split_domains(data, split, options.unseen)
            found = [*of_levels(train, test, split, levels), *of_promise(train, test, split)]
            rows += [{"data": name, "split": split} | row for row in found]
            print(name, split, file=sys.stderr, flush=True)
    results = pd.DataFrame(rows)
    results.to_csv(options.out, index=False)
    means = results.groupby(["data", "method"], sort=False).mean(numeric_only=True).drop(columns="split")
    print(means.round(3).to_string())


def of_levels(train: Data, test: Data, split: int, levels: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield the figures of one threshold per label at each level, from out-of-fold scores of all seen domains."""
    trees = make_classifier("erm", "boosting", TARGET, random_state=split).estimator
    out_of_fold = np.empty((len(train.labels), int(train.labels.max()) + 1))
    folds = GroupKFold(FOLDS, shuffle=True, random_state=split)
    for fitting, held_out in folds.split(train.labels, groups=train.domains):
        fitted = clone(trees).fit(train.X.iloc[fitting], train.labels[fitting])
        out_of_fold[held_out] = fitted.predict_proba(train.X.iloc[held_out])
    scores = clone(trees).fit(train.X, train.labels).predict_proba(test.X)
    calibration = ScoredRows(out_of_fold, out_of_fold, train.labels, train.domains)
    for level in levels:
        yield figures(f"one threshold per label at {level:g}", scores >= class_thresholds(calibration, level), test)


def of_promise(train: Data, test: Data, split: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of the promise around the same trees, with fixed and with adapted thresholds."""
    model: Any = make_classifier("erm", "boosting", TARGET, domain_confidence=CONFIDENCE, random_state=split)
    model.set_params(min_cell_size=MIN_CELL_SIZE, on_infeasible="pool")
    model.fit(train.X, train.labels, domains=train.domains)
    yield figures("promised 0.9, fixed", model.predict_set(test.X), test)
    yield figures("promised 0.9, adapted", model.predict_set(test.X, domains=test.domains), test)


def figures(method: str, sets: np.ndarray, test: Data) -> dict[str, Any]:
    """Return the share of unseen domains at target, their lowest tenth, and how large sets are."""
    domains = np.unique(test.domains, return_inverse=True)[1]
    names = tuple(range(sets.shape[1])), tuple(range(int(domains.max()) + 1))
    summary = domain_report(sets, test.labels, domains, *names, min_cell_size=MIN_CELL_SIZE).summary(TARGET)
    return {
        "method": method,
        "share": summary.share_at_target,
        "p10": summary.min_recall_p10,
        "size": summary.set_size,
        "n_unseen": summary.n_domains,
    }


if __name__ == "__main__":
    main()
