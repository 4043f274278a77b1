"""Adam for stacks of small networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn


class FlatAdam:
    """Adam (Kingma and Ba 2015) on all parameters as one vector.

    Takes the same steps as `torch.optim.Adam`, whose overhead is a third of a small network's training time. The
    parameters permanently become views of one vector, so this is for stacks only, not for users' networks.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self.rate, self._betas, self._eps, self._n_steps = lr, betas, eps, 0
        self._weights = torch.cat([parameter.detach().reshape(-1) for parameter in trained])
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
        decay, square_decay = self._betas
        mean_scale, square_scale = 1 - decay**self._n_steps, 1 - square_decay**self._n_steps
        self._mean.lerp_(self._gradient, 1 - decay)
        self._square.mul_(square_decay).addcmul_(self._gradient, self._gradient, value=1 - square_decay)
        scale: Tensor = self._square.sqrt().div_(square_scale**0.5).add_(self._eps)
        self._weights.addcdiv_(self._mean, scale, value=-self.rate / mean_scale)

    def restart(self) -> None:
        """Reset the moment estimates."""
        self._mean.zero_()
        self._square.zero_()
        self._n_steps = 0

    def saved_state(self) -> dict[str, Tensor]:
        """Return the optimiser's state as named tensors."""
        return {"mean": self._mean, "square": self._square, "n_steps": torch.tensor(self._n_steps)}

    def load_saved_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore a saved state."""
        self._mean.copy_(state["mean"])
        self._square.copy_(state["square"])
        self._n_steps = int(state["n_steps"])


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
