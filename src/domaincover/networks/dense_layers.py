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
from domaincover.networks.threads import one_blas_thread

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
        scores = np.empty((len(examples), len(self.biases[-1])), dtype=np.float32)
        layers = [(weight.T.astype(np.float64), bias) for weight, bias in zip(self.weights, self.biases, strict=True)]
        first = np.vstack([layers[0][0], self.biases[0]])  # with the bias as the weight of a feature that is always 1
        inputs = np.ones((min(ROWS_AT_ONCE, len(examples)), len(first)))
        # Small products gain nothing from several threads, which on busy cores wait for each other many times as long.
        with one_blas_thread():
            for start in range(0, len(examples), ROWS_AT_ONCE):
                rows = examples[start : start + ROWS_AT_ONCE]
                inputs[: len(rows), :-1] = rows
                units = inputs[: len(rows)] @ first
                for weight, bias in layers[1:]:
                    units = np.maximum(units, 0, out=units) @ weight
                    units += bias
                with np.errstate(over="ignore"):  # beyond single precision is infinite, as in torch
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
    shapes: dict[str, tuple[int, ...]] = {}
    for k, (n_in, n_out) in enumerate(pairwise(widths)):
        shapes |= {f"{2 * k}.weight": (n_out, n_in), f"{2 * k}.bias": (n_out,)}
    faults = [f"{key!r} is not in the file" for key in shapes if key not in tensors]
    faults += [f"{key!r} is not in the network" for key in tensors if key not in shapes]
    faults += [
        f"{key!r} is {value.shape} of {value.dtype} in the file and {shapes[key]} of float32 in the network"
        for key, value in tensors.items()
        if key in shapes and (value.shape != shapes[key] or value.dtype != np.float32)
    ]
    if faults:
        raise InputError(f"{name} does not fit the network: {'; '.join(faults[:3])}.")
    return DenseLayers.of(tensors)
