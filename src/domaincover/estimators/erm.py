"""The single-label baseline as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from domaincover.criteria import TargetRecall
from domaincover.errors import check_choice
from domaincover.estimators.network import Network, NetworkFit
from domaincover.estimators.single_label import SingleLabelNetwork
from domaincover.options import CriterionName, ERMLoss, Iterate

if TYPE_CHECKING:
    from torch import nn

    from domaincover.training.run import TrainingRun


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

    def __init__(
        self,
        *,
        target_recall: TargetRecall = 0.9,
        criterion: CriterionName = "min-recall",
        loss: ERMLoss = "cross-entropy",
        network: Network = "mlp",
        hidden: int | Sequence[int] = 64,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        learning_rate_decay: bool = True,
        iterate: Iterate = "best",
        standardize: bool = True,
        min_cell_size: int = 20,
        validation_domains: float = 0.2,
        patience: int | None = 20,
        device: str = "auto",
        run: TrainingRun | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.target_recall = target_recall
        self.criterion = criterion
        self.loss = loss
        self.network = network
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.iterate = iterate
        self.standardize = standardize
        self.min_cell_size = min_cell_size
        self.validation_domains = validation_domains
        self.patience = patience
        self.device = device
        self.run = run
        self.random_state = random_state
        self.verbose = verbose

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("loss", self.loss, get_args(ERMLoss))

    def _objective(self, fits: Sequence[NetworkFit], n_steps: int) -> nn.Module:  # noqa: ARG002
        from domaincover.training.objectives import CrossEntropy, DoubleSoftmaxCrossEntropy

        return CrossEntropy() if self.loss == "cross-entropy" else DoubleSoftmaxCrossEntropy()
