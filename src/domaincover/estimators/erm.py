"""The single-label baseline as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import pandas as pd

from domaincover.errors import check_choice
from domaincover.estimators.network import NetworkClassifier, NetworkFit
from domaincover.options import ERMLoss
from domaincover.predictors.network_predictors import SingleLabelPredictor

if TYPE_CHECKING:
    from domaincover.estimators.judges import HeldOutDomains, LowestLoss
    from domaincover.training.loop import History
    from domaincover.training.objectives import Objective


class SingleLabelNetwork(SingleLabelPredictor, NetworkClassifier):
    """What ERM and the methods that compare domains share; held-out domains judge by cross-entropy."""

    _needs_domains = False  # the set is one label, however rows are grouped

    def _judge(self, held_out: HeldOutDomains) -> LowestLoss:
        from domaincover.estimators.judges import LowestLoss

        return LowestLoss(held_out)

    def _learn(self, fit: NetworkFit, history: History) -> None:  # noqa: ARG002
        self.history_ = pd.DataFrame({"epoch": history.epoch, "loss": history.loss})


@dataclass(kw_only=True, eq=False, repr=False)
class ERMClassifier(SingleLabelNetwork):
    """Cross-entropy on all training examples, regardless of domain; the set is the most likely label alone.

    The same network and training as `SetCoverClassifier`, for a fair comparison. It can be the base of
    `ConformalSetClassifier` and `PromisedSetClassifier`.
    Sets of a `Pipeline` or `GridSearchCV` that ends in it: `domaincover.predict_set(model, X)`, which has an example.

    Parameters
    ----------
    target_recall : float or mapping
        Target recall of reports and scorers, or one by label; not used in training.
    criterion : "min-recall" or "coverage"
        What reports compare with it: the recall of labels, or of all examples of a domain together.
    loss : "cross-entropy" or "double-softmax"
        What is minimised: the cross-entropy of the network's scores as logits, or that of its probabilities taken for
        logits, as in the code that the paper's authors released. `predict_proba` applies softmax once with both.
    iterate : "best" or "last"
        Which weights to keep: those with the lowest cross-entropy on the held-out domains, or the last. Without
        held-out domains, both are the last.
    patience : int or None
        Stop after this number of epochs without improvement.
    network, hidden, epochs, batch_size, learning_rate, learning_rate_decay, standardize, min_cell_size, \
validation_domains, device, run, random_state, verbose
        As for `SetCoverClassifier`.

    Attributes
    ----------
    classes_, domains_ : arrays
        Labels and domains of the training data.
    history_ : DataFrame
        A row per epoch: epoch and loss.
    encoder_, network_, held_out_domains_, n_features_in_, feature_names_in_
        As for `SetCoverClassifier`.

    >>> import numpy as np
    >>> from domaincover import ERMClassifier, GaussianDomains
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = ERMClassifier(random_state=0).fit(data.examples, data.labels, domains=data.domains)
    >>> model.predict_set(data.examples).sum(axis=1).max()
    np.int64(1)
    """

    loss: ERMLoss = "cross-entropy"

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("loss", self.loss, get_args(ERMLoss))

    def _objective(self, fits: Sequence[NetworkFit], n_steps: int) -> Objective:  # noqa: ARG002
        from domaincover.training.objectives import CrossEntropy, DoubleSoftmaxCrossEntropy

        return CrossEntropy() if self.loss == "cross-entropy" else DoubleSoftmaxCrossEntropy()
