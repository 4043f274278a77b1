import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.networks.dense_layers import ROWS_AT_ONCE, DenseLayers, checked_layers, layer_widths
from domaincover.networks.perceptrons import from_layers, perceptron, to_layers
from domaincover.terminal.processes import in_threads

WIDTHS = [(10, (64,), 2), (57, (33,), 7), (3, (), 4), (1, (8, 8), 2)]
each_width = pytest.mark.parametrize(("n_features", "hidden", "n_labels"), WIDTHS)


def layers_of(n_features, hidden, n_labels, seed=0):
    return to_layers(perceptron(n_features, hidden, n_labels, np.random.default_rng(seed)))


def rows_of(n_rows, n_features, seed=1):
    return np.random.default_rng(seed).standard_normal((n_rows, n_features)).astype(np.float32)


@each_width
def test_scores_are_those_of_torch_up_to_rounding(n_features, hidden, n_labels):
    layers, X = layers_of(n_features, hidden, n_labels), rows_of(3000, n_features)
    with torch.no_grad():
        expected = from_layers(layers)(torch.from_numpy(X)).numpy()
    scores = layers.scores(X)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


@each_width
def test_scores_are_the_nearest_to_the_exact_ones(n_features, hidden, n_labels):
    layers, X = layers_of(n_features, hidden, n_labels), rows_of(50, n_features)
    units = X.astype(np.longdouble)
    for k, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        units = np.maximum(units, 0) if k else units
        units = (units[:, None, :] * weight).sum(axis=2) + bias
    np.testing.assert_array_equal(layers.scores(X), units.astype(np.float32))


@each_width
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000), n_rows=st.integers(1, 2 * ROWS_AT_ONCE + 3))
def test_a_rows_scores_do_not_depend_on_the_rows_beside_it(n_features, hidden, n_labels, seed, n_rows):
    layers, X = layers_of(n_features, hidden, n_labels), rows_of(3 * ROWS_AT_ONCE + 5, n_features)
    rows = np.random.default_rng(seed).permutation(len(X))[:n_rows]
    np.testing.assert_array_equal(layers.scores(X[rows]), layers.scores(X)[rows])


def test_layers_and_the_network_made_from_them_share_their_weights():
    layers = layers_of(4, (8,), 3)
    network = from_layers(layers)
    with torch.no_grad():
        network[0].weight.zero_()
    assert not layers.weights[0].any()
    assert [name for name, _ in network.named_parameters()] == list(layers.tensors)
    for part, again in zip(DenseLayers.of(layers.tensors), layers, strict=True):
        assert all(one is other for one, other in zip(part, again, strict=True))


def test_scores_beyond_single_precision_are_infinite():
    layers = DenseLayers((np.full((2, 1), 1e30, np.float32),), (np.zeros(2, np.float32),))
    np.testing.assert_array_equal(layers.scores(np.array([[1e30], [-1e30]], np.float32)), [[np.inf] * 2, [-np.inf] * 2])


def test_nothing_has_no_scores():
    nothing = np.empty((0, 4), np.float32)
    assert layers_of(4, (8,), 3).scores(nothing).shape == (0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda named: named.pop("0.bias"), "'0.bias' is not in the file"),
        (lambda named: named.update({"9.bias": named["0.bias"]}), "'9.bias' is not in the network"),
        (lambda named: named.update({"2.bias": np.zeros(4, np.float32)}), r"'2.bias' is \(4,\).*and \(3,\) of float32"),
        (lambda named: named.update({"2.bias": np.zeros(3)}), r"'2.bias' is \(3,\) of float64"),
    ],
)
def test_layers_of_another_shape_are_refused(change, message):
    named = layers_of(4, (8,), 3).tensors
    widths = layer_widths("mlp", 8, 4, 3)
    assert checked_layers(named, widths, "part-0").tensors.keys() == named.keys()
    change(named)
    with pytest.raises(InputError, match=f"part-0 does not fit the network: {message}"):
        checked_layers(named, widths, "part-0")


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_one_of_several_threads_is_raised(threads):
    done = []

    def act(start):
        if start == 2:
            raise InputError("row 2")
        done.append(start)

    in_threads(done.append, range(5), threads)
    assert sorted(done) == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="row 2"):
        in_threads(act, range(5), threads)
