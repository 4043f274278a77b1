"""The single-label baseline as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import nn

from domaincover.calibration.confidence import OnInfeasible
from domaincover.data.dataset import DomainDataset
from domaincover.estimators.judges import HeldOutDomains, LowestLoss
from domaincover.estimators.network import Network, Trained
from domaincover.estimators.promised import PromisedNetwork
from domaincover.estimators.scoring import scores_for
from domaincover.prediction_sets import Sets, check_target_recall, single_label_sets
from domaincover.training.objectives import CrossEntropy
from domaincover.training.run import TrainingRun


class ERMClassifier(PromisedNetwork):
    """Cross-entropy on all training examples, whatever their domain; the set is the most likely label alone.

    The same network and training as `SetCoverClassifier`, so that the two compare fairly; the parameters mean
    the same, but for patience, which counts epochs, and for `target_recall` and `min_cell_size`, which matter only with
    a `domain_confidence`: the sets then hold as many labels as its promise takes. Its `predict_proba` makes it a base
    for `ConformalSetClassifier`.

    >>> from domaincover import ERMClassifier, GaussianDomains
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = ERMClassifier(random_state=0).fit(data.examples, data.labels, domains=data.domains)
    >>> model.predict_set(data.examples).sum(axis=1).max()
    np.int64(1)
    """

    def __init__(
        self,
        *,
        target_recall: float = 0.9,
        domain_confidence: float | None = None,
        calibration: Literal["held-out-domains", "cross-fit", "jackknife-minmax"] = "cross-fit",
        folds: int | None = None,
        on_infeasible: OnInfeasible = "raise",
        network: Network = "mlp",
        hidden: int | Sequence[int] = 64,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        min_cell_size: int = 20,
        validation_domains: float = 0.2,
        patience: int | None = 20,
        device: str = "auto",
        run: TrainingRun | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.target_recall = target_recall
        self.domain_confidence = domain_confidence
        self.calibration = calibration
        self.folds = folds
        self.on_infeasible = on_infeasible
        self.network = network
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.min_cell_size = min_cell_size
        self.validation_domains = validation_domains
        self.patience = patience
        self.device = device
        self.run = run
        self.random_state = random_state
        self.verbose = verbose

    def label_scores(self, X: Any) -> NDArray[np.float32]:
        """Return log-probabilities, examples × labels in the order of `classes_`; with a promise, in its units."""
        scores = super().label_scores(X)
        return scores if self._is_calibrated else _log_probabilities(scores)

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probability of each label; with jackknife-minmax, the mean over its networks."""
        if not self._is_calibrated:
            return _probabilities(self.label_scores(X))
        inner = self.calibrated_
        each = [_probabilities(scores_for(estimator, X, inner.classes_)) for estimator in inner.predictors_]
        return np.mean(each, axis=0)

    def _own_sets(self, X: Any) -> Sets:
        scores = self.label_scores(X)
        return single_label_sets(scores) | np.isposinf(scores)  # what cannot be read may be anything

    def _check_settings(self) -> None:
        super()._check_settings()
        check_target_recall(self.target_recall)

    def _objective(self, data: Sequence[DomainDataset]) -> nn.Module:  # noqa: ARG002
        return CrossEntropy()

    def _judge(self, held_out: HeldOutDomains) -> LowestLoss:
        return LowestLoss(held_out)

    def _learn(self, trained: Trained) -> None:
        self.history_ = pd.DataFrame({"epoch": trained.history.epoch, "loss": trained.history.loss})


def _log_probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Return log-probabilities; an example that could not be read keeps +∞ for every label."""
    unread = np.isposinf(scores)
    return np.where(unread, scores, log_softmax(np.where(unread, 0, scores), axis=1))


def _probabilities(log_probabilities: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities; of an example that could not be read, all labels are as likely."""
    unread = np.isposinf(log_probabilities)
    return np.where(unread, 1 / log_probabilities.shape[1], np.exp(np.where(unread, 0, log_probabilities)))
