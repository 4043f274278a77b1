"""Adam for stacks of small networks, and the state of an optimiser as named tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 64  # numbers; a multiple of any processor's vector registers


class FlatAdam:
    """Adam (Kingma and Ba 2015) on all parameters as one vector.

    Takes the same steps as `torch.optim.Adam(fused=True)`, and has its attributes; its `step` takes several times as
    long as the kernel that it calls for a small network. The parameters permanently become views of one vector, so this
    is for stacks only, not for users' networks.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        trained = list(parameters)
        weights = torch.cat([parameter.detach().reshape(-1) for parameter in trained])
        # Whole vector registers, since a rest is computed apart, and rounded otherwise.
        self._weights = nn.functional.pad(weights, (0, -len(weights) % WIDTH))
        self._gradient = torch.zeros_like(self._weights)
        self.param_groups: list[dict[str, Any]] = [{"params": [self._weights], "lr": lr}]
        self.state: dict[Tensor, dict[str, Tensor]] = {}
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
        if not (own := self.state.get(self._weights)):
            moments = {name: torch.zeros_like(self._weights) for name in ("exp_avg", "exp_avg_sq")}
            own = self.state[self._weights] = {"step": self._weights.new_zeros((), dtype=torch.float32)} | moments
        own["step"] += 1
        torch._fused_adam_(
            [self._weights],
            [self._gradient],
            [own["exp_avg"]],
            [own["exp_avg_sq"]],
            [],
            [own["step"]],
            lr=self.param_groups[0]["lr"],
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def saved_state(adam: Any) -> dict[str, Tensor]:
    """Return the state of an optimiser as named tensors."""
    parameters = enumerate(adam.param_groups[0]["params"])
    return {f"{k}.{name}": value for k, own in parameters for name, value in adam.state.get(own, {}).items()}


@torch.no_grad()
def load_saved_state(adam: Any, state: Mapping[str, Tensor]) -> None:
    """Restore a saved state."""
    parameters, is_flat = adam.param_groups[0]["params"], isinstance(adam, FlatAdam)
    for name, value in state.items():
        number, key = name.split(".")
        own = parameters[int(number)]
        device = own.device if is_flat or key != "step" else "cpu"  # torch's Adam counts its steps on the processor
        adam.state.setdefault(own, {})[key] = value.to(device).clone()
