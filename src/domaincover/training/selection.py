"""Select the best weights of training, and stop early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from domaincover.networks.stacks import Stack

KNOWN = ("first", "second", "n_offers_since_better", "stopped_at")  # state of each replica


class BestWeights:
    """The best weights of each replica: lowest first criterion, then lowest second.

    A replica that has stopped, while others go on, is held at the weights that it had then, as if trained alone.
    """

    def __init__(self, stacked: Stack, n_replicas: int) -> None:
        self._stacked = stacked
        self._best = [state.detach().clone() for state in self._current()]
        self._held: list[Tensor] = []  # weights of the replicas that have stopped, once there are any
        self._first, self._second = (torch.full((n_replicas,), torch.inf, dtype=torch.float64) for _ in range(2))
        self._n_offers_since_better = torch.zeros(n_replicas, dtype=torch.int64)
        self._stopped_at = torch.zeros(n_replicas, dtype=torch.int64)

    @property
    def stopped_at(self) -> list[int | None]:
        """The length of each replica's history when it stopped; None for one that has not."""
        return [length or None for length in self._stopped_at.tolist()]

    @property
    def all_closed(self) -> bool:
        """Whether all replicas have stopped."""
        return None not in self.stopped_at

    def close(self, patience: int, length: int) -> None:
        """Stop the replicas without improvement in the last `patience` offers; `length` is that of histories."""
        stops = (self._n_offers_since_better >= patience) & (self._stopped_at == 0)
        self._stopped_at[stops] = length
        if stops.any() and len(stops) > 1:
            self._held = self._held or [state.detach().clone() for state in self._current()]
            self._copy(stops, self._current(), self._held)

    def hold(self) -> None:
        """Give the replicas that have stopped the weights that they had then."""
        if self._held:
            self._copy(self._stopped_at > 0, self._held, self._current())

    def offer(self, first: Tensor, second: Tensor) -> None:
        """Store the current weights of the replicas that have improved."""
        first, second = first.to(self._first), second.to(self._second)
        better = (first < self._first) | ((first == self._first) & (second < self._second))
        better &= ~second.isnan() & (self._stopped_at == 0)  # NaN: nothing was counted, as after two updates in a row
        self._first = torch.where(better, first, self._first)
        self._second = torch.where(better, second, self._second)
        self._copy(better, self._current(), self._best)
        self._n_offers_since_better = torch.where(better, 0, self._n_offers_since_better + 1)

    def restore(self) -> None:
        """Restore the best weights of all replicas that were evaluated."""
        self._copy(self._first.isfinite(), self._best, self._current())

    def saved_state(self) -> dict[str, Tensor]:
        """Return the best weights and their criteria as named tensors."""
        kept = {f"weights.{k}": state for k, state in enumerate(self._best)}
        kept |= {f"held.{k}": state for k, state in enumerate(self._held)}
        return kept | {name: getattr(self, f"_{name}") for name in KNOWN}

    @torch.no_grad()
    def load_saved_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        for k, state in enumerate(self._best):
            state.copy_(saved[f"weights.{k}"])
            if f"held.{k}" in saved:
                self._held.append(saved[f"held.{k}"].to(state.device))
        for name in KNOWN:
            setattr(self, f"_{name}", saved[name])

    def _current(self) -> list[Tensor]:
        return [*self._stacked.parameters(), *self._stacked.buffers()]

    @torch.no_grad()
    def _copy(self, replicas: Tensor, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
        """Copy the weights of the masked replicas."""
        for new, old in zip(source, target, strict=True):
            old.copy_(torch.where(self._stacked.by_replica(replicas, old), new, old))


def shortfall(recall: Tensor, target_recall: Tensor) -> Tensor:
    """Return how far the worst cell of each replica is below its target, at least 0."""
    return (target_recall - recall).nan_to_num(0.0).clamp(min=0).amax((-2, -1))
