"""SET-COVER as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from domaincover.criteria import Criterion, TargetRecall
from domaincover.data.dataset import DomainDataset, count_cells
from domaincover.estimators.network import NetworkClassifier, NetworkFit
from domaincover.options import Penalty, RecallFrom
from domaincover.predictors.table_predictors import SetCoverPredictor

if TYPE_CHECKING:
    from domaincover.estimators.stacked_fit import SmallestSets
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
