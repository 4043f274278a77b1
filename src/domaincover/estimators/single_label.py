"""Networks that predict a single label: ERM, and methods that compare the training domains."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.data.dataset import DomainDataset
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import Targets
from domaincover.estimators.network import NetworkClassifier, NetworkFit
from domaincover.options import DomainPenalty, ERMLoss
from domaincover.predictors.table_predictors import SingleLabelPredictor

if TYPE_CHECKING:
    from domaincover.estimators.stacked_fit import LowestLoss
    from domaincover.training.domain_objectives import DomainObjective
    from domaincover.training.loop import History
    from domaincover.training.objectives import Objective


class SingleLabelNetwork(SingleLabelPredictor, NetworkClassifier):
    """What ERM and the methods that compare domains share; held-out domains judge by cross-entropy."""

    _needs_domains = False  # the set is one label, however rows are grouped

    def _judge(self, held_out: DomainDataset, device: str) -> LowestLoss:
        from domaincover.estimators.stacked_fit import LowestLoss

        return LowestLoss(held_out, device)

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


@dataclass(kw_only=True, eq=False, repr=False)
class DomainGeneralizationClassifier(SingleLabelNetwork):
    """IRM, VREx, MMD or CORAL; the set is the most likely label alone.

    The same network and training as `ERMClassifier`, for a fair comparison, but each batch holds a few domains and the
    loss depends on how they differ. It can be the base of `ConformalSetClassifier` and `PromisedSetClassifier`. The
    formulas are in docs/method.md.
    Sets of a `Pipeline` or `GridSearchCV` that ends in it: `domaincover.predict_set(model, X)`, which has an example.

    Parameters
    ----------
    penalty : "irm", "vrex", "mmd" or "coral"
        Added to the mean risk of the domains.
    weight : float or None
        Weight of the penalty; None is 100 for IRM, 10 for VREx, 1 for MMD and CORAL.
    warmup_steps : int or None
        Steps with penalty weight min(1, `weight`), after which the optimiser is reset. Only later weights are validated
        on held-out domains. None is 500 for IRM and VREx, but at most a quarter of all steps, and 0 for the others.
    domains_per_batch : int
        Domains in a batch, with equally many examples of each; at most all domains.
    target_recall, criterion, network, hidden, epochs, batch_size, learning_rate, learning_rate_decay, iterate, \
standardize, min_cell_size, validation_domains, patience, device, run, random_state, verbose
        As for `ERMClassifier`. MMD and CORAL compare features, so their network needs a trainable layer before the
        last linear one.

    >>> from domaincover import DomainGeneralizationClassifier, GaussianDomains
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = DomainGeneralizationClassifier("vrex", epochs=20, random_state=0)
    >>> model.fit(data.examples, data.labels, domains=data.domains).predict_set(data.examples).sum(axis=1).max()
    np.int64(1)
    """

    _merges_small_cells = False  # domains are compared as they are
    _needs_domains = True

    penalty: DomainPenalty = field(default="irm", kw_only=False)
    weight: float | None = None
    warmup_steps: int | None = None
    domains_per_batch: int = 4

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("penalty", self.penalty, get_args(DomainPenalty))
        if not isinstance(self.domains_per_batch, int | np.integer) or self.domains_per_batch < 2:
            raise InputError(f"domains_per_batch must be a whole number, at least 2, got {self.domains_per_batch!r}.")
        self._objective_for()  # checks the objective's settings

    def _check_training(self, targets: Targets, trains: NDArray[np.bool_]) -> None:
        """Reject domains that cannot be compared."""
        n_given, n_to_train = (
            np.bincount(codes, minlength=len(targets.domain_names))
            for codes in (targets.domains, targets.domains[trains])
        )
        if np.count_nonzero(n_to_train) < 2 and self.penalty != "irm":
            raise InputError(
                f"{self.penalty} compares domains, but there is only one training domain; add domains, or use ERM."
            )
        for counts in (n_given, n_to_train):
            if (counts == 1).any():
                name = targets.domain_names[int(np.argmax(counts == 1))]
                raise InputError(
                    f"domain {name!r} has one training example, but {self.penalty} needs at least two; leave it out, "
                    "or merge small domains."
                )

    def _objective(self, fits: Sequence[NetworkFit], n_steps: int) -> DomainObjective:  # noqa: ARG002
        if self.warmup_steps is not None and self.warmup_steps >= n_steps:
            warnings.warn(
                f"training has {n_steps} steps and warmup_steps is {self.warmup_steps}, so {self.penalty} never has "
                "its full weight; lower warmup_steps, or raise epochs.",
                stacklevel=2,
            )
        return self._objective_for(n_steps)

    def _objective_for(self, n_steps: int | None = None) -> DomainObjective:
        from domaincover.training.domain_objectives import domain_objective

        return domain_objective(self.penalty, self.weight, self.warmup_steps, n_steps)
