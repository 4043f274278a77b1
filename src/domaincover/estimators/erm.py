"""The single-label baseline as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch import nn

from domaincover.data.dataset import DomainDataset
from domaincover.estimators.base import Targets
from domaincover.estimators.judges import HeldOutDomains, LowestLoss
from domaincover.estimators.network import Network, NetworkClassifier
from domaincover.prediction_sets import Sets, single_label_sets
from domaincover.training.loop import History
from domaincover.training.objectives import CrossEntropy


class ERMClassifier(NetworkClassifier):
    """Cross-entropy on all training examples, whatever their domain; the set is the most likely label alone.

    The same network and training as `SetCoverClassifier`, so that the two compare fairly; the parameters mean
    the same, but for patience, which counts epochs. Its `predict_proba` makes it a base for `ConformalSetClassifier`.

    >>> from domaincover import ERMClassifier, GaussianDomains
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = ERMClassifier(random_state=0).fit(data.examples, data.labels, domains=data.domains)
    >>> model.predict_set(data.examples).sum(axis=1).max()
    np.int64(1)
    """

    def __init__(
        self,
        *,
        network: Network = "mlp",
        hidden: int | Sequence[int] = 64,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        validation_domains: float = 0.2,
        patience: int | None = 20,
        device: str = "cpu",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.network = network
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_domains = validation_domains
        self.patience = patience
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def label_scores(self, X: Any) -> NDArray[np.float32]:
        """Return log-probabilities, examples × labels in the order of `classes_`."""
        return log_softmax(super().label_scores(X), axis=1)

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probability of each label."""
        return np.exp(self.label_scores(X))

    def predict_set(self, X: Any) -> Sets:
        """Return sets that hold the most likely label alone."""
        return single_label_sets(self.label_scores(X))

    def _objective(self, data: DomainDataset) -> nn.Module:  # noqa: ARG002
        return CrossEntropy()

    def _judge(self, held_out: HeldOutDomains) -> LowestLoss:
        return LowestLoss(held_out)

    def _learn(
        self,
        objective: nn.Module,  # noqa: ARG002
        history: History,
        targets: Targets,  # noqa: ARG002
        trained: NDArray[np.bool_],  # noqa: ARG002
        judge: LowestLoss | None,  # noqa: ARG002
    ) -> None:
        self.history_ = pd.DataFrame({"epoch": history.epoch, "loss": history.loss})
