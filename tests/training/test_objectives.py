"""ERM's two losses against their formulas, written out in numpy."""

import numpy as np
import pytest
import torch

from domaincover.training.objectives import CrossEntropy, DoubleSoftmaxCrossEntropy

RNG = np.random.default_rng(0)
SCORES, LABELS = 3 * RNG.normal(size=(40, 3)), RNG.integers(3, size=40)


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def value_and_gradient(objective, scores=SCORES, labels=LABELS):
    inputs = torch.tensor(scores, requires_grad=True)
    loss = objective(inputs, torch.tensor(labels), torch.zeros(len(labels), dtype=torch.long))
    loss.backward()
    return loss.item(), inputs.grad.numpy()


def test_the_double_softmax_is_the_cross_entropy_of_the_softmax_of_probabilities():
    probabilities = softmax(SCORES)
    twice = softmax(probabilities)
    true = np.eye(3)[LABELS]
    by_probability = (twice - true) / len(SCORES)  # cross-entropy's slope, where the probabilities are the logits
    expected = probabilities * (by_probability - (probabilities * by_probability).sum(axis=1, keepdims=True))
    value, gradient = value_and_gradient(DoubleSoftmaxCrossEntropy())
    assert value == pytest.approx(-np.log(twice[np.arange(40), LABELS]).mean(), rel=1e-12)
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-15)


def test_the_plain_loss_applies_softmax_once():
    probabilities = softmax(SCORES)
    value, gradient = value_and_gradient(CrossEntropy())
    assert value == pytest.approx(-np.log(probabilities[np.arange(40), LABELS]).mean(), rel=1e-12)
    np.testing.assert_allclose(gradient, (probabilities - np.eye(3)[LABELS]) / 40, rtol=1e-10, atol=1e-15)


def test_a_network_that_is_sure_and_wrong_learns_nothing_under_the_double_softmax():
    wrong = np.array([[50.0, 0.0]])
    value, gradient = value_and_gradient(DoubleSoftmaxCrossEntropy(), wrong, np.array([1]))
    assert value == pytest.approx(np.log(1 + np.e))
    assert np.abs(gradient).max() < 1e-15
    assert np.abs(value_and_gradient(CrossEntropy(), wrong, np.array([1]))[1]).max() == pytest.approx(1)


@pytest.mark.parametrize("objective", [CrossEntropy(), DoubleSoftmaxCrossEntropy()])
def test_a_stack_has_the_loss_of_each_of_its_replicas(objective):
    stack, labels = torch.tensor(SCORES).view(2, 20, 3), torch.tensor(LABELS).view(2, 20)
    alone = [objective(scores, own, own) for scores, own in zip(stack, labels, strict=True)]
    torch.testing.assert_close(objective(stack, labels, labels), torch.stack(alone))
