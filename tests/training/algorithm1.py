"""The paper's Algorithm 1 (SET-COVER), transcribed loop by loop, slow and without any of our code.

Corrections: the update frequency counts batches within the epoch (the box tests the epoch's number), a score of 0
counts as covered, a cell without examples keeps its multiplier, multipliers stay between a floor and a cap, and the
loss is averaged over the batch. Two options that the box does not have: the full-set penalty, and recall from the
scores that the training batches had since the last update. It ends with the last weights, and notes those of every
update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

import torch
from torch import Tensor, nn

Table = list[list[float]]  # one number per domain and label


@dataclass
class Trained:
    """Where the algorithm ended, and what every update saw and did."""

    multipliers: Table
    updates_at: list[tuple[int, int]] = field(default_factory=list)  # (epoch from 0, batches done in it)
    recalls: list[Table] = field(default_factory=list)
    multipliers_after: list[Table] = field(default_factory=list)
    mean_set_sizes: list[float] = field(default_factory=list)
    weights: list[list[Tensor]] = field(default_factory=list)


@dataclass(frozen=True)
class Algorithm1:
    """Settings of a run; `run` changes the network in place."""

    n_domains: int
    n_labels: int
    target_recall: float
    update_every: int
    initial_multiplier: float = 5.0
    learning_rate: float = 1e-3
    full_set_penalty: bool = False
    recall_from_batches: bool = False
    floor: float = 1e-6
    cap: float = 1e6

    def run(
        self,
        network: nn.Module,
        examples: Tensor,
        labels: Sequence[int],
        domains: Sequence[int],
        epochs: Sequence[Sequence[Sequence[int]]],
    ) -> Trained:
        """Train on `epochs`, the rows of every batch of every epoch; those of one epoch are the training data."""
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=False)
        trained = Trained([[self.initial_multiplier] * self.n_labels for _ in range(self.n_domains)])
        rows = [row for batch in epochs[0] for row in batch]
        seen: list[tuple[Tensor, int, int]] = []

        def update_c(epoch: int, batch_number: int) -> None:
            if not self.recall_from_batches:
                with torch.no_grad():
                    scores = network(examples[rows])
                seen[:] = [(scores[k], labels[i], domains[i]) for k, i in enumerate(rows)]
            self._update_c(trained, seen)
            trained.updates_at.append((epoch, batch_number))
            trained.weights.append([parameter.detach().clone() for parameter in network.parameters()])
            seen.clear()

        for epoch, batches in enumerate(epochs):
            batch_number = 0
            for batch in batches:
                batch_number += 1
                scores = network(examples[list(batch)])
                loss = torch.zeros((), dtype=scores.dtype)
                for y in range(self.n_labels):
                    loss = loss + self._loss_of_label(y, scores, batch, labels, domains, trained.multipliers)
                optimizer.zero_grad()
                (loss / len(batch)).backward()
                optimizer.step()
                seen += [(scores[k].detach(), labels[i], domains[i]) for k, i in enumerate(batch)]
                if batch_number % self.update_every == 0:
                    update_c(epoch, batch_number)
            update_c(epoch, batch_number)
        return trained

    def _loss_of_label(self, y, scores, batch, labels, domains, multipliers) -> Tensor:
        """L_y(θ, C) of the box, for one batch."""
        loss = torch.zeros((), dtype=scores.dtype)
        for k, i in enumerate(batch):
            if labels[i] != y:
                loss = loss + (1 + scores[k, y]).clamp(min=0)
            if labels[i] == y:
                loss = loss + multipliers[domains[i]][y] * (1 - scores[k, y]).clamp(min=0)
                if self.full_set_penalty:
                    loss = loss + (1 + scores[k, y]).clamp(min=0)
        return loss

    def _update_c(self, trained: Trained, seen: Sequence[tuple[Tensor, int, int]]) -> None:
        recalls = [[nan] * self.n_labels for _ in range(self.n_domains)]
        for e in range(self.n_domains):
            for y in range(self.n_labels):
                covered = [float(scores[y]) >= 0 for scores, label, domain in seen if (domain, label) == (e, y)]
                if not covered:
                    continue
                recalls[e][y] = sum(covered) / len(covered)
                nu = 1 - (recalls[e][y] - self.target_recall)
                s = 2 if nu > 1 else 1
                trained.multipliers[e][y] = min(max(trained.multipliers[e][y] * s * nu, self.floor), self.cap)
        trained.recalls.append(recalls)
        in_sets = [int((scores >= 0).sum()) for scores, _, _ in seen]
        trained.mean_set_sizes.append(sum(in_sets) / len(in_sets) if in_sets else nan)
        trained.multipliers_after.append([list(row) for row in trained.multipliers])
