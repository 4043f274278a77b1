"""Training objectives: a loss from the scores, label codes and domain codes of a batch.

Given a stack, with replicas along a leading axis, an objective returns one loss per replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from domaincover.errors import InputError
from domaincover.options import CriterionName, Penalty
from domaincover.prediction_sets import check_target_recall
from domaincover.training.multipliers import CellCounts, updated_multipliers


class CrossEntropy(nn.Module):
    """Mean cross-entropy of logits, ignoring domains (ERM)."""

    def forward(self, scores: Tensor, labels: Tensor, domains: Tensor) -> Tensor:  # noqa: ARG002
        """Return the mean loss of the batch."""
        n_labels = scores.shape[-1]
        losses = functional.cross_entropy(scores.reshape(-1, n_labels), labels.reshape(-1), reduction="none")
        return losses.view(labels.shape).mean(-1)


class DoubleSoftmaxCrossEntropy(CrossEntropy):
    """Mean cross-entropy that takes probabilities for logits, so that softmax is applied twice.

    The code that the paper's authors released trains ERM with it. Of two labels, the loss of an example is between
    log(1 + 1/e) and log(1 + e), and its gradient vanishes where the network is sure, even if it is wrong.

    >>> import torch
    >>> sure_and_right = torch.tensor([[100.0, 0.0]])
    >>> DoubleSoftmaxCrossEntropy()(sure_and_right, torch.tensor([0]), torch.tensor([0]))
    tensor(0.3133)
    """

    def forward(self, scores: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
        """Return the mean loss of the batch."""
        return super().forward(scores.softmax(-1), labels, domains)


class SetCoverLoss(nn.Module):
    """SET-COVER's loss: a label is in the set if its score is at least 0.

    A wrong label costs relu(1 + score); the true one costs multiplier[domain, label] · relu(1 − score), and with the
    full-set penalty also relu(1 + score). Costs are summed over labels and averaged over the batch. The multipliers
    are a buffer; `update` adjusts them by the recall in the batches since the last update. With coverage as criterion,
    a domain has one multiplier for all labels, which follows the share of its examples whose set holds their label.

    >>> import torch
    >>> loss = SetCoverLoss(n_domains=3, n_labels=2, target_recall=0.9)
    >>> scores = torch.tensor([[2.0, -2.0], [2.0, 0.5]])  # the second example's set contains both labels
    >>> loss(scores, torch.tensor([0, 1]), torch.tensor([2, 2]))
    tensor(2.7500)
    >>> loss.update()  # recall by domain and label; a cell without examples is NaN and keeps its multiplier
    tensor([[nan, nan],
            [nan, nan],
            [1., 1.]], dtype=torch.float64)
    >>> loss.multipliers[2]
    tensor([4.5000, 4.5000])
    """

    multipliers: Tensor
    target_recall: Tensor
    _first_cells: Tensor

    def __init__(
        self,
        n_domains: int,
        n_labels: int,
        target_recall: float | Sequence[float] | Sequence[Sequence[float]] = 0.9,
        *,
        criterion: CriterionName = "min-recall",
        penalty: Penalty = "wrong-label",
        initial_multiplier: float | Sequence[float] | Sequence[Sequence[float]] = 5.0,
        floor: float = 1e-6,
        cap: float = 1e6,
    ) -> None:
        """Initialise the loss; a sequence of target recalls defines a stack with one replica each.

        A replica's target may be one per label, NaN for a label whose multipliers stay as they are.
        `initial_multiplier` is one number, one per label, or one per replica and label; with coverage, a domain starts
        with their mean.
        """
        super().__init__()
        targets = np.atleast_1d(np.asarray(target_recall, dtype=float))
        for target in targets[~np.isnan(targets)].tolist() if targets.ndim == 2 else targets.tolist():
            check_target_recall(target)
        if targets.ndim == 2 and (targets.shape[1] != n_labels or criterion == "coverage"):
            raise InputError(
                f"targets by label must be {n_labels}, of min recall, got {targets.shape[1]} of {criterion}."
            )
        if penalty not in get_args(Penalty):
            raise InputError(f"penalty must be 'wrong-label' or 'full-set', got {penalty!r}.")
        if n_domains < 1 or n_labels < 1:
            raise InputError(f"at least one domain and one label are needed, got {n_domains} and {n_labels}.")
        start = np.atleast_1d(np.asarray(initial_multiplier, dtype=np.float32))
        if start.shape not in ((1,), (n_labels,), (len(targets), n_labels)):
            raise InputError(
                f"initial_multiplier must be one number or {n_labels}, one per label, got {start.shape[-1]}."
            )
        if not (0 < floor <= start.min() and start.max() <= cap):
            span = " to ".join(f"{end:g}" for end in dict.fromkeys((float(start.min()), float(start.max()))))
            raise InputError(f"multipliers need 0 < floor <= start <= cap, got {floor:g}, {span} and {cap:g}.")
        replicas = (len(targets),) if np.ndim(target_recall) else ()
        if criterion == "coverage":
            start = start.mean(axis=-1, keepdims=True)
        n_groups = 1 if criterion == "coverage" else n_labels
        self.shape, self.n_labels = (*replicas, n_domains, n_groups), n_labels
        self.penalty, self.floor, self.cap = penalty, floor, cap
        self.gather = True  # False if recall is computed separately
        first_cells = torch.arange(len(targets)).view(*replicas, 1) * (n_domains * n_groups)
        by_cell = torch.from_numpy(start if start.ndim == 1 else start[:, None, :])
        self.register_buffer("multipliers", by_cell.expand(self.shape).clone())
        self.register_buffer("target_recall", torch.from_numpy(targets).view(*replicas, 1, -1))
        self.register_buffer("_first_cells", first_cells, persistent=False)
        self.counts = CellCounts(self.shape, first_cells, n_labels)

    def forward(self, scores: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
        """Return the batch's loss; in training mode, also count its hits for the next update."""
        cells = self._cells(labels, domains)
        own = labels.unsqueeze(-1)
        # relu(w ± w·score) = w · relu(1 ± score), so one signed weight gives both hinges in one product
        signed = torch.ones_like(scores).scatter_(-1, own, -self.multipliers.take(cells).unsqueeze(-1).to(scores.dtype))
        loss = torch.addcmul(signed.abs(), signed, scores).relu().sum((-2, -1))
        if self.penalty == "full-set":
            loss = loss + (1 + scores.gather(-1, own)).relu().sum((-2, -1))
        if self.gather and self.training:
            self.counts.add(scores.detach(), labels, cells)
        return loss / labels.shape[-1]

    def count(self, scores: Tensor, labels: Tensor, domains: Tensor, counts: Tensor | None = None) -> None:
        """Count scores for the next update without computing a loss; a mask can exclude examples."""
        self.counts.add(scores.detach(), labels, self._cells(labels, domains), counts)

    @torch.no_grad()
    def update(self) -> Tensor:
        """Update the multipliers from the recall counted since the last update, and return that recall."""
        recall = self.counts.recall().to(self.multipliers.device)
        self.counts.reset()
        self.multipliers.copy_(updated_multipliers(self.multipliers, recall, self.target_recall, self.floor, self.cap))
        return recall

    def _cells(self, labels: Tensor, domains: Tensor) -> Tensor:
        group = labels if self.shape[-1] == self.n_labels else torch.zeros_like(labels)
        return torch.add(self._first_cells + group, domains, alpha=self.shape[-1])
