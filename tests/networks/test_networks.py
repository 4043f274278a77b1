import numpy as np
import pytest
import torch
from torch import nn

from domaincover import InputError
from domaincover.networks.perceptrons import linear, perceptron, stack

MAKERS = {
    "linear": lambda seed: linear(4, 3, np.random.default_rng(seed)),
    "perceptron": lambda seed: perceptron(4, 5, 3, np.random.default_rng(seed)),
    "two hidden layers": lambda seed: perceptron(4, (5, 6), 3, np.random.default_rng(seed)),
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


def tied():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(4, 3))


def hooked():
    network = nn.Sequential(nn.Linear(4, 3))
    network[0].register_forward_hook(lambda _, __, scores: scores + 1)
    return network


def frozen():
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    network[0].requires_grad_(False)
    return network


OTHERS = pytest.mark.parametrize("make", [tied, hooked, frozen, lambda: nn.Sequential(nn.Linear(4, 3))])


@OTHERS
def test_any_other_network_is_trained_alone_with_its_own_parameters(make):
    network, examples = make(), torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    stacked = stack([network])
    assert [*map(id, stacked.parameters())] == [*map(id, network.parameters())]
    assert torch.equal(stacked(examples[None])[0], network(examples))


@OTHERS
def test_several_other_networks_are_not_stacked(make):
    with pytest.raises(InputError, match="train others one by one"):
        stack([make(), make()])
