"""Adam for stacks of small networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

WIDTH = 64  # numbers; a multiple of any processor's vector registers
BETAS, EPS = (0.9, 0.999), 1e-8  # torch's defaults


class FlatAdam:
    """Adam (Kingma and Ba 2015) on all parameters as one vector.

    Takes the same steps as `torch.optim.Adam(fused=True)`, whose `step` takes 15 times as long as the kernel that it
    calls for a small network. The parameters permanently become views of one vector, so this is for stacks only, not
    for users' networks.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        trained, self.rate = list(parameters), lr
        self._weights = torch.cat([parameter.detach().reshape(-1) for parameter in trained])
        # Whole vector registers, since a rest is computed apart, and rounded otherwise.
        self._weights = nn.functional.pad(self._weights, (0, -len(self._weights) % WIDTH))
        self._n_steps = self._weights.new_zeros((), dtype=torch.float32)
        self._gradient, self._mean, self._square = (torch.zeros_like(self._weights) for _ in range(3))
        start = 0
        for parameter in trained:
            part = slice(start, start + parameter.numel())
            parameter.data = self._weights[part].view_as(parameter)
            parameter.grad = self._gradient[part].view_as(parameter)  # backward adds into it
            start = part.stop

    def zero_grad(self) -> None:
        """Reset the gradient."""
        self._gradient.zero_()

    def step(self) -> None:
        """Update the parameters with the accumulated gradient."""
        self._n_steps += 1
        torch._fused_adam_(
            [self._weights],
            [self._gradient],
            [self._mean],
            [self._square],
            [],
            [self._n_steps],
            lr=self.rate,
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=0.0,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )

    def restart(self) -> None:
        """Reset the moment estimates."""
        self._mean.zero_()
        self._square.zero_()
        self._n_steps.zero_()

    def saved_state(self) -> dict[str, Tensor]:
        """Return the optimiser's state as named tensors."""
        return {"mean": self._mean, "square": self._square, "n_steps": self._n_steps}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._n_steps.copy_(state["n_steps"])


class TorchAdam(torch.optim.Adam):
    """PyTorch's Adam with the interface of `FlatAdam`."""

    @property
    def rate(self) -> float:
        """The learning rate."""
        return float(self.param_groups[0]["lr"])

    @rate.setter
    def rate(self, rate: float) -> None:
        self.param_groups[0]["lr"] = rate

    def restart(self) -> None:
        """Reset the moment estimates."""
        self.state.clear()

    def saved_state(self) -> dict[str, Tensor]:
        """Return the optimiser's state as named tensors."""
        parameters = self.param_groups[0]["params"]
        return {
            f"{k}.{name}": value
            for k, parameter in enumerate(parameters)
            for name, value in self.state[parameter].items()
        }

    @torch.no_grad()
    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        parameters = self.param_groups[0]["params"]
        for name, value in state.items():
            number, key = name.split(".")
            parameter = parameters[int(number)]
            self.state[parameter][key] = value.clone() if key == "step" else value.to(parameter.device).clone()
