"""Select the best weights of training, and stop early."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from domaincover.networks.perceptrons import Stack


class BestWeights(nn.Module):
    """The best weights of each replica: lowest first criterion, then lowest second.

    A replica that has stopped, while others go on, is held at the weights that it had then, as if trained alone. All is
    in `state_dict()`.
    """

    first: Tensor
    second: Tensor
    n_offers_since_better: Tensor
    stopped: Tensor  # the length of each replica's history when it stopped; 0 for one that has not

    def __init__(self, stacked: Stack, n_replicas: int) -> None:
        super().__init__()
        self._stacked = (stacked,)  # a tuple, so that torch does not register it as a submodule
        for name in ("first", "second"):
            self.register_buffer(name, torch.full((n_replicas,), torch.inf, dtype=torch.float64))
        for name in ("n_offers_since_better", "stopped"):
            self.register_buffer(name, torch.zeros(n_replicas, dtype=torch.int64))
        self._best, self._held = self._copies("best"), self._copies("held") if n_replicas > 1 else []

    @property
    def stopped_at(self) -> list[int | None]:
        """The length of each replica's history when it stopped; None for one that has not."""
        return [length or None for length in self.stopped.tolist()]

    @property
    def all_closed(self) -> bool:
        """Whether all replicas have stopped."""
        return None not in self.stopped_at

    def close(self, patience: int, length: int) -> None:
        """Stop the replicas without improvement in the last `patience` offers; `length` is that of histories."""
        stops = (self.n_offers_since_better >= patience) & (self.stopped == 0)
        self.stopped[stops] = length
        self._copy(stops, self._current(), self._held)

    def hold(self) -> None:
        """Give the replicas that have stopped the weights that they had then."""
        self._copy(self.stopped > 0, self._held, self._current())

    def offer(self, first: Tensor, second: Tensor) -> None:
        """Store the current weights of the replicas that have improved."""
        first, second = first.to(self.first), second.to(self.second)
        better = (first < self.first) | ((first == self.first) & (second < self.second))
        better &= ~second.isnan() & (self.stopped == 0)  # NaN: nothing was counted, as after two updates in a row
        self.first = torch.where(better, first, self.first)
        self.second = torch.where(better, second, self.second)
        self._copy(better, self._current(), self._best)
        self.n_offers_since_better = torch.where(better, 0, self.n_offers_since_better + 1)

    def restore(self) -> None:
        """Restore the best weights of all replicas that were evaluated."""
        self._copy(self.first.isfinite(), self._best, self._current())

    def _current(self) -> list[Tensor]:
        return [*self._stacked[0].parameters(), *self._stacked[0].buffers()]

    def _copies(self, name: str) -> list[Tensor]:
        """Return copies of the current weights, as buffers."""
        copies = [state.detach().clone() for state in self._current()]
        for number, copy in enumerate(copies):
            self.register_buffer(f"{name}{number}", copy)
        return copies

    @torch.no_grad()
    def _copy(self, replicas: Tensor, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
        """Copy the weights of the masked replicas."""
        if target and source and replicas.any():
            for new, old in zip(source, target, strict=True):
                old.copy_(torch.where(self._stacked[0].by_replica(replicas, old), new, old))


def shortfall(recall: Tensor, target_recall: Tensor) -> Tensor:
    """Return how far the worst cell of each replica is below its target, at least 0."""
    return (target_recall - recall).nan_to_num(0.0).clamp(min=0).amax((-2, -1))


def worst_recall(recall: Tensor, target_recall: Tensor) -> Tensor:
    """Return the recall of the worst cell of each replica that has a target; infinity without one."""
    return (recall + 0 * target_recall).nan_to_num(torch.inf).amin((-2, -1))
