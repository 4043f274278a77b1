"""Methods of one's own in a study: any estimator that fits examples and gives sets, or one label each."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincover.errors import InputError
from domaincover.paper.material import Material
from domaincover.prediction_sets import Sets


def sets_of_own(estimator: Any, material: Material) -> Sets:
    """Fit an estimator on the training rows and return its sets of all examples.

    It is given the numbers that networks get, label codes and domain codes: `fit(X, y, domains=…)` where it takes
    domains, and then `predict_set(X)`, or `predict(X)` for one label each. A label that it did not meet in training
    is in every set.
    """
    data, rows = material.data, material.split.train
    own = {"domains": data.domains[rows]} if _takes_domains(estimator) else {}
    estimator.fit(data.examples[rows], data.labels[rows], **own)
    classes = np.asarray(getattr(estimator, "classes_", np.arange(data.n_labels)))
    if hasattr(estimator, "predict_set"):
        found = np.asarray(estimator.predict_set(data.examples))
    elif hasattr(estimator, "predict"):
        found = np.asarray(estimator.predict(data.examples))[:, None] == classes
    else:
        raise InputError(f"{type(estimator).__name__} has neither predict_set nor predict.")
    if found.dtype != bool or found.shape != (len(data), len(classes)):
        raise InputError(
            f"{type(estimator).__name__} must give booleans, {len(data)} examples × {len(classes)} labels, got "
            f"{found.dtype} of shape {found.shape}."
        )
    sets = np.ones((len(data), data.n_labels), dtype=bool)
    sets[:, classes.astype(np.int64)] = found
    return sets


def _takes_domains(estimator: Any) -> bool:
    from inspect import signature

    return "domains" in signature(estimator.fit).parameters
