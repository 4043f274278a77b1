"""The hand-written backward pass of a stack of perceptrons, against autograd through each of its networks."""

import numpy as np
import pytest
import torch

from domaincover import InputError
from domaincover.networks.perceptrons import linear, perceptron, stack

N_REPLICAS, N_EXAMPLES, N_FEATURES, N_LABELS = 3, 7, 4, 2
DOMAINS = torch.zeros(N_REPLICAS, N_EXAMPLES, dtype=torch.int64)


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def drawn_networks(*hidden):
    """Return perceptrons with so many hidden units in each layer, each with its own weights."""
    rng = np.random.default_rng(0)
    sizes = (N_FEATURES, hidden, N_LABELS, rng) if hidden else (N_FEATURES, N_LABELS, rng)
    networks = [(perceptron if hidden else linear)(*sizes).double() for _ in range(N_REPLICAS)]
    for k, network in enumerate(networks):
        for n, parameter in enumerate(network.parameters()):
            parameter.data = drawn(*parameter.shape, seed=10 * k + n)
    return networks


def gradients_by_hand(networks, examples, slopes):
    """Return outputs, and the gradients written back to the form of each network's own parameters."""
    stacked = stack(networks)
    for parameter in stacked.parameters():
        parameter.grad = torch.zeros_like(parameter)
    outputs, backward = stacked.training_pass(examples, DOMAINS, len(slopes) == 2)
    assert not any(output.requires_grad for output in outputs)
    backward(slopes)
    for parameter in stacked.parameters():
        parameter.data = parameter.grad
    stacked.write_back()
    return outputs, [[parameter.detach().clone() for parameter in network.parameters()] for network in networks]


def gradients_by_autograd(networks, examples, slopes):
    for network, own, *of_outputs in zip(networks, examples, *slopes, strict=True):
        features = network[:-1](own)
        outputs = [network[-1](features), features][: len(slopes)]
        yield outputs, torch.autograd.grad(outputs, list(network.parameters()), of_outputs)


@pytest.mark.parametrize("with_features", [False, True], ids=["scores", "scores and features"])
@pytest.mark.parametrize("hidden", [(5,), (5, 3), (6, 4, 5)], ids=str)
def test_gradients_by_hand_are_those_of_autograd(hidden, with_features):
    networks = drawn_networks(*hidden)
    examples = drawn(N_REPLICAS, N_EXAMPLES, N_FEATURES, seed=1)
    sizes = (N_LABELS, hidden[-1])[: 1 + with_features]
    slopes = [drawn(N_REPLICAS, N_EXAMPLES, size, seed=size) for size in sizes]
    expected = list(gradients_by_autograd(networks, examples, slopes))
    outputs, found = gradients_by_hand(networks, examples, slopes)
    for replica, (known, gradients) in enumerate(expected):
        for one, other in zip(outputs, known, strict=True):
            torch.testing.assert_close(one[replica], other.detach(), rtol=0, atol=1e-12)
        for one, other in zip(found[replica], gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("hidden", [(), (5, 4)], ids=["linear", "two hidden layers"])
def test_gradients_add_up(hidden):
    networks = drawn_networks(*hidden)
    examples, slopes = drawn(N_REPLICAS, N_EXAMPLES, N_FEATURES), [drawn(N_REPLICAS, N_EXAMPLES, N_LABELS, seed=1)]
    expected = [gradients for _, gradients in gradients_by_autograd(networks, examples, slopes)]
    stacked = stack(networks)
    for parameter in stacked.parameters():
        parameter.grad = torch.ones_like(parameter)
    stacked.training_pass(examples, DOMAINS, False).backward(slopes)
    bias = list(stacked.parameters())[-1]
    torch.testing.assert_close(bias.grad[:, :, 0], 1 + torch.stack([own[-1] for own in expected]))
    weight = next(iter(stacked.parameters()))
    torch.testing.assert_close(weight.grad, 1 + torch.stack([own[0] for own in expected]))


def test_features_that_no_layer_learns_are_refused():
    with pytest.raises(InputError, match="this network has no trained layer before its last linear one"):
        stack(drawn_networks()).training_pass(drawn(N_REPLICAS, N_EXAMPLES, N_FEATURES), DOMAINS, True)
