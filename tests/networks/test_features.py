"""Features are what the last linear layer reads, whatever the network looks like and however many are stacked."""

import numpy as np
import pytest
import torch
from torch import nn

from domaincover import InputError
from domaincover.estimators.source_network import with_head
from domaincover.networks.perceptrons import mixes_examples, perceptron, stack

EXAMPLES = torch.randn(3, 12, 4, generator=torch.Generator().manual_seed(0))
DOMAINS = torch.tensor([[2, 0, 7] * 4])


class Odd(nn.Module):
    """Its head is made first and called `stem`; its first layer is made last and called `head`."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 3, bias=False)
        self.unused = nn.Linear(2, 2)
        self.head = nn.Linear(4, 6)

    def learned(self, x):
        return torch.sin(self.head(x)) + 1

    def forward(self, x):
        return self.stem(self.learned(x)).log_softmax(-1)


def drawn(network, seed):
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.uniform_(-1, 1, generator=torch.Generator().manual_seed(seed))
    return network


def scorer():
    return with_head(
        nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 5, 2), nn.ReLU(), nn.Flatten()), nn.Linear(5, 3)
    )


def outputs(networks, examples):
    return stack(networks).training_pass(examples, DOMAINS, True).outputs


# Each kind, and its features by hand
KINDS = {
    "perceptron": (lambda: perceptron(4, (6, 5), 3, np.random.default_rng(0)), lambda net, x: net[:-1](x)),
    "activation at the end": (
        lambda: nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 3), nn.Tanh()),
        lambda net, x: net[0](x),
    ),
    "scorer": (scorer, lambda net, x: net.backbone(x)),
    "odd names": (Odd, lambda net, x: net.learned(x)),
}


@pytest.mark.parametrize(("kind", "n_replicas"), [*((kind, 1) for kind in KINDS), ("perceptron", 3)])
def test_features_are_what_the_last_linear_layer_reads_and_scores_what_the_network_gives(kind, n_replicas):
    make, by_hand = KINDS[kind]
    networks = [drawn(make(), seed) for seed in range(n_replicas)]
    scores, features = outputs(networks, EXAMPLES[:n_replicas])
    for replica, network in enumerate(networks):
        own = EXAMPLES[replica]
        torch.testing.assert_close(scores[replica], network(own), atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(features[replica], by_hand(network, own), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_asking_for_features_leaves_no_hook_behind(kind):
    network = KINDS[kind][0]()
    outputs([network], EXAMPLES[:1])
    assert not any(part._forward_pre_hooks for part in network.modules())


@pytest.mark.parametrize("kind", ["scorer", "odd names"])
def test_gradients_flow_through_features(kind):
    make, by_hand = KINDS[kind]
    network = drawn(make(), 0)
    parameters = list(network.parameters())
    found, literal = (
        torch.autograd.grad(features.square().sum(), parameters, allow_unused=True)
        for features in (outputs([network], EXAMPLES[:1])[1], by_hand(network, EXAMPLES[0]))
    )
    for one, other in zip(found, literal, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.ReLU()),
        nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 4), nn.Flatten()),
        nn.Sequential(
            nn.Unflatten(1, (2, 2)), nn.Flatten(0, 1), nn.Linear(2, 3), nn.Unflatten(0, (-1, 2)), nn.Flatten()
        ),
    ],
    ids=["no layers", "convolution", "linear layer on parts of examples"],
)
def test_a_network_without_a_linear_layer_on_examples_is_refused_in_a_line(network):
    with pytest.raises(InputError, match=r"inputs of the last torch.nn.Linear; this network has none per example\.$"):
        outputs([network], EXAMPLES[:1])


def normalised(**options):
    return drawn(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, **options), nn.ReLU(), nn.Linear(5, 3)), 0)


@pytest.mark.parametrize("options", [{}, {"track_running_stats": False}], ids=["running", "of the batch only"])
def test_with_batch_statistics_each_domain_goes_through_the_network_on_its_own(options):
    network, literal = normalised(**options), normalised(**options)
    scores, features = outputs([network], EXAMPLES[:1])
    for code in (0, 2, 7):
        own = DOMAINS[0] == code
        assert torch.allclose(features[0][own], literal[:-1](EXAMPLES[0][own]), atol=1e-6)
        assert torch.allclose(scores[0][own], literal[3](features[0][own]), atol=1e-6)
    for one, other in zip(network.buffers(), literal.buffers(), strict=True):
        assert torch.allclose(one.double(), other.double(), atol=1e-6), "running statistics, by way of every domain"


def test_without_batch_statistics_the_whole_batch_goes_through_at_once():
    calls = []
    network = nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 3))
    network.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    outputs([network], EXAMPLES[:1])
    assert calls == [12]


def test_only_networks_that_keep_statistics_have_them():
    assert mixes_examples(normalised())
    assert not mixes_examples(perceptron(4, 5, 3, np.random.default_rng(0)))


class Named(nn.Module):
    """Calls its head by the name of the argument."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, examples):
        return self.head(input=self.body(examples).tanh())


def test_a_head_may_be_called_by_the_name_of_its_argument():
    network, examples = Named(), torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    scores, features = outputs([network], examples[None])
    assert torch.equal(features[0], network.body(examples).tanh())
    assert torch.equal(scores[0], network(examples))
