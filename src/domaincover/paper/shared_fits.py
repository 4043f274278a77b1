"""Fit several classifiers at once: networks train as one stack, and a network that several share is trained once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from domaincover.estimators.calibrated import CalibratedSetClassifier
from domaincover.estimators.calibrated_classifiers import PromisedSetClassifier
from domaincover.estimators.network import NetworkClassifier, NetworkFit
from domaincover.estimators.scorer_fits import taken
from domaincover.options import Iterate

if TYPE_CHECKING:
    from domaincover.training.loop import Trained

Data = tuple[Any, Any, Any]  # X, y, domains


def fit_all(models: Sequence[Any], data: Sequence[Data]) -> list[Any]:
    """Return the classifiers fitted, each on its own (X, y, domains), as if they were fitted one by one.

    Networks with equal settings and equally many rows train as one stack, which only changes rounding. Networks with
    equal parameters on the same rows, such as those of two conformal rules, are one object, trained once; it also
    scores the same examples once. Networks that differ only in the iterate that they keep are trained once, too.
    Promised classifiers with equal parameters on the same rows are one object. Examples are the same where they are
    the same object.
    """
    networks = _SharedNetworks()
    keys = [_key_of(model, part) for model, part in zip(models, data, strict=True)]
    distinct = dict(zip(keys, zip(models, data, strict=True), strict=True))
    finish = {key: _planned(model, part, networks) for key, (model, part) in distinct.items()}
    networks.fit()
    fitted = {key: each() for key, each in finish.items()}
    return [fitted[key] for key in keys]


def _key_of(model: Any, data: Data) -> Any:
    """Return what a classifier is fitted once for: its parameters and data if it makes a promise, else itself."""
    if not isinstance(model, PromisedSetClassifier):
        return id(model)
    inner = model.estimator
    params = {name: value for name, value in model.get_params().items() if not name.endswith(("estimator", "run"))}
    return type(inner), repr(params), tuple(map(id, data))


def _planned(model: Any, data: Data, networks: _SharedNetworks) -> Callable[[], Any]:
    """Note the network that a classifier needs, and return a function that returns the classifier, fitted."""
    if isinstance(model, NetworkClassifier):
        return networks.add(model, data, np.arange(len(data[1])))
    if not isinstance(model, CalibratedSetClassifier):
        return lambda: _fitted(model, data)
    plan = model._planned(*data)
    if len(plan.rows_to_fit) == 1 and isinstance(model.estimator, NetworkClassifier):
        network = networks.add(clone(model.estimator), (plan.X, plan.y, plan.domains), plan.rows_to_fit[0])
        return lambda: model._calibrated(plan, [network()])
    return lambda: model._calibrated(plan, model._fitted_scorers(plan))


def _fitted(model: Any, data: Data) -> Any:
    """Fit any classifier; domains go to those that take them."""
    X, y, domains = data
    model.fit(X, y, **({"domains": domains} if "domains" in signature(model.fit).parameters else {}))
    return model


class _SharedNetworks:
    """Networks to train, each once."""

    def __init__(self) -> None:
        self._networks: dict[Any, tuple[dict[Iterate, NetworkClassifier], Data]] = {}

    def add(self, network: NetworkClassifier, data: Data, rows: NDArray[np.int64]) -> Callable[[], NetworkClassifier]:
        """Note a network to train on some rows; return a function that returns it, or an equal one, fitted."""
        X, y, domains = (taken(part, rows) for part in data)
        params = network.get_params(deep=False)
        settings = {name: value for name, value in params.items() if name not in ("run", "iterate")}
        key = type(network), repr(settings), id(data[0]), joblib.hash([np.asarray(y), domains, rows])
        by_iterate, _ = self._networks.setdefault(key, ({}, (X, y, domains)))
        by_iterate.setdefault(network.iterate, network)
        return lambda: by_iterate[network.iterate]

    def fit(self) -> None:
        """Train them all."""
        if self._networks:
            from domaincover.estimators.stacked_fit import fit_together

            found, data = zip(*self._networks.values(), strict=True)
            networks = [by_iterate.get("best") or by_iterate["last"] for by_iterate in found]
            last = {id(by_iterate["best"]): by_iterate["last"] for by_iterate in found if len(by_iterate) > 1}
            for fit, trained in fit_together(networks, data, as_if_alone=True):
                if id(fit.model) in last:
                    _fit_with_last_weights(last[id(fit.model)], fit, trained)
            for network in (*networks, *last.values()):
                _score_once(network)


def _fit_with_last_weights(network: NetworkClassifier, fit: NetworkFit, trained: Trained) -> None:
    """Fit a classifier that equals another's but for the iterate with the last weights of its training."""
    learned = {name: value for name, value in vars(fit.model).items() if name not in fit.model.get_params(deep=False)}
    network.__dict__.update(learned)
    module = copy.deepcopy(fit.model.network_)
    module.load_state_dict(trained.last)
    network.__dict__.pop("network_", None)
    network._finish(fit, module, trained.history)


def _score_once(network: NetworkClassifier) -> None:
    """Let a network score the same examples once, however many classifiers share it: reading images is expensive."""
    score, known = network.label_scores, list[tuple[Any, NDArray[Any]]]()

    def scores_of(X: Any) -> NDArray[Any]:
        for examples, scores in known:
            if examples is X:
                return scores
        known.append((X, score(X)))
        return known[-1][1]

    network.label_scores = scores_of  # type: ignore[method-assign]
