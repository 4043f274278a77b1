"""Trees as arrays beside the libraries that fitted them: the same probabilities, in how much of their time?"""

import importlib
from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from benchmarks.measure import Row, ratio
from domaincover.estimators.fitted_trees import forest_of

N_ROWS, N_COLUMNS, N_FITTED = 1_000_000, 20, 30_000


def rows() -> Iterator[Row]:
    """Yield the table's lines; all use as many threads as OMP_NUM_THREADS says."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, N_COLUMNS))
    fitted = X[:N_FITTED]
    seen = fitted[:, :5].sum(axis=1) + rng.standard_normal(N_FITTED)
    for n_labels, n_rows, wanted in ((2, N_ROWS, "<= 1 x"), (10, N_ROWS // 10, "<= 1 x")):
        y = np.digitize(seen, np.quantile(seen, np.arange(1, n_labels) / n_labels))
        boosting = HistGradientBoostingClassifier(early_stopping=False, random_state=0).fit(fitted, y)
        yield _row(f"histogram boosting, {n_labels} labels", boosting, X[:n_rows], wanted)
    y = (seen > 0).astype(int)
    for name, kind in (("lightgbm", "LGBMClassifier"), ("xgboost", "XGBClassifier")):
        model = getattr(importlib.import_module(name), kind)(n_estimators=100).fit(fitted, y)
        yield _row(kind, model, X[: N_ROWS // 10], "")
    yield _row(
        "random forest of large trees", RandomForestClassifier(50, random_state=0).fit(fitted, y), X[: N_ROWS // 20], ""
    )


def _row(name: str, model: object, X: np.ndarray, wanted: str) -> Row:
    forest = forest_of(model)
    assert forest is not None
    found = ratio(lambda: forest.probabilities(X), lambda: model.predict_proba(X), 3)  # type: ignore[attr-defined]
    what = f"{name}: {len(forest.root):,} trees as arrays / the library, {len(X):,} x {X.shape[1]}"
    return Row(what, f"{found:.2f} x", wanted)
