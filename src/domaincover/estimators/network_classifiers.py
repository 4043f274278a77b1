"""Classifiers that train a network: SET-COVER, ERM, and methods that compare the training domains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.criteria import Criterion, TargetRecall
from domaincover.data.dataset import DomainDataset, count_cells
from domaincover.errors import InputError, check_choice
from domaincover.estimators.base import Targets
from domaincover.estimators.network import NetworkClassifier, NetworkFit
from domaincover.options import DomainPenalty, ERMLoss, Penalty, RecallFrom
from domaincover.predictors.table_predictors import SetCoverPredictor, SingleLabelPredictor

if TYPE_CHECKING:
    from domaincover.estimators.stacked_fit import LowestLoss, SmallestSets
    from domaincover.training.domain_objectives import DomainObjective
    from domaincover.training.loop import History
    from domaincover.training.objectives import Objective


@dataclass(kw_only=True, eq=False, repr=False)
class SetCoverClassifier(SetCoverPredictor, NetworkClassifier):
    """Small sets that aim to hold every label's recall at the target in every domain (SET-COVER, ICML 2025).

    A network with one score per label is trained with a multiplier for every (domain, label) cell, which rises while
    the cell's recall is below the target. Held-out domains select the best iterate, stop training early, and lower the
    thresholds from the paper's 0: each label's until its held-out rows are at target, then all by one offset until
    every label is at target in every held-out domain.
    Sets of a `Pipeline` or `GridSearchCV` that ends in it: `domaincover.predict_set(model, X)`, which has an example.

    Parameters
    ----------
    target_recall : float or mapping
        Target recall of every label in every domain. A mapping gives targets by label; a label left out of it is not
        constrained: its multipliers are 1, so that it is in the set where it is more likely than not.
    criterion : "min-recall" or "coverage"
        What a domain has to reach: every label's recall the target, or the share of its examples whose set holds their
        label, with one multiplier per domain and one threshold for all labels.
    network : "mlp", "linear", a function, an ImageNetwork or a TextNetwork
        A function takes the numbers of features and labels and returns a `torch.nn.Module`. With the last two, `fit`
        takes image paths, images in memory, or texts.
    hidden : int or sequence of int
        Width of the hidden layer, or of each of several.
    epochs, batch_size, update_every : int or None
        None chooses by the number of rows. Multipliers are updated after every `update_every` batches and every epoch.
    learning_rate : float
        Adam's learning rate.
    learning_rate_decay : bool
        Whether the learning rate falls linearly to 0 over the second half of training; not in the paper.
    iterate : "best" or "last"
        Which weights to keep: the best on the held-out domains, or the last, as in the paper. Without
        held-out domains, "best" is the dual step with the smallest sets among those with every training cell at target,
        or closest to it.
    recall_from : "full-pass", "batches" or None
        Whether an update of the multipliers uses the recall of a full pass over the training data, or of the batches
        since the last update, which is free but lags behind. None uses a full pass if there is at most one update per
        epoch.
    standardize : bool
        Whether numbers are standardised, with outliers compressed and missing values imputed by the mean. False leaves
        them unchanged, as in the paper; categories are encoded in either case.
    initial_multiplier : float, one float per label, or None
        Initial multipliers; None chooses by label frequency. The paper uses 5.
    penalty : "wrong-label" or "full-set"
        Whether only wrong labels in the set are penalised, or the true one as well.
    min_cell_size : int
        A label's (domain, label) cells with fewer examples share one multiplier, and held-out cells with fewer do not
        set the offset, since their recall is mostly noise.
    validation_domains : float
        Share of the domains held out for validation, at least three of nine or more. With fewer than four domains it is
        a share of their rows; with 0, training cells are used instead, and the thresholds stay 0.
    patience : int or None
        Stop at the end of an epoch after this number of multiplier updates without improvement; after this number of
        epochs when all layers of a network on images or texts are trained.
    device : str
        Where to train, such as "cpu" or "cuda"; "auto" uses a GPU for images and texts if there is one.
    run : TrainingRun or None
        Checkpoints, mixed precision and listeners.
    random_state : int, RandomState or None
        Determines the initial weights, the batches and the held-out domains.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    classes_, domains_ : arrays
        Labels and domains of the training data.
    multipliers_ : DataFrame
        Final multipliers, domain × label (one column with coverage); NaN for cells without training examples and
        held-out domains.
    history_ : DataFrame
        A row per update of the multipliers: epoch, batch, loss, set_size, worst_recall, cells_below_target.
    thresholds_ : array
        One per label, at most 0.
    encoder_, network_, held_out_domains_, n_features_in_, feature_names_in_
        The encoder of tables, the trained network, the held-out domains, and the number and names of features.

    >>> from domaincover import GaussianDomains, SetCoverClassifier
    >>> data = GaussianDomains.of_paper(n_features=10).sample(12, 200, np.random.default_rng(0))
    >>> model = SetCoverClassifier(random_state=0).fit(data.examples, data.labels, domains=data.domains)
    >>> model.predict_set(data.examples[:3]).shape
    (3, 2)
    """

    target_recall: TargetRecall = field(default=0.9, kw_only=False)
    recall_from: RecallFrom | None = None
    initial_multiplier: float | Sequence[float] | None = None
    update_every: int | None = None
    penalty: Penalty = "wrong-label"

    def _objective(self, fits: Sequence[NetworkFit], n_steps: int) -> Objective:  # noqa: ARG002
        from domaincover.training.objectives import SetCoverLoss

        data = [fit.examples for fit in fits]
        criteria = [fit.model.own_criterion for fit in fits]
        start: Any = self.initial_multiplier
        if start is None:
            start = [usual_multipliers(part.labels, part.n_labels) for part in data]
            if self.criterion == "coverage":  # a multiplier is shared by labels, here as if all were as frequent
                start = 3.0 * float(np.clip(data[0].n_labels - 1, 1, 1000))
        targets: Any = [criterion.given for criterion in criteria]
        if any(isinstance(target, Mapping) for target in targets):
            targets = np.stack([criterion.targets for criterion in criteria])
            start = np.where(np.isnan(targets), 1.0, start)
        return SetCoverLoss(
            max(part.n_domains for part in data),
            data[0].n_labels,
            targets,
            criterion=self.criterion,
            penalty=self.penalty,
            initial_multiplier=start,
        )

    def _judge(self, held_out: DomainDataset, device: str) -> SmallestSets:
        from domaincover.estimators.stacked_fit import SmallestSets

        return SmallestSets(held_out, self.own_criterion, self.min_cell_size, device)

    def _learn(self, fit: NetworkFit, history: History) -> None:
        targets, trains, judge = fit.targets, fit.trains, fit.judge
        self.thresholds_ = np.zeros(len(self.classes_))
        if judge is not None:
            self.thresholds_ += judge.thresholds(self._scorer())
        n_domains, n_labels = len(self.domains_), len(self.classes_)
        counts = count_cells(targets.domains[trains], targets.labels[trains], n_domains, n_labels)
        names = self.classes_
        if self.criterion == "coverage":
            counts, names = counts.sum(axis=1, keepdims=True), np.array(["any label"], dtype=object)
        row = np.where(counts >= self.min_cell_size, np.arange(n_domains)[:, None], n_domains)
        last = history.multipliers[-1].astype(np.float32)  # type: ignore[index]
        multipliers = np.where(counts > 0, last[row, np.arange(counts.shape[1])], np.nan)
        self.multipliers_ = pd.DataFrame(
            multipliers,
            index=pd.Index(self.domains_, name="domain", tupleize_cols=False),
            columns=pd.Index(names, name="label", tupleize_cols=False),
        )
        self.history_ = _history_table(history, self.own_criterion)


def usual_multipliers(labels: NDArray[np.int64], n_labels: int) -> list[float]:
    """Return initial multipliers: three times the odds against a label, three for a frequent one.

    A multiplier C puts a label into the set where its probability is above 1 / (1 + C), so a rare label needs a high
    one, which would take many steps from the paper's 5.
    """
    frequency = np.maximum(np.bincount(labels, minlength=n_labels), 1) / len(labels)
    return (3 * np.clip(1 / frequency - 1, 1, 1000)).tolist()


def _history_table(history: History, criterion: Criterion) -> pd.DataFrame:
    targets = criterion.group_targets if criterion.is_coverage else criterion.targets
    recall = np.where(np.isnan(history.recall - targets), np.inf, history.recall)  # type: ignore[operator, arg-type]
    table = pd.DataFrame(
        {
            "epoch": history.epoch,
            "batch": history.batch,
            "loss": history.loss,
            "set_size": history.set_size,
            "worst_recall": recall.min(axis=(1, 2)),
            "cells_below_target": (recall < targets).sum(axis=(1, 2)),
        }
    )
    return table.dropna(subset="set_size", ignore_index=True)  # the second of two updates without a batch in between


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
