"""The hand-written backward pass of a stack of plain layers, against autograd through each of its networks."""

import copy

import pytest
import torch
from torch import nn

from domaincover import InputError
from domaincover.networks.stacks import ELEMENTWISE, StackOutputs, stack

N_REPLICAS, N_EXAMPLES, N_FEATURES, N_LABELS = 3, 7, 4, 2
DOMAINS = torch.zeros(N_REPLICAS, N_EXAMPLES, dtype=torch.int64)


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def plain(*layers):
    """Return a replica's worth of copies of a network, each with its own weights."""
    networks = [copy.deepcopy(nn.Sequential(*layers)).double() for _ in range(N_REPLICAS)]
    for k, network in enumerate(networks):
        for n, parameter in enumerate(network.parameters()):
            parameter.data = drawn(*parameter.shape, seed=10 * k + n)
    return networks


def gradients_by_hand(networks, examples, slopes):
    """Return outputs, and the gradients written back to the form of each network's own parameters."""
    stacked = stack(networks)
    for parameter in stacked.parameters():
        parameter.grad = torch.zeros_like(parameter)
    outputs, backward = StackOutputs(stacked, len(slopes) == 2).training_pass(examples, DOMAINS)
    assert not any(output.requires_grad for output in outputs)
    backward(slopes)
    for parameter in stacked.parameters():
        parameter.data = parameter.grad
    stacked.write_back()
    return outputs, [[parameter.detach().clone() for parameter in network.parameters()] for network in networks]


def gradients_by_autograd(networks, examples, slopes, head):
    for network, own, *of_outputs in zip(networks, examples, *slopes, strict=True):
        features = network[:head](own)
        outputs = [network[head:](features), features][: len(slopes)]
        yield outputs, torch.autograd.grad(outputs, list(network.parameters()), of_outputs)


KINDS = {
    **{kind.__name__: (kind(), 2) for kind in ELEMENTWISE},
    "GELU by tanh": (nn.GELU(approximate="tanh"), 2),
    "ReLU in place": (nn.ReLU(inplace=True), 2),
}


@pytest.mark.parametrize("with_features", [False, True], ids=["scores", "scores and features"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_hand_are_those_of_autograd(kind, with_features):
    activation, head = KINDS[kind]
    networks = plain(nn.Linear(N_FEATURES, 5), activation, nn.Linear(5, N_LABELS), nn.Tanh())
    examples = drawn(N_REPLICAS, N_EXAMPLES, N_FEATURES, seed=1)
    slopes = [drawn(N_REPLICAS, N_EXAMPLES, size, seed=size) for size in (N_LABELS, 5)][: 1 + with_features]
    expected = list(gradients_by_autograd(networks, examples, slopes, head))
    outputs, found = gradients_by_hand(networks, examples, slopes)
    for replica, (known, gradients) in enumerate(expected):
        for one, other in zip(outputs, known, strict=True):
            torch.testing.assert_close(one[replica], other.detach(), rtol=0, atol=1e-12)
        for one, other in zip(found[replica], gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_layers_before_the_first_linear_one_are_passed_and_gradients_add_up():
    networks = plain(nn.Tanh(), nn.Linear(N_FEATURES, 5), nn.ReLU(), nn.Linear(5, 4), nn.SiLU(), nn.Linear(4, N_LABELS))
    examples, slopes = drawn(N_REPLICAS, N_EXAMPLES, N_FEATURES), [drawn(N_REPLICAS, N_EXAMPLES, N_LABELS, seed=1)]
    expected = [gradients for _, gradients in gradients_by_autograd(networks, examples, slopes, 5)]
    stacked = stack(networks)
    for parameter in stacked.parameters():
        parameter.grad = torch.ones_like(parameter)
    StackOutputs(stacked, False).training_pass(examples, DOMAINS).backward(slopes)
    bias = list(stacked.parameters())[-1]
    torch.testing.assert_close(bias.grad[:, :, 0], 1 + torch.stack([own[-1] for own in expected]))
    weight = next(iter(stacked.parameters()))
    torch.testing.assert_close(weight.grad, 1 + torch.stack([own[0] for own in expected]))


def test_a_silu_in_place_is_left_to_autograd():
    networks = plain(nn.Linear(N_FEATURES, 5), nn.SiLU(inplace=True), nn.Linear(5, N_LABELS))
    outputs, _ = StackOutputs(stack(networks), False).training_pass(drawn(N_REPLICAS, N_EXAMPLES, N_FEATURES), DOMAINS)
    assert outputs[0].requires_grad


def test_features_that_no_layer_learns_are_refused():
    with pytest.raises(InputError, match="this network has no trained layer before its last linear one"):
        StackOutputs(stack(plain(nn.Linear(N_FEATURES, N_LABELS))), True).training_pass(
            drawn(N_REPLICAS, N_EXAMPLES, N_FEATURES), DOMAINS
        )
