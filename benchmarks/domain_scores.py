"""Scores of several scorers on every data set at hand, computed once: out-of-fold, and in unseen domains.

    python -m benchmarks.domain_scores FOLDER OUT [--scorers boosting,erm,set-cover] [--splits 5] [--sets tv16,…]

FOLDER holds Parquet tables with columns `label` and `domain`, and .npz files with `X`, `label` and `domain`. Half of
the domains is unseen. The other half is split into five folds of domains; OUT gets one .npz file for each data set,
scorer and split with the out-of-fold scores, the scores of the five fold models in the unseen domains, those of one
more model that is fitted on all five folds, and the encoded columns of all these rows. `benchmarks.adaptive_thresholds`
and `benchmarks.few_labels` compare rules on them.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA

from benchmarks.real_tables import NOT_FEATURES
from domaincover import ERMClassifier, SetCoverClassifier, TableEncoder
from domaincover.estimators.recipes import make_classifier
from domaincover.estimators.scorer_fits import fit_on_each
from domaincover.predictors.calibrated_predictors import scores_for

ROWS_PER_DOMAIN, N_FOLDS = 400, 5
FEWEST_DOMAINS = 20  # half of them calibrate, and a confidence of 0.9 takes nine
SMALLEST_CELLS = (100, 30, 20, 10)
LOWEST_PROBABILITY = 1e-12


def main() -> None:
    """Score every data set by every scorer, split by split, skipping what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scorers", default="boosting,erm,set-cover")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", default="")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    data = dict(datasets(options.folder, set(filter(None, options.sets.split(",")))))
    for scorer in options.scorers.split(","):
        for split in range(options.splits):
            for name, frame in data.items():
                path = options.out / f"{name}.{scorer}.{split}.npz"
                if path.exists():
                    continue
                started = time.perf_counter()
                np.savez(path, **scores_of_split(frame, scorer, split))
                print(path.stem, f"{time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


def datasets(folder: Path, wanted: set[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield tables by name; images as features of theirs; nothing with too few domains."""
    for path in sorted([*folder.glob("*.parquet"), *folder.glob("*.npz")]):
        if wanted and path.stem not in wanted:
            continue
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else image_features(path)
        frame = usable(frame)
        if "text" in frame or frame["domain"].nunique() < FEWEST_DOMAINS - 1:
            continue
        sample = frame.sample(frac=1, random_state=0).groupby("domain").head(ROWS_PER_DOMAIN).reset_index(drop=True)
        print(path.stem, sample.shape, sample["domain"].nunique(), "domains", file=sys.stderr, flush=True)
        yield path.stem, sample


def usable(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the domains in which every label has enough rows, with a lower bar where too few would be left."""
    counts = frame.groupby(["domain", "label"], observed=True).size().unstack(fill_value=0)
    for bar in SMALLEST_CELLS:
        kept = counts.index[(counts >= bar).all(axis=1)]
        if len(kept) >= FEWEST_DOMAINS:
            break
    return frame[frame["domain"].isin(kept)].reset_index(drop=True)


def image_features(path: Path) -> pd.DataFrame:
    """Return 100 principal components of spectrograms as they are, and of patch responses for photographs."""
    with np.load(path) as stored:
        images, labels, domains = (stored[name] for name in ("X", "label", "domain"))
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    features = patch_responses(images.astype(np.float32) / 255) if path.stem == "malaria" else pixels
    components = PCA(100, svd_solver="randomized", random_state=0).fit_transform(features)
    return pd.DataFrame(components, columns=[f"c{k}" for k in range(100)]).assign(label=labels, domain=domains)


def patch_responses(images: np.ndarray, width: int = 7, n_patterns: int = 128) -> np.ndarray:
    """Return maximum and mean response of patterns learnt without labels from patches (Coates and Ng, 2011)."""
    rng = np.random.default_rng(0)
    windows = np.lib.stride_tricks.sliding_window_view(images, (width, width), axis=(1, 2))[:, ::2, ::2]
    rows, down, across = (rng.integers(n, size=100_000) for n in windows.shape[:3])
    seen = windows[rows, down, across].reshape(-1, width * width)
    spread = float(np.median(seen.std(axis=1))) + 1e-3

    def local(patches: np.ndarray) -> np.ndarray:
        return (patches - patches.mean(axis=1, keepdims=True)) / (patches.std(axis=1, keepdims=True) + spread)

    patterns = (
        MiniBatchKMeans(n_patterns, random_state=0, n_init=1).fit(local(seen)).cluster_centers_.astype(np.float32)
    )
    found = []
    for start in range(0, len(images), 500):
        part = np.ascontiguousarray(windows[start : start + 500]).reshape(-1, width * width)
        response = np.maximum(local(part) @ patterns.T, 0).reshape(-1, windows.shape[1] * windows.shape[2], n_patterns)
        dark = images[start : start + 500].reshape(len(response), -1)
        found.append(
            np.hstack([response.max(axis=1), response.mean(axis=1), np.quantile(dark, [0, 0.01, 0.05, 0.5], axis=1).T])
        )
    features = np.vstack(found)
    return (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)


def scores_of_split(frame: pd.DataFrame, scorer: str, split: int) -> dict[str, Any]:
    """Return the scores that calibrate and those in unseen domains, with label and domain codes."""
    X = frame.drop(columns=NOT_FEATURES, errors="ignore")
    labels, domains = (pd.factorize(frame[name], sort=True)[0] for name in ("label", "domain"))
    order = np.random.default_rng(split).permutation(int(domains.max()) + 1)
    seen, unseen = order[: len(order) // 2], order[len(order) // 2 :]
    fold_of = np.full(len(order), -1)
    fold_of[seen] = np.arange(len(seen)) % N_FOLDS
    fold, test = fold_of[domains], np.flatnonzero(np.isin(domains, unseen))
    parts = [np.flatnonzero((fold != k) & (fold >= 0)) for k in range(N_FOLDS)] + [np.flatnonzero(fold >= 0)]
    models = fit_on_each(_scorer(scorer, split), X, labels, domains, parts)
    classes = np.unique(labels)
    train = np.flatnonzero(fold >= 0)
    out_of_fold = np.empty((len(train), len(classes)))
    for k in range(N_FOLDS):
        out_of_fold[fold[train] == k] = _scores(models[k], X.iloc[train[fold[train] == k]], classes)
    of_folds = np.stack([_scores(model, X.iloc[test], classes) for model in models[:N_FOLDS]])
    encoder = TableEncoder().fit(X.iloc[train])
    return {
        "features": encoder.transform(X.iloc[train]),
        "unseen_features": encoder.transform(X.iloc[test]),
        "calibration": out_of_fold.astype(np.float32),
        "labels": labels[train],
        "domains": np.unique(domains[train], return_inverse=True)[1],
        "fold": fold[train],
        "unseen": of_folds.astype(np.float32),
        "unseen_final": _scores(models[N_FOLDS], X.iloc[test], classes).astype(np.float32),
        "unseen_labels": labels[test],
        "unseen_domains": np.unique(domains[test], return_inverse=True)[1],
    }


def _scorer(name: str, split: int) -> Any:
    if name == "boosting":
        return make_classifier("pooled", "boosting", random_state=split).estimator
    return {"erm": ERMClassifier, "set-cover": SetCoverClassifier}[name](random_state=split)


def _scores(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return margins, or the logarithms of probabilities."""
    scores = scores_for(model, X, classes)
    if isinstance(model, SetCoverClassifier):
        return np.maximum(scores, -1e6)
    proba = model.predict_proba(X) if scores.min() < 0 or not np.allclose(scores.sum(axis=1), 1, atol=1e-3) else scores
    return np.log(np.maximum(proba, LOWEST_PROBABILITY))


if __name__ == "__main__":
    main()
