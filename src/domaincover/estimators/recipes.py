"""Create classifiers by the names that the command line uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline

from domaincover.criteria import TargetRecall
from domaincover.data.encoding import TableEncoder
from domaincover.errors import InputError
from domaincover.estimators.base import SetClassifier
from domaincover.estimators.calibrated_classifiers import ConformalSetClassifier, PromisedSetClassifier
from domaincover.estimators.mean import MeanClassifier
from domaincover.estimators.network import NetworkInputs
from domaincover.estimators.network_classifiers import DomainGeneralizationClassifier, ERMClassifier, SetCoverClassifier
from domaincover.options import (
    MIN_CELL_SIZE,
    Base,
    CriterionName,
    DomainPenalty,
    Method,
    NetworkName,
    OnRareLabel,
    PenaltyOnFeatures,
    PromiseCalibration,
)

# Smaller trees on some of the columns, and fewer of them: sets as large as with scikit-learn's defaults in half of the
# time (docs/experiment-log.md). Early stopping would use rows of training domains, and fails on a label of one row.
BOOSTING: dict[str, Any] = {"max_iter": 60, "learning_rate": 0.15, "max_leaf_nodes": 15, "max_features": 0.3}
BOOSTING["early_stopping"] = False


def make_classifier(
    method: Method,
    base: Base = "mlp",
    target_recall: TargetRecall = 0.9,
    *,
    criterion: CriterionName = "min-recall",
    domain_confidence: float | None = None,
    calibration: PromiseCalibration = "cross-fit",
    on_infeasible: OnRareLabel = "raise",
    min_cell_size: int = MIN_CELL_SIZE,
    network: NetworkInputs | None = None,
    training: Mapping[str, Any] | None = None,
    random_state: int | None = None,
    verbose: bool = False,
) -> SetClassifier:
    """Return an unfitted classifier for tables, or with a `network` for images or texts.

    `training` contains parameters of the network's training, such as epochs, device or run.

    The base "mlp+boosting" is the mean of a network and boosting.

    >>> make_classifier("robust", "boosting").estimator.steps[-1][0]
    'histgradientboostingclassifier'
    """
    has_trees, is_network = base in ("boosting", "mlp+boosting"), base in get_args(NetworkName)
    if method not in ("robust", "pooled", "erm") and has_trees:
        raise InputError(f"{method} trains a network; {base} goes with robust, pooled or erm.")
    if method in get_args(PenaltyOnFeatures) and base == "linear" and network is None:
        from domaincover.networks.perceptrons import NO_FEATURES

        raise InputError(NO_FEATURES)
    settings: dict[str, Any] = {"target_recall": target_recall, "criterion": criterion, "random_state": random_state}
    counting: dict[str, Any] = {"min_cell_size": min_cell_size}
    if domain_confidence is not None and method in ("robust", "pooled"):
        known = "erm" if has_trees else "set-cover or erm"
        raise InputError(
            f"method={method} calibrates by another rule and takes no domain_confidence; method={known} makes the "
            f"promise with base={base}, or leave domain_confidence out."
        )
    if has_trees and network is not None:
        raise InputError(f"{base} is for tables; images and texts need a network.")
    if base == "boosting" and training:
        given = ["a run" if name == "run" else f"{name}={value}" for name, value in training.items()]
        raise InputError(f"base=boosting trains no network, so {', '.join(given)} would have no effect; leave it out.")
    of_network = {"network": network or base.removesuffix("+boosting"), "verbose": verbose, **(training or {})}
    if method in ("robust", "pooled"):
        return ConformalSetClassifier(_scorer(base, of_network, random_state), method, **settings, **counting)
    if domain_confidence is None and not is_network:
        return ConformalSetClassifier(_scorer(base, of_network, random_state), "single", **settings, **counting)
    if is_network:
        estimator = _network(method, of_network | settings | ({} if method == "erm" else counting))
    else:
        estimator = _scorer(base, of_network, random_state)
    if domain_confidence is None:
        return estimator
    return PromisedSetClassifier(
        estimator,
        domain_confidence=domain_confidence,
        calibration=calibration,
        on_infeasible=on_infeasible,
        **settings,
        **counting,
    )


def _network(method: Any, settings: dict[str, Any]) -> Any:
    if method in get_args(DomainPenalty):
        return DomainGeneralizationClassifier(method, **settings)
    return SetCoverClassifier(**settings) if method == "set-cover" else ERMClassifier(**settings)


def _scorer(base: Base, of_network: dict[str, Any], random_state: int | None) -> BaseEstimator:
    if base == "boosting":
        trees = HistGradientBoostingClassifier(**BOOSTING, random_state=random_state)
        return make_pipeline(TableEncoder(scale=False), trees)
    if base == "mlp+boosting":
        parts: tuple[Base, Base] = ("mlp", "boosting")
        return MeanClassifier([(name, _scorer(name, of_network, random_state)) for name in parts])
    return ERMClassifier(random_state=random_state, **of_network)
