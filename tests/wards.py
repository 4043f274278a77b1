"""Tables and models of patients in wards, which the tests of the command line share."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from domaincover import PromisedSetClassifier, TableEncoder, save

ROLES = ["--label", "outcome", "--domain", "ward"]
QUICK = [*ROLES, "--base", "linear", "--hold-out-domains", "0", "--epochs", "5"]
LABELS = ["ill", "mild", "well"]
FEATURES = ["age", "pressure", "colour"]
EXTRA = {"settings": {"label": "outcome", "domain": "ward", "method": "erm-joint", "target_recall": 0.9}}


def patients(n_rows=1500, n_wards=12, seed=0, first_ward=1):
    """Return a table with every kind of column, missing values, and wards that move the numbers."""
    rng = np.random.default_rng(seed)
    ward, outcome = rng.integers(n_wards, size=n_rows), rng.integers(3, size=n_rows)
    means = np.array([[0, 0], [3, 0], [0, 3]])[outcome] + rng.normal(0, 1.2, (n_wards, 2))[ward]
    age, pressure = (rng.normal(means) * 10 + 50).round(2).T
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n_rows), unit="D")
    table = pd.DataFrame(
        {
            "visit": [f"v{k:06d}" for k in range(n_rows)],
            "age": age,
            "pressure": pressure,
            "smoker": (rng.random(n_rows) < 0.2 + 0.2 * outcome).astype(object),
            "admitted": day,
            "colour": rng.choice(["red", "green", "blue"], n_rows).astype(object),
            "ward": [f"ward {k + first_ward}" for k in ward],
            "outcome": np.array(LABELS)[outcome],
        }
    )
    for name in ("age", "smoker", "admitted", "colour"):
        table.loc[rng.random(n_rows) < 0.05, name] = None
    return table


def written(table, path):
    """Write a table as its name says, and return where it is."""
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    return path


def arrivals():
    """Return rows of eight new wards, in no order."""
    return patients(1600, 8, seed=1, first_ward=100)


def save_promised_regression(table, features, folder, **encoder):
    """Fit a logistic regression with a promise to some columns of a table, and save it."""
    classifier = make_pipeline(TableEncoder(**encoder), LogisticRegression())
    model = PromisedSetClassifier(classifier, folds=2, min_cell_size=5, random_state=0)
    save(model.fit(table[features], table["outcome"], domains=table["ward"]), folder, extra=EXTRA)
    return folder
