"""Which of the weights that training met to keep, and when to stop looking."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from domaincover.networks.stacks import Stack

KNOWN = ("first", "second", "n_offers_since_better", "closed")  # of each replica's best weights


class BestWeights:
    """The best weights so far, replica by replica: lowest first criterion, then lowest second."""

    def __init__(self, stacked: Stack, n_replicas: int) -> None:
        self._stacked = stacked
        self._state = [state.detach().clone() for state in self._current()]
        self._first, self._second = (torch.full((n_replicas,), torch.inf, dtype=torch.float64) for _ in range(2))
        self._n_offers_since_better = torch.zeros(n_replicas, dtype=torch.int64)
        self._closed = torch.zeros(n_replicas, dtype=torch.bool)

    @property
    def all_closed(self) -> bool:
        """Whether no replica takes better weights any more."""
        return bool(self._closed.all())

    def close(self, patience: int) -> None:
        """Stop looking for replicas whose last offers brought nothing better, each by itself, as if it were alone."""
        self._closed |= self._n_offers_since_better >= patience

    @torch.no_grad()
    def offer(self, first: Tensor, second: Tensor) -> None:
        """Keep the current weights of the replicas for which they are better than before."""
        first, second = first.to(self._first), second.to(self._second)
        better = (first < self._first) | ((first == self._first) & (second < self._second))
        better &= ~second.isnan() & ~self._closed  # NaN: nothing was counted, after two updates in a row
        self._first = torch.where(better, first, self._first)
        self._second = torch.where(better, second, self._second)
        for best, state in zip(self._state, self._current(), strict=True):
            best.copy_(torch.where(self._stacked.by_replica(better, state), state, best))
        self._n_offers_since_better = torch.where(better, 0, self._n_offers_since_better + 1)

    @torch.no_grad()
    def restore(self) -> None:
        """Go back to the best weights, where any were judged."""
        judged = self._first.isfinite()
        for best, state in zip(self._state, self._current(), strict=True):
            state.copy_(torch.where(self._stacked.by_replica(judged, state), best, state))

    def saved_state(self) -> dict[str, Tensor]:
        """Return the best weights and what is known of them, by name."""
        weights = {f"weights.{k}": state for k, state in enumerate(self._state)}
        return weights | {name: getattr(self, f"_{name}") for name in KNOWN}

    @torch.no_grad()
    def load_saved_state(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from such weights."""
        for k, state in enumerate(self._state):
            state.copy_(saved[f"weights.{k}"])
        for name in KNOWN:
            setattr(self, f"_{name}", saved[name])

    def _current(self) -> list[Tensor]:
        return [*self._stacked.parameters(), *self._stacked.buffers()]


def shortfall(recall: Tensor, target_recall: Tensor) -> Tensor:
    """Return how far the worst cell of each replica is below its target; 0 where none is."""
    return (target_recall - recall).nan_to_num(0.0).clamp(min=0).amax((-2, -1))
