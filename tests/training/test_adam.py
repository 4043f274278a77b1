"""Adam on one vector, against PyTorch's."""

import pytest
import torch
from torch import nn

from domaincover.training.loop import FlatAdam

SHAPES = (3, 5, 2), (3, 1, 7), (3,)


def drawn(seed, n_replicas=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator)[:n_replicas] for shape in SHAPES]


def trained(make, dtype=torch.float64, n_replicas=3, n_steps=12):
    """Take steps by known gradients, at a rate that changes, with a reset after five."""
    weights = [nn.Parameter(values.to(dtype)) for values in drawn(0, n_replicas)]
    adam = make(weights)
    for step in range(n_steps):
        if step == 5:
            adam.state.clear()
        adam.param_groups[0]["lr"] = 0.1 / (1 + step)
        adam.zero_grad()
        for weight, gradient in zip(weights, drawn(1 + step, n_replicas), strict=True):
            weight.grad = gradient.to(dtype) if weight.grad is None else weight.grad.add_(gradient)
        adam.step()
    return weights


class Literal:
    """The formulas of Kingma and Ba, one parameter after the other."""

    def __init__(self, weights):
        self.weights, self.state, self.param_groups = weights, {}, [{}]

    def zero_grad(self):
        for weight in self.weights:
            weight.grad = None

    def step(self):
        for weight in self.weights:
            n_steps, mean, square = self.state.get(weight, (0, 0.0, 0.0))
            n_steps, mean, square = n_steps + 1, 0.9 * mean + 0.1 * weight.grad, 0.999 * square + 0.001 * weight.grad**2
            self.state[weight] = n_steps, mean, square
            unbiased = mean / (1 - 0.9**n_steps), square / (1 - 0.999**n_steps)
            weight.data -= self.param_groups[0]["lr"] * unbiased[0] / (unbiased[1].sqrt() + 1e-8)


def test_steps_are_those_of_the_formulas():
    for one, other in zip(trained(lambda own: FlatAdam(own, lr=0.1)), trained(Literal), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_replicas", [1, 2])
def test_a_replicas_steps_do_not_depend_on_how_many_there_are(n_replicas):
    alone = trained(lambda own: FlatAdam(own, lr=0.1), torch.float32, n_replicas)
    stacked = trained(lambda own: FlatAdam(own, lr=0.1), torch.float32)
    for one, other in zip(alone, stacked, strict=True):
        assert torch.equal(one, other[:n_replicas])
