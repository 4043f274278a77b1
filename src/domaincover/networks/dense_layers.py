"""The scores of perceptrons and linear models, with numpy alone.

Scores are computed in double precision and given in single. So the order of additions, which depends on the rows
beside a row, on the number of threads and on the processor, is rounded away: whoever calibrated a threshold at a score
and whoever predicts later see the same score.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domaincover.errors import InputError
from domaincover.terminal.processes import one_blas_thread

ROWS_AT_ONCE = 1024  # so that hidden units stay in the processor's cache


class DenseLayers(NamedTuple):
    """Weights (outputs × inputs) and biases of each layer; a ReLU stands between two layers."""

    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]

    @classmethod
    def of(cls, tensors: Mapping[str, Any]) -> DenseLayers:
        """Return the layers of a `torch.nn.Sequential`, from its tensors as arrays: 0.weight, 0.bias, 2.weight, …"""
        places = sorted({int(name.partition(".")[0]) for name in tensors})
        return cls(*(tuple(tensors[f"{place}.{part}"] for place in places) for part in ("weight", "bias")))

    @property
    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """The arrays by their names in a `torch.nn.Sequential` of linear layers and ReLUs."""
        pairs = enumerate(zip(self.weights, self.biases, strict=True))
        return {
            f"{2 * k}.{name}": part for k, pair in pairs for name, part in zip(("weight", "bias"), pair, strict=True)
        }

    def scores(self, examples: NDArray[Any]) -> NDArray[np.float32]:
        """Return one score per label of each example."""
        n_rows = min(ROWS_AT_ONCE, len(examples))
        weights = [weight.T.astype(np.float64) for weight in self.weights]
        # Blocks of the same row: with one row or number for all rows, numpy is up to five times as slow.
        biases = [np.tile(bias.astype(np.float64), (n_rows, 1)) for bias in self.biases]
        zeros = [np.zeros_like(bias) for bias in biases[:-1]]
        found = [np.empty_like(bias) for bias in biases]
        scores = np.empty((len(examples), len(self.biases[-1])), dtype=np.float32)
        # Small products gain nothing from several threads, which on busy cores wait for each other many times as long.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # too large is infinite, as in torch
            for start in range(0, len(examples), ROWS_AT_ONCE):
                units = examples[start : start + ROWS_AT_ONCE].astype(np.float64, copy=False)
                n = len(units)
                for k, weight in enumerate(weights):
                    if k > 0:
                        np.maximum(units, zeros[k - 1][:n], out=units)
                    units = np.matmul(units, weight, out=found[k][:n])
                    units += biases[k][:n]
                scores[start : start + ROWS_AT_ONCE] = units
        return scores


def layer_widths(network: str, hidden: Any, n_features: int, n_labels: int) -> list[int]:
    """Return the numbers of features, of each layer's hidden units, and of labels.

    >>> layer_widths("mlp", 64, 10, 2), layer_widths("linear", 64, 10, 2)
    ([10, 64, 2], [10, 2])
    """
    between = [] if network == "linear" else np.atleast_1d(np.asarray(hidden, dtype=np.int64)).tolist()
    return [n_features, *between, n_labels]


def checked_layers(tensors: Mapping[str, Any], widths: list[int], name: str) -> DenseLayers:
    """Return layers from a file, of these widths; reject others."""
    own: dict[str, NDArray[np.float32]] = {}
    for k, (n_in, n_out) in enumerate(pairwise(widths)):  # without memory, which a forged width could exhaust
        own[f"{2 * k}.weight"] = np.broadcast_to(np.float32(0), (n_out, n_in))
        own[f"{2 * k}.bias"] = np.broadcast_to(np.float32(0), n_out)
    check_tensors(own, tensors, name)
    return DenseLayers.of(tensors)


def check_tensors(own: Mapping[str, Any], saved: Mapping[str, Any], name: str) -> None:
    """Raise unless saved arrays or tensors fit those of a network."""
    faults = [f"{key!r} is not in the file" for key in own if key not in saved]
    faults += [f"{key!r} is not in the network" for key in saved if key not in own]
    for key in own.keys() & saved.keys():
        kinds = [f"{tuple(value.shape)} of {value.dtype}" for value in (saved[key], own[key])]
        if kinds[0] != kinds[1]:
            faults.append(f"{key!r} is {kinds[0]} in the file and {kinds[1]} in the network")
    if faults:
        raise InputError(f"{name} does not fit the network: {'; '.join(faults[:3])}.")
