"""Networks that predict probabilities, with the most likely label as the set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from domaincover.criteria import TargetRecall, check_criterion
from domaincover.estimators.judges import HeldOutDomains, LowestLoss
from domaincover.estimators.network import NetworkClassifier
from domaincover.estimators.stacked_fit import Trained
from domaincover.options import CriterionName
from domaincover.prediction_sets import Sets, single_label_sets


class SingleLabelNetwork(NetworkClassifier):
    """What ERM and the methods that compare domains share; held-out domains judge by cross-entropy."""

    target_recall: TargetRecall
    criterion: CriterionName

    @property
    def _needs_domains(self) -> bool:
        return False  # the set is one label, however rows are grouped

    def label_scores(self, X: Any) -> NDArray[np.float32]:
        """Return log-probabilities, examples × labels in the order of `classes_`."""
        return _log_probabilities(super().label_scores(X))

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probability of each label, examples × labels in the order of `classes_`."""
        return from_log_probabilities(self.label_scores(X))

    def predict_set(self, X: Any) -> Sets:
        """Return the most likely label alone, as booleans, examples × labels in the order of `classes_`."""
        scores = self.label_scores(X)
        return single_label_sets(scores) | np.isposinf(scores)  # what cannot be read may be anything

    def _check_settings(self) -> None:
        super()._check_settings()
        check_criterion(self.criterion, self.target_recall)

    def _judge(self, held_out: HeldOutDomains) -> LowestLoss:
        return LowestLoss(held_out)

    def _learn(self, trained: Trained) -> None:
        self.history_ = pd.DataFrame({"epoch": trained.history.epoch, "loss": trained.history.loss})


def _log_probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Return log-probabilities; unreadable examples keep +∞ for every label."""
    unread = np.isposinf(scores)
    return np.where(unread, scores, log_softmax(np.where(unread, 0, scores), axis=1))


def from_log_probabilities(log_probabilities: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities; all labels of an unreadable example are equally likely."""
    unread = np.isposinf(log_probabilities)
    return np.where(unread, 1 / log_probabilities.shape[1], np.exp(np.where(unread, 0, log_probabilities)))
