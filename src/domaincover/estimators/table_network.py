"""What a network classifier asks of its `network`; and networks on tables: perceptrons, or a user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from domaincover.data.disk_table import DiskTable
from domaincover.data.encoding import TableEncoder, checked_inputs, learned_rows
from domaincover.errors import InputError
from domaincover.networks.saved_tensors import copy_tensors
from domaincover.options import NetworkName

if TYPE_CHECKING:
    from torch import Tensor, nn

MakeNetwork = Callable[[int, int], Any]  # the numbers of features and labels -> a torch.nn.Module


class NetworkInputs:
    """Base class of `TableNetwork` and `SourceNetwork`, which have the same methods; this one needs no torch."""

    is_dense: ClassVar[bool] = False  # layers and ReLUs, which numpy scores
    reads_sources: ClassVar[bool] = False  # files or texts, some of which may be unreadable

    is_small: ClassVar[bool] = False  # trained whole in seconds, so that a default schedule can be long

    def readable(self, X: Any) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Return a mask of readable examples; None means all."""
        return None

    def tensors(self, network: nn.Module) -> dict[str, Any]:
        """Return a network's tensors by name."""
        return network.state_dict()


@dataclass(frozen=True)
class TableNetwork(NetworkInputs):
    """The `network` and `hidden` parameters of a classifier on tables."""

    network: NetworkName | MakeNetwork
    hidden: int | Sequence[int]

    @property
    def is_dense(self) -> bool:  # type: ignore[override]
        """Whether it is a perceptron or a linear model, rather than a user's network."""
        return not callable(self.network)

    def stacks(self, device: str) -> bool:  # noqa: ARG002
        """Whether several networks are trained as one stack; a user's network may not support it."""
        return self.is_dense

    def check(self) -> None:
        """Raise if settings are invalid."""
        if not callable(self.network) and self.network not in get_args(NetworkName):
            raise InputError(
                f"network must be 'linear', 'mlp', a function that returns one, an ImageNetwork or a TextNetwork, "
                f"got {self.network!r}."
            )
        widths = np.atleast_1d(np.asarray(self.hidden))
        if self.network == "mlp" and widths.size and (widths.dtype.kind not in "iu" or widths.min() < 1):
            raise InputError(f"hidden must be one or several positive integers, got {self.hidden!r}.")

    def device(self, device: str) -> str:
        """Return the device: by default the CPU, since small networks gain nothing from a GPU."""
        return "cpu" if device == "auto" else device

    def checked(self, model: Any, X: Any, *, reset: bool) -> Any:
        """Validate the names and number of columns, or learn them."""
        if isinstance(X, DiskTable):
            checked_inputs(model, X[:1].read(), reset=reset)
            return X
        return checked_inputs(model, X, reset=reset)

    def fitted_encoder(self, X: Any, device: str, name: str = "", standardize: bool = True) -> TableEncoder:  # noqa: ARG002
        """Return an encoder fitted to the table, or to some rows of a large one."""
        return TableEncoder(scale=standardize).fit(learned_rows(X))

    def make(self, encoder: TableEncoder, n_labels: int, rng: np.random.Generator) -> nn.Module:
        """Return an initialised network."""
        from domaincover.networks.perceptrons import linear, perceptron

        n_features = encoder.n_features_out
        if callable(self.network):
            return self._called(n_features, n_labels)
        if self.network == "linear":
            return linear(n_features, n_labels, rng)
        return perceptron(n_features, self.hidden, n_labels, rng)

    def rebuilt(self, encoder: TableEncoder, n_labels: int, tensors: Mapping[str, Tensor], name: str) -> nn.Module:
        """Rebuild a user's network from saved tensors."""
        import torch

        with torch.random.fork_rng(devices=[]):  # its initial weights are discarded
            network = made_by(self.network, encoder.n_features_out, n_labels)
        copy_tensors(network, tensors, name)
        return network

    def _called(self, n_features: int, n_labels: int) -> nn.Module:
        import torch

        network = made_by(self.network, n_features, n_labels)
        n_scores = network.eval()(torch.zeros(2, n_features)).shape[-1]
        if n_scores != n_labels:
            raise InputError(f"network must return one score per label, {n_labels}; it returns {n_scores}.")
        return network


def made_by(function: Any, *sizes: int) -> nn.Module:
    """Return the network created by a user's function."""
    from torch import nn

    if isinstance(function, nn.Module):
        raise InputError("network must be a function that returns a new torch.nn.Module, not a module.")
    network = function(*sizes)
    if not isinstance(network, nn.Module):
        raise InputError(f"network must return a torch.nn.Module, got {type(network).__name__}.")
    return network
