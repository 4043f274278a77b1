"""Training objectives: a loss from the scores, label codes and domain codes of a batch.

Given a stack, with replicas along a leading axis, an objective returns one loss per replica.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, distributed, nn

from domaincover.criteria import check_target_recall
from domaincover.errors import InputError
from domaincover.options import CriterionName, Penalty

LARGEST_HALF = torch.finfo(torch.float16).max
FEWEST_TO_CALL_PROBABILITIES = 10  # examples; scores of fewer may add up to 1 by chance
ROUNDING = 0.01  # of a sum of probabilities in bfloat16


class Objective(nn.Module):
    """A loss of a batch's scores, label codes, domain codes and, if it needs them, features."""

    needs_features = False  # whether the inputs of the network's last linear layer are needed
    is_warm = True  # whether weights can be judged, since the loss is what it stays

    def begin_step(self, step: int) -> bool:  # noqa: ARG002
        """Prepare a step, counted from 0, and return whether the optimiser must be reset before it."""
        return False

    @torch.enable_grad()
    def value_and_slopes(
        self, scores: Tensor, labels: Tensor, domains: Tensor, *features: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the loss of each replica, and its gradients with respect to scores and, if needed, features."""
        known = [part.detach().requires_grad_() for part in (scores, *features)]
        value = self(known[0], labels, domains, *known[1:])
        return value.detach(), torch.autograd.grad(value.sum(), known, materialize_grads=True)


class WithGradient(Objective):
    """A loss whose `value_and_slopes` writes the gradient out; for small networks autograd takes longer."""

    def forward(self, scores: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
        """Return the batch's loss, one for each replica of a stack."""
        value, (slope,) = self.value_and_slopes(scores, labels, domains)
        return value + (slope * (scores - scores.detach())).sum((-2, -1))  # the value, and its gradient for autograd


def log_softmax(scores: Tensor) -> Tensor:
    """Return logarithms of probabilities; along examples, since few labels side by side are slow to normalise."""
    return scores.transpose(-1, -2).log_softmax(-2).transpose(-1, -2)


class CrossEntropy(WithGradient):
    """Mean cross-entropy of logits, ignoring domains (ERM)."""

    @torch.no_grad()
    def value_and_slopes(
        self,
        scores: Tensor,
        labels: Tensor,
        domains: Tensor,  # noqa: ARG002
        *_: Tensor,
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the mean loss of the batch, and its gradient with respect to the scores."""
        own, n_examples = labels.unsqueeze(-1), labels.shape[-1]
        slope = log_softmax(scores)
        value = slope.gather(-1, own).sum((-2, -1)) / -n_examples
        minus_one = slope.new_full((1,), -1.0).expand(own.shape)
        return value, [slope.exp_().scatter_add_(-1, own, minus_one).div_(n_examples)]


class DoubleSoftmaxCrossEntropy(CrossEntropy):
    """Mean cross-entropy that takes probabilities for logits, so that softmax is applied twice.

    The code that the paper's authors released trains ERM with it. Of two labels, the loss of an example is between
    log(1 + 1/e) and log(1 + e), and its gradient vanishes where the network is sure, even if it is wrong.

    >>> import torch
    >>> sure_and_right = torch.tensor([[100.0, 0.0]])
    >>> DoubleSoftmaxCrossEntropy()(sure_and_right, torch.tensor([0]), torch.tensor([0]))
    tensor(0.3133)
    """

    @torch.no_grad()
    def value_and_slopes(
        self, scores: Tensor, labels: Tensor, domains: Tensor, *_: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the mean loss of the batch, and its gradient with respect to the scores."""
        probabilities = scores.softmax(-1)
        value, (slope,) = super().value_and_slopes(probabilities, labels, domains)
        return value, [probabilities * (slope - (probabilities * slope).sum(-1, keepdim=True))]


class SetCoverLoss(WithGradient):
    """SET-COVER's loss: a label is in the set if its score is at least 0.

    A wrong label costs relu(1 + score); the true one costs multiplier[domain, label] · relu(1 − score), and with the
    full-set penalty also relu(1 + score). Costs are summed over labels and averaged over the batch, in single precision
    at least. In training mode, batches with gradients are counted, and `update` adjusts the multipliers by the recall
    in them. Multipliers and counts are in `state_dict()`. With coverage as criterion, a domain has one multiplier for
    all labels, which follows the share of its examples whose set holds their label.

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
        by_cell = torch.from_numpy(start if start.ndim == 1 else start[:, None, :])
        self.register_buffer("multipliers", by_cell.expand(self.shape).clone())
        # No buffer, which other precisions would round: updates are computed on the CPU, in double precision.
        self.target_recall = torch.from_numpy(targets).view(*replicas, 1, -1)
        self.counts = CellCounts(self.shape, n_labels)

    def forward(self, scores: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
        """Return the batch's loss; in training mode with gradients, also count its hits for the next update."""
        labels, domains = self._checked(scores, labels, domains)
        if self.training and torch.is_grad_enabled():
            self.counts.add(scores.detach(), labels, domains)
        return super().forward(scores, labels, domains)

    @torch.no_grad()
    def value_and_slopes(
        self, scores: Tensor, labels: Tensor, domains: Tensor, *_: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the batch's loss and its gradient, in single precision or better."""
        is_half, scores = scores.dtype == torch.float16, scores.to(torch.promote_types(scores.dtype, torch.float32))
        cells, own, per_example = self.counts.cells(labels, domains), labels.unsqueeze(-1), 1 / labels.shape[-1]
        weights = (self.multipliers.flatten(-2).gather(-1, cells) * -per_example).unsqueeze(-1).to(scores.dtype)
        # relu(w ± w·score) = w · relu(1 ± score), so one signed weight gives both hinges in one product
        signed = torch.full_like(scores, per_example).scatter_(-1, own, weights)
        margins = signed.abs().addcmul_(signed, scores).relu_()
        value, slope = margins.sum((-2, -1)), torch.ops.aten.threshold_backward(signed, margins, 0)
        if self.penalty == "full-set":
            margins = (1 + scores.gather(-1, own)).relu_()
            value = value + margins.sum((-2, -1)) * per_example
            slope = slope.scatter_add_(-1, own, (margins > 0).to(slope) * per_example)
        if is_half:  # a gradient of such scores has to be one of its numbers
            slope.clamp_(-LARGEST_HALF, LARGEST_HALF)
        return value, [slope]

    def count(self, scores: Tensor, labels: Tensor, domains: Tensor) -> None:
        """Count scores for the next update without computing a loss."""
        labels, domains = self._checked(scores, labels, domains)
        self.counts.add(scores.detach(), labels, domains)

    @torch.no_grad()
    def update(self, over_processes: bool = True) -> Tensor:
        """Update the multipliers from the recall counted since the last update, and return that recall.

        Counts are added up over the processes of `torch.distributed`, if it is initialised: all of them must call this.
        With `over_processes=False` each process has multipliers of its own.
        """
        if over_processes and distributed.is_available() and distributed.is_initialized():
            totals = self.counts.totals.to(self.multipliers.device)
            distributed.all_reduce(totals)
            self.counts.totals = totals
        recall = self.counts.recall()
        self.counts.reset()
        before = self.multipliers.cpu()
        self.multipliers.copy_(updated_multipliers(before, recall, self.target_recall, self.floor, self.cap))
        return recall

    def get_extra_state(self) -> Tensor:
        """Return the counts since the last update; no buffer, which data-parallel wrappers would overwrite."""
        return self.counts.totals

    def set_extra_state(self, state: Tensor) -> None:
        """Restore saved counts."""
        self.counts.totals = state

    def _checked(self, scores: Tensor, labels: Tensor, domains: Tensor) -> tuple[Tensor, Tensor]:
        check_scores(scores, self.shape[:-2], self.n_labels)
        n_examples = tuple(scores.shape[:-1])
        labels = checked_codes(labels, n_examples, self.n_labels, "label")
        return labels, checked_codes(domains, n_examples, self.shape[-2], "domain")

    def _apply(self, fn: Any, recurse: bool = True) -> SetCoverLoss:
        """Move to a device, and never to a lower precision, in which multipliers would be others."""
        before = self.multipliers
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        precise = torch.promote_types(before.dtype, self.multipliers.dtype)
        self.multipliers = before.to(self.multipliers.device, precise)
        return self


def check_scores(scores: Any, replicas: tuple[int, ...], n_labels: int) -> None:
    """Reject scores of another shape, NaN, and what has been through a softmax."""
    expected = f"({', '.join([*map(str, replicas), 'examples', str(n_labels)])})"
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise InputError(f"scores must be a floating-point tensor, {expected}, got {_kind(scores)}.")
    shape = tuple(scores.shape)
    if len(shape) != len(replicas) + 2 or shape[:-2] != replicas or shape[-1] != n_labels:
        raise InputError(f"scores must have one column for each of the {n_labels} labels, {expected}, got {shape}.")
    if shape[-2] == 0:
        raise InputError("the batch has no examples; leave it out.")
    scores = scores.detach()
    low, high = map(float, scores.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError("the network's scores are NaN or infinite; lower the learning rate.")
    is_constant = float((scores[..., 0] - scores[..., :1, 0]).abs().max()) < ROUNDING
    if n_labels == 1 or shape[-2] < FEWEST_TO_CALL_PROBABILITIES or is_constant:
        return
    for name, may_be, values in (("softmax", low >= 0, scores), ("log_softmax", high <= 0, scores.float().exp())):
        if may_be and float((values.float().sum(-1) - 1).abs().max()) < ROUNDING:
            raise InputError(
                f"scores look like the result of {name}; leave it out: the loss takes a network's raw outputs, and a "
                "label is in the set if its score is at least 0."
            )


def checked_codes(codes: Any, shape: tuple[int, ...], n: int, what: str) -> Tensor:
    """Return integer codes from 0 to n − 1, of the given shape, as int64; reject others."""
    if not isinstance(codes, Tensor) or codes.is_floating_point() or codes.is_complex():
        raise InputError(f"{what}s must be a tensor of integer codes, 0 to {n - 1}, got {_kind(codes)}.")
    if tuple(codes.shape) != shape:
        raise InputError(f"{what}s must have one code for each example, shape {shape}, got {tuple(codes.shape)}.")
    codes = codes.long()
    check_codes(codes, n, what)
    return codes


def check_codes(codes: Tensor, n: int, what: str) -> None:
    """Raise if codes are not within 0 to n − 1, since they would select multipliers of other cells."""
    low, high = map(int, codes.aminmax())
    if low < 0 or high >= n:
        raise InputError(f"{what} codes run from {low} to {high}, but the loss has {n} {what}s: 0 to {n - 1}.")


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def updated_multipliers(multipliers: Tensor, recall: Tensor, target_recall: Tensor, floor: float, cap: float) -> Tensor:
    """Raise the multipliers of cells below the target and lower those above; without recall or target (NaN), none.

    This is update_c of the paper's Algorithm 1. The factor is ν = 1 − (recall − target), doubled below the target.
    """
    factor = 1 - (recall - target_recall)
    factor = torch.where(factor > 1, 2 * factor, factor)
    moved = (multipliers * factor).clamp(floor, cap).to(multipliers.dtype)
    return torch.where((recall - target_recall).isnan(), multipliers, moved)


class CellCounts:
    """Count hits and examples of every cell, and the labels in all sets, over batches.

    Batches are collected and counted together, since counting each would cost as much as the loss.
    """

    MOST_PENDING_SCORES = 40_000  # few enough to stay in the processor's cache

    def __init__(self, shape: tuple[int, ...], n_labels: int) -> None:
        self._n_labels = n_labels
        self.shape = shape  # (…replicas, domains, labels), or one group in place of the labels
        *replicas, n_domains, n_groups = shape
        self._first_cells = torch.arange(math.prod(replicas)).view(*replicas, 1) * (n_domains * n_groups)
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self._pending: list[tuple[Tensor, Tensor, Tensor]] = []
        self._n_pending = 0
        n_cells, n_replicas = math.prod(self.shape), math.prod(self.shape[:-2])
        self._totals = torch.zeros(2 * n_cells + n_replicas, dtype=torch.int64)  # misses and hits, labels in sets

    @property
    def totals(self) -> Tensor:
        """All counts, as one vector that is kept with checkpoints and summed over processes."""
        self._count_pending()
        return self._totals

    @totals.setter
    def totals(self, totals: Tensor) -> None:
        self.reset()
        self._totals = torch.empty_like(self._totals).copy_(totals)

    def cells(self, labels: Tensor, domains: Tensor) -> Tensor:
        """Return the cell of each example among those of its replica: domain · labels + label, or the domain."""
        is_by_label = self.shape[-1] == self._n_labels
        return torch.add(labels, domains, alpha=self._n_labels) if is_by_label else domains

    def add(self, scores: Tensor, labels: Tensor, domains: Tensor, counts: Tensor | None = None) -> None:
        """Add a batch: scores (…, example, label), label and domain codes (…, example), and an optional mask."""
        if counts is not None:
            self._count(scores, labels, domains, counts)
            return
        self._pending.append((scores, labels, domains))
        self._n_pending += scores.numel()
        if self._n_pending > self.MOST_PENDING_SCORES:
            self._count_pending()

    def recall(self) -> Tensor:
        """Return the recall of every cell, NaN for cells without examples; on the CPU, in double precision."""
        hits, n_examples = self._hits_and_examples()
        return hits / n_examples  # 0 / 0 is NaN, as intended

    def mean_set_size(self) -> Tensor:
        """Return the mean number of labels per set, by replica."""
        n_examples = self._hits_and_examples()[1].sum((-2, -1))
        return self._totals[2 * math.prod(self.shape) :].cpu().double().view(self.shape[:-2]) / n_examples

    def _hits_and_examples(self) -> tuple[Tensor, Tensor]:
        outcomes = self.totals[: 2 * math.prod(self.shape)].cpu().double().view(*self.shape, 2)
        return outcomes[..., 1], outcomes.sum(-1)

    def _count_pending(self) -> None:
        if not self._pending:
            return
        scores = torch.cat([part[0] for part in self._pending], dim=-2)
        labels, domains = (torch.cat([part[k] for part in self._pending], dim=-1) for k in (1, 2))
        self._pending, self._n_pending = [], 0
        self._count(scores, labels, domains)

    def _count(self, scores: Tensor, labels: Tensor, domains: Tensor, counts: Tensor | None = None) -> None:
        in_set, cells = scores >= 0, self.cells(labels, domains)
        hit = in_set.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        self._first_cells, self._totals = self._first_cells.to(cells.device), self._totals.to(cells.device)
        outcomes = torch.add(hit, cells + self._first_cells, alpha=2)
        if counts is not None:
            in_set, outcomes = in_set & counts.unsqueeze(-1), outcomes[counts]
        n_outcomes = 2 * math.prod(self.shape)
        self._totals[:n_outcomes] += torch.bincount(outcomes.reshape(-1), minlength=n_outcomes)
        self._totals[n_outcomes:] += in_set.sum((-2, -1)).reshape(-1)
