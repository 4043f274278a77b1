import numpy as np
import pytest
import torch

from domaincover import ERMClassifier, ImageNetwork, InputError, load
from domaincover.networks.image_models import SMALL_CONV, backbone_from_state, small_convolution

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def images(n, height, width, seed=0):
    return np.random.default_rng(seed).integers(256, size=(n, 3, height, width), dtype=np.uint8)


def by_hand(network, image):
    """The features of one image of 32 × 32, by sums over windows."""
    hidden = (image / 255 - MEAN[:, None, None]) / STD[:, None, None]
    for layer in network.layers:
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        padded = np.pad(hidden, ((0, 0), (1, 1), (1, 1)))
        side = hidden.shape[1] // 2
        windows = [[padded[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] for j in range(side)] for i in range(side)]
        hidden = np.maximum(np.einsum("ijcab,ocab->oij", windows, weight) + bias[:, None, None], 0)
    return hidden.ravel()


def test_features_are_those_of_three_convolutions_with_stride_two():
    network, (image,) = small_convolution(np.random.default_rng(3)), images(1, 32, 32)
    found = network(torch.from_numpy(image[None]))[0].detach().numpy()
    np.testing.assert_allclose(found, by_hand(network, image), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(28, 28), (40, 40), (9, 70), (1, 1)])
def test_images_of_any_size_give_as_many_features(size):
    network = small_convolution(np.random.default_rng(0))
    assert network(torch.from_numpy(images(2, *size))).shape == (2, network.n_features)


def test_weights_come_from_the_generator_alone():
    torch.rand(1)  # moves torch's global generator
    one, same, other = (small_convolution(np.random.default_rng(seed)).state_dict() for seed in (5, 5, 6))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["layers.0.weight"], other["layers.0.weight"])


def test_an_example_does_not_depend_on_the_others_of_its_batch():
    network, batch = small_convolution(np.random.default_rng(0)), torch.from_numpy(images(4, 20, 20))
    torch.testing.assert_close(network(batch)[1:2], network(batch[1:2]))


def test_weights_of_another_network_are_rejected():
    tensors = small_convolution(np.random.default_rng(0)).state_dict()
    tensors["layers.1.bias"] = torch.zeros(3)
    with pytest.raises(InputError, match=r"'layers.1.bias' is \(3,\) of torch.float32 in the file and \(32,\)"):
        backbone_from_state({"network": SMALL_CONV}, tensors)


def test_a_classifier_with_it_gives_the_same_scores_after_saving(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    X = (rng.integers(100, size=(60, 12, 12)) + 120 * y[:, None, None]).astype(np.uint8)
    model = ERMClassifier(network=ImageNetwork(model="small-conv"), epochs=2, batch_size=16, random_state=0)
    model.fit(X, y, domains=np.arange(60) % 5)
    assert (model.predict(X) == y).mean() > 0.9  # dark against bright
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").label_scores(X), model.label_scores(X))
