"""Scorers for `cross_validate` and `GridSearchCV`; higher is better.

Domains reach a scorer by metadata routing: call `sklearn.set_config(enable_metadata_routing=True)` and pass
`params={"domains": …}` to `cross_validate` (`domains=…` to the search's `fit`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from domaincover.criteria import TargetRecall, check_criterion
from domaincover.errors import InputError
from domaincover.evaluation import DomainReport
from domaincover.predictors.set_predictor import DEFAULT_TARGET, unwrapped

__all__ = ["mean_size_scorer", "min_recall_scorer", "share_at_target_scorer"]

NO_DOMAINS = (
    "this scorer compares domains, and was given none: call sklearn.set_config(enable_metadata_routing=True), then "
    "pass domains=… to the fit of a search, params={'domains': …} to cross_validate, or scorer(model, X, y, domains)."
)


Reduce = Callable[[DomainReport, TargetRecall], float]


class SetScorer:
    """A scikit-learn scorer that reduces a model's `domain_report` to one number; requests `domains`.

    With domains, the sets of a `PromisedSetClassifier` that can adapt have thresholds adapted to each of them.
    """

    def __init__(self, name: str, reduce: Reduce, target_recall: TargetRecall | None = None):
        self._name, self._reduce, self._target_recall = name, reduce, target_recall

    def __call__(self, estimator: Any, X: Any, y: Any, domains: Any = None) -> float:
        """Return the score of a fitted model on examples with their domains, which are required."""
        if domains is None:
            raise InputError(NO_DOMAINS)
        model, X = unwrapped(estimator, X)
        own = getattr(model, "target_recall", DEFAULT_TARGET)
        target = own if self._target_recall is None else self._target_recall
        return self._reduce(model.domain_report(X, y, domains), target)

    def with_target(self, target_recall: TargetRecall) -> SetScorer:
        """Return the scorer with a target recall, or one by label, that overrides the model's own."""
        check_criterion("min-recall", target_recall)
        return SetScorer(self._name, self._reduce, target_recall)

    def get_metadata_routing(self) -> MetadataRequest:
        """Request `domains` for scoring."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="domains", alias=True)
        return request

    def __repr__(self) -> str:
        return f"<{self._name} of the sets over domains>"


# Named functions rather than lambdas, since joblib pickles scorers.
def _min_recall(report: DomainReport, target_recall: TargetRecall) -> float:
    return report.summary(target_recall).min_recall


def _share_at_target(report: DomainReport, target_recall: TargetRecall) -> float:
    return report.summary(target_recall).share_at_target


def _minus_mean_size(report: DomainReport, target_recall: TargetRecall) -> float:  # noqa: ARG001
    return -float(report.set_size.mean())


def minus_size(report: DomainReport, target_recall: TargetRecall) -> float:
    """Return minus the mean set size over domains, where one that misses its target counts with all labels."""
    judged = report.under(target_recall)
    return -float(np.where(judged.margin >= 0, judged.set_size, len(report.label_names)).mean())


min_recall_scorer = SetScorer("median min recall", _min_recall)
share_at_target_scorer = SetScorer("share at target", _share_at_target)
mean_size_scorer = SetScorer("minus mean size", _minus_mean_size)
