"""Select the best weights of training, and stop early."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from domaincover.networks.stacks import Stack

KNOWN = ("first", "second", "n_offers_since_better", "closed")  # state of each replica


class BestWeights:
    """The best weights of each replica: lowest first criterion, then lowest second."""

    def __init__(self, stacked: Stack, n_replicas: int) -> None:
        self._stacked = stacked
        self._state = [state.detach().clone() for state in self._current()]
        self._first, self._second = (torch.full((n_replicas,), torch.inf, dtype=torch.float64) for _ in range(2))
        self._n_offers_since_better = torch.zeros(n_replicas, dtype=torch.int64)
        self._closed = torch.zeros(n_replicas, dtype=torch.bool)

    @property
    def all_closed(self) -> bool:
        """Whether all replicas have stopped."""
        return bool(self._closed.all())

    def close(self, patience: int) -> None:
        """Stop the replicas without improvement in the last `patience` offers."""
        self._closed |= self._n_offers_since_better >= patience

    @torch.no_grad()
    def offer(self, first: Tensor, second: Tensor) -> None:
        """Store the current weights of the replicas that have improved."""
        first, second = first.to(self._first), second.to(self._second)
        better = (first < self._first) | ((first == self._first) & (second < self._second))
        better &= ~second.isnan() & ~self._closed  # NaN: nothing was counted, as after two updates in a row
        self._first = torch.where(better, first, self._first)
        self._second = torch.where(better, second, self._second)
        for best, state in zip(self._state, self._current(), strict=True):
            best.copy_(torch.where(self._stacked.by_replica(better, state), state, best))
        self._n_offers_since_better = torch.where(better, 0, self._n_offers_since_better + 1)

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the best weights of all replicas that were evaluated."""
        judged = self._first.isfinite()
        for best, state in zip(self._state, self._current(), strict=True):
            state.copy_(torch.where(self._stacked.by_replica(judged, state), best, state))

    def saved_state(self) -> dict[str, Tensor]:
        """Return the best weights and their criteria as named tensors."""
        weights = {f"weights.{k}": state for k, state in enumerate(self._state)}
        return weights | {name: getattr(self, f"_{name}") for name in KNOWN}

    @torch.no_grad()
    def load_saved_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        for k, state in enumerate(self._state):
            state.copy_(saved[f"weights.{k}"])
        for name in KNOWN:
            setattr(self, f"_{name}", saved[name])

    def _current(self) -> list[Tensor]:
        return [*self._stacked.parameters(), *self._stacked.buffers()]


def shortfall(recall: Tensor, target_recall: Tensor) -> Tensor:
    """Return how far the worst cell of each replica is below its target, at least 0."""
    return (target_recall - recall).nan_to_num(0.0).clamp(min=0).amax((-2, -1))
