"""Fit several classifiers at once: networks train as one stack, and a scorer that several share is fitted once."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from domaincover.estimators.calibrated import CalibratedSetClassifier
from domaincover.estimators.network import NetworkClassifier
from domaincover.estimators.scorer_fits import ScorerFits, fit_on_each, taken
from domaincover.estimators.stacked_fit import fit_together

Data = tuple[Any, Any, Any]  # X, y, domains


def fit_all(models: Sequence[Any], data: Sequence[Data]) -> list[Any]:
    """Return the classifiers fitted, each on its own (X, y, domains), with the results of fitting them one by one.

    Networks with equal settings and equally many rows train as one stack; rounding alone may differ. Networks with
    equal parameters on the same rows, such as that of two conformal rules, are one object, trained once. Examples
    count as the same where they are the same object.
    """
    shared = _SharedNetworks()
    plans = [_plan(model, part, shared) for model, part in zip(models, data, strict=True)]
    shared.fit()
    return [plan() for plan in plans]


def _plan(model: Any, data: Data, shared: _SharedNetworks) -> Any:
    """Note the network that a classifier needs, and return a function that finishes and returns the classifier."""
    X, y, domains = data
    if isinstance(model, NetworkClassifier):
        return shared.add(model, data, np.arange(len(y)))
    if not isinstance(model, CalibratedSetClassifier):
        return lambda: _fitted(model, data)
    steps = model._fitting(X, y, domains)
    wanted = next(steps, None)
    if wanted is None:  # a prefit estimator: there is nothing to fit
        return lambda: model
    if len(wanted.rows) == 1 and isinstance(wanted.estimator, NetworkClassifier):
        network = shared.add(clone(wanted.estimator), wanted.data, wanted.rows[0])
        return lambda: _finished(model, steps, [network()])
    return lambda: _finished(model, steps, fit_on_each(wanted))


def _finished(model: Any, steps: Any, fitted: list[Any]) -> Any:
    """Give a classifier the estimators that it asked for."""
    for _ in iter(lambda: next(steps, None), None):
        raise RuntimeError("a classifier asks for its estimators once")  # pragma: no cover
    return model


def _fitted(model: Any, data: Data) -> Any:
    """Fit any classifier; domains go to those that take them."""
    X, y, domains = data
    model.fit(X, y, **({"domains": domains} if "domains" in signature(model.fit).parameters else {}))
    return model


class _SharedNetworks:
    """Networks to train, each once."""

    def __init__(self) -> None:
        self._networks: dict[Any, tuple[NetworkClassifier, Data]] = {}

    def add(self, network: NetworkClassifier, data: Data, rows: NDArray[np.int64]) -> Any:
        """Note a network to train on some rows; return a function that returns it, or an equal one, once fitted."""
        X, y, domains = data
        part = tuple(taken(each, rows) for each in data)
        settings = {name: value for name, value in network.get_params(deep=False).items() if name != "run"}
        key = type(network), repr(settings), id(X), joblib.hash([np.asarray(part[1]), part[2], rows])
        self._networks.setdefault(key, (network, part))
        return lambda: self._networks[key][0]

    def fit(self) -> None:
        """Train them all."""
        if self._networks:
            networks, data = zip(*self._networks.values(), strict=True)
            fit_together(networks, data, as_if_alone=True)
