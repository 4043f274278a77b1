import numpy as np
import pytest
import torch
from torch import nn

from domaincover.networks.perceptrons import linear, perceptron
from domaincover.networks.stacks import stack


class Residual(nn.Module):
    """A network that is not a row of plain layers."""

    def __init__(self, generator):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.out = nn.Linear(4, 3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-1, 1, generator=generator)

    def forward(self, x):
        return self.out(x + torch.tanh(self.inner(x)))


MAKERS = {
    "linear": lambda seed: linear(4, 3, np.random.default_rng(seed)),
    "perceptron": lambda seed: perceptron(4, 5, 3, np.random.default_rng(seed)),
    "without bias": lambda _: nn.Sequential(nn.Linear(4, 3, bias=False)),
    "residual": lambda seed: Residual(torch.Generator().manual_seed(seed)),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("n_replicas", [1, 3])
def test_a_stack_scores_as_its_networks_do(kind, n_replicas):
    networks = [MAKERS[kind](seed) for seed in range(n_replicas)]
    examples = torch.randn(n_replicas, 7, 4, generator=torch.Generator().manual_seed(0))
    scores = stack(networks)(examples)
    alone = torch.stack([network(x) for network, x in zip(networks, examples, strict=True)])
    assert torch.allclose(scores, alone, atol=1e-5)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("n_replicas", [1, 3])
def test_weights_are_written_back_to_the_networks(kind, n_replicas):
    networks = [MAKERS[kind](seed) for seed in range(n_replicas)]
    stacked = stack(networks)
    with torch.no_grad():
        for parameter in stacked.parameters():
            parameter.mul_(2).add_(0.5)
    examples = torch.randn(n_replicas, 7, 4, generator=torch.Generator().manual_seed(0))
    expected = stacked(examples)
    stacked.write_back()
    alone = torch.stack([network(x) for network, x in zip(networks, examples, strict=True)])
    assert torch.allclose(expected, alone, atol=1e-5)


def test_the_same_generator_gives_the_same_weights_and_the_global_state_does_not_matter():
    first = perceptron(10, 5, 2, np.random.default_rng(3))
    torch.rand(5)
    again = perceptron(10, 5, 2, np.random.default_rng(3))
    other = perceptron(10, 5, 2, np.random.default_rng(4))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first[0].weight, other[0].weight)


def test_weights_start_in_pytorchs_usual_range():
    layer = perceptron(100, 400, 2, np.random.default_rng(0))[0]
    assert layer.weight.abs().max() <= 0.1
    assert layer.weight.std().item() == pytest.approx(0.1 / np.sqrt(3), rel=0.02)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("n_replicas", [1, 3])
def test_a_network_of_a_stack_scores_examples_of_its_own(kind, n_replicas):
    networks = [MAKERS[kind](seed) for seed in range(n_replicas)]
    stacked = stack(networks)
    examples = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    for replica, network in enumerate(networks):
        assert torch.allclose(stacked.of_replica(replica, examples), network(examples), atol=1e-5)
