import json
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers

from domaincover.errors import InputError
from domaincover.networks.image_models import (
    _backbone,
    backbone_from_state,
    image_backbone,
)
from domaincover.networks.pretrained import config_from_data, model_folder
from domaincover.terminal.processes import one_thread

ATTENTION = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
TINY = {
    "resnet": transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic"),
    "vit": transformers.ViTConfig(**ATTENTION, intermediate_size=8, image_size=16, patch_size=8),
    "convnext": transformers.ConvNextConfig(num_stages=2, hidden_sizes=[4, 8], depths=[1, 1]),
    "swin": transformers.SwinConfig(
        image_size=16, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
    ),
    "dinov2": transformers.Dinov2Config(**ATTENTION, image_size=28, patch_size=14, mlp_ratio=1),
    "clip": transformers.CLIPVisionConfig(**ATTENTION, intermediate_size=8, image_size=16, patch_size=8),
    "segformer": transformers.SegformerConfig(
        num_encoder_blocks=2,
        hidden_sizes=[4, 8],
        depths=[1, 1],
        num_attention_heads=[1, 2],
        sr_ratios=[2, 1],
        patch_sizes=[7, 3],
        strides=[4, 2],
        mlp_ratios=[1, 1],
    ),
}
HALVES = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.6, 0.7]}


def images(n=2, size=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=generator)


@pytest.fixture(autouse=True)
def one_thread_each():
    with one_thread():
        yield


@pytest.fixture
def folder_of(tmp_path):
    """Writes a tiny network into a folder, as users have them."""

    def write(kind, network=transformers.AutoModel, **preprocessor):
        config = TINY[kind] if isinstance(kind, str) else kind
        with torch.random.fork_rng(devices=[]):
            torch.random.manual_seed(1)
            network.from_config(config).save_pretrained(tmp_path / "model")
        if preprocessor:
            (tmp_path / "model" / "preprocessor_config.json").write_text(json.dumps(preprocessor))
        return tmp_path / "model"

    return write


@pytest.fixture(scope="module")
def resnet_18():
    return image_backbone(generator=np.random.default_rng(0))


@pytest.fixture(scope="module")
def tiny_state():
    with torch.random.fork_rng(devices=[]):
        network = transformers.AutoModel.from_config(TINY["resnet"])
    settings = {"mean": [0.5, 0.5, 0.5], "std": [1.0, 1.0, 1.0], "image_size": [32, 32], "pooling": "pooler"}
    config, tensors = _backbone(network, settings).state()
    return json.dumps(config), tensors


def normalised(x):
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (x.float() / 255 - mean[:, None, None]) / std[:, None, None]


class TestResNet18:
    def test_features_are_one_row_per_image(self, resnet_18):
        assert resnet_18(images(2, 32)).shape == (2, resnet_18.n_features)
        assert resnet_18.n_features == 512

    def test_the_same_generator_draws_the_same_network(self, resnet_18):
        again, other = (image_backbone(generator=seed).network.state_dict() for seed in (0, 1))
        name = "embedder.embedder.convolution.weight"
        assert torch.equal(again[name], resnet_18.network.state_dict()[name])
        assert not torch.equal(other[name], again[name])

    def test_the_global_generator_is_left_alone(self):
        before = torch.random.get_rng_state()
        image_backbone(generator=0)
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_it_is_ready_to_predict(self, resnet_18):
        assert not resnet_18.network.training

    def test_bytes_and_floats_give_the_same_features(self, resnet_18):
        x = images(2, 32)
        assert torch.equal(resnet_18(x), resnet_18(x.double()))

    def test_without_transformers_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "transformers", None)
        with pytest.raises(InputError, match=r"pip install 'domaincover\[images\]'"):
            image_backbone()


class TestFolders:
    @pytest.mark.parametrize("kind", TINY)
    def test_features_are_the_networks_own_pooled_output(self, folder_of, kind):
        folder = folder_of(kind)
        backbone, network = image_backbone(folder), transformers.AutoModel.from_pretrained(folder).eval()
        x = images(2, backbone.image_size[0])
        output = network(normalised(x))
        pooled = output.last_hidden_state.mean((2, 3)) if kind == "segformer" else output.pooler_output.flatten(1)
        assert backbone.n_features == pooled.shape[1]
        assert torch.allclose(backbone(x), pooled, atol=1e-6)

    @pytest.mark.parametrize("kind", ["vit", "swin", "dinov2", "clip"])
    def test_images_of_another_size_are_taken(self, folder_of, kind):
        backbone = image_backbone(folder_of(kind))
        assert backbone(images(2, 56)).shape == (2, backbone.n_features)

    def test_a_classifiers_folder_has_no_pooler_and_is_averaged(self, folder_of):
        folder = folder_of("vit", transformers.AutoModelForImageClassification)
        backbone = image_backbone(folder)
        network = transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
        x = images()
        assert torch.allclose(backbone(x), network(normalised(x)).last_hidden_state.mean(1), atol=1e-6)

    def test_loading_leaves_the_global_generator_alone(self, folder_of):
        folder = folder_of("vit", transformers.AutoModelForImageClassification)
        before = torch.random.get_rng_state()
        image_backbone(folder)
        assert torch.equal(torch.random.get_rng_state(), before)

    @pytest.mark.parametrize("had_bars", [False, True])
    def test_transformers_own_bars_are_as_before(self, folder_of, had_bars):
        folder, bars = folder_of("resnet"), transformers.utils.logging
        before = bars.is_progress_bar_enabled()
        (bars.enable_progress_bar if had_bars else bars.disable_progress_bar)()
        image_backbone(folder)
        after = bars.is_progress_bar_enabled()
        (bars.enable_progress_bar if before else bars.disable_progress_bar)()
        assert after is had_bars

    def test_nothing_is_printed(self, folder_of, capfd):
        folder = folder_of("vit", transformers.AutoModelForImageClassification)
        capfd.readouterr()
        image_backbone(folder)
        assert capfd.readouterr() == ("", "")

    def test_half_precision_weights_are_read_in_single(self, folder_of):
        folder = folder_of("resnet")
        transformers.AutoModel.from_pretrained(folder).half().save_pretrained(folder)
        assert image_backbone(folder)(images(2, 32)).dtype == torch.float32

    @pytest.mark.parametrize(
        ("options", "by_hand"),
        [
            (HALVES, lambda x, m, s: (x / 255 - m) / s),
            ({"do_normalize": False}, lambda x, *_: x / 255),
            ({"do_normalize": False, "do_rescale": False}, lambda x, *_: x),
            (
                {**HALVES, "rescale_factor": 1 / 127.5, "rescale_offset": True},
                lambda x, m, s: (x / 127.5 - 1 - m) / s,
            ),
        ],
    )
    def test_images_are_normalised_as_the_folder_says(self, folder_of, options, by_hand):
        folder = folder_of("resnet", **options)
        mean, std = torch.tensor([0.5, 0.4, 0.3])[:, None, None], torch.tensor([0.5, 0.6, 0.7])[:, None, None]
        x = images(2, 32)
        network = transformers.AutoModel.from_pretrained(folder).eval()
        expected = network(by_hand(x.float(), mean, std)).pooler_output.flatten(1)
        assert torch.allclose(image_backbone(folder)(x), expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        ("options", "size"),
        [
            ({"size": {"height": 20, "width": 30}}, (20, 30)),
            ({"size": {"shortest_edge": 40}}, (40, 40)),
            ({"size": 50}, (50, 50)),
            ({"size": {"shortest_edge": 256}, "crop_size": {"height": 24, "width": 24}}, (24, 24)),
            ({"size": {"longest_edge": 40}}, (224, 224)),
        ],
    )
    def test_the_size_is_the_folders(self, folder_of, options, size):
        assert image_backbone(folder_of("resnet", **options)).image_size == size

    def test_without_a_preprocessor_the_size_is_the_networks(self, folder_of):
        assert image_backbone(folder_of("vit")).image_size == (16, 16)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("no json", "is not a valid image preprocessor configuration"),
            ("[1]", "is not a valid image preprocessor configuration"),
            ('{"rescale_factor": 0}', "is not a valid image preprocessor configuration"),
            ('{"image_mean": ["a", 0, 0]}', "is not a valid image preprocessor configuration"),
            ('{"image_std": [0, 1, 1]}', "invalid std of an image network"),
            ('{"image_mean": [1]}', "invalid mean of an image network"),
        ],
    )
    def test_a_preprocessor_that_makes_no_sense_is_refused(self, folder_of, content, says):
        folder = folder_of("resnet")
        (folder / "preprocessor_config.json").write_text(content)
        with pytest.raises(InputError, match=says):
            image_backbone(folder)

    def test_a_text_network_is_refused(self, folder_of):
        config = transformers.BertConfig(**ATTENTION, intermediate_size=8, vocab_size=10)
        with pytest.raises(InputError, match="contains a 'bert', which is not an image model"):
            image_backbone(folder_of(config))

    def test_a_network_for_other_channels_is_refused(self, folder_of):
        config = transformers.ResNetConfig(
            num_channels=1, embedding_size=4, hidden_sizes=[4], depths=[1], layer_type="basic"
        )
        with pytest.raises(InputError, match="for 1 channels; images have 3"):
            image_backbone(folder_of(config))

    def test_a_folder_that_lacks_weights_is_refused(self, folder_of):
        folder = folder_of("resnet")
        path = folder / "model.safetensors"
        weights = safetensors.torch.load_file(path)
        del weights["embedder.embedder.convolution.weight"]
        safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
        with pytest.raises(InputError, match=r"lacks the weights 'embedder\.embedder\.convolution\.weight'"):
            image_backbone(folder)

    def test_damaged_weights_are_refused_in_one_line(self, folder_of):
        folder = folder_of("resnet")
        (folder / "model.safetensors").write_bytes(b"damaged")
        with pytest.raises(InputError, match="could not be read") as error:
            image_backbone(folder)
        assert "\n" not in str(error.value)

    def test_an_unknown_kind_of_model_is_refused(self, folder_of):
        folder = folder_of("resnet")
        (folder / "config.json").write_text('{"model_type": "unheard-of"}')
        with pytest.raises(InputError, match="does not contain a known transformers model"):
            image_backbone(folder)

    def test_code_in_a_folder_is_not_run(self, folder_of, tmp_path):
        folder = folder_of("resnet")
        (folder / "modeling.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        auto_map = {"AutoConfig": "modeling.Config", "AutoModel": "modeling.Model"}
        (folder / "config.json").write_text(json.dumps({"model_type": "unheard-of", "auto_map": auto_map}))
        with pytest.raises(InputError, match="does not contain a known transformers model"):
            image_backbone(folder)
        assert not (tmp_path / "ran").exists()


class TestHub:
    def test_a_name_is_not_fetched_without_permission(self):
        with pytest.raises(InputError, match=r"'google/x' is not a folder; pass download=True \(--download\)"):
            image_backbone("google/x")

    def test_with_permission_the_hubs_fault_is_one_line(self, monkeypatch):
        def fails(*_, **__):
            raise OSError("no connection\nand much advice")

        monkeypatch.setattr("huggingface_hub.snapshot_download", fails)
        with pytest.raises(
            InputError, match=r"'google/x' could not be downloaded from the Hugging Face hub: no connection$"
        ):
            image_backbone("google/x", download=True)

    def test_with_permission_the_fetched_folder_is_used(self, monkeypatch, folder_of):
        folder = folder_of("resnet")
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
        assert image_backbone("google/x", download=True).n_features == 8

    def test_no_pickles_are_fetched(self, monkeypatch):
        asked = {}
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **options: asked.update(options) or "here")
        model_folder("google/x", download=True)
        assert not any(pattern.endswith((".bin", ".pt", ".pth", ".py", "*")) for pattern in asked["allow_patterns"])

    def test_a_folder_without_a_model_is_refused(self, tmp_path):
        with pytest.raises(InputError, match=r"has no config\.json"):
            image_backbone(tmp_path)

    def test_an_error_that_says_nothing_is_named(self, monkeypatch):
        def fails(*_, **__):
            raise OSError

        monkeypatch.setattr("huggingface_hub.snapshot_download", fails)
        with pytest.raises(InputError, match="hub: OSError"):
            model_folder("google/x", download=True)


class TestState:
    @pytest.mark.parametrize(
        ("kind", "network"),
        [*((kind, transformers.AutoModel) for kind in TINY), ("vit", transformers.AutoModelForImageClassification)],
    )
    def test_a_rebuilt_backbone_gives_the_same_features(self, folder_of, kind, network):
        backbone = image_backbone(folder_of(kind, network))
        config, tensors = backbone.state()
        content = safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()})
        again = backbone_from_state(json.loads(json.dumps(config)), safetensors.torch.load(content))
        x = images(2, backbone.image_size[0])
        assert torch.equal(again(x), backbone(x))

    def test_a_rebuilt_backbone_can_be_trained(self, folder_of):
        again = backbone_from_state(*image_backbone(folder_of("resnet")).state())
        again.train()(images(2, 32)).sum().backward()
        assert all(parameter.grad is not None for parameter in again.parameters())

    def test_all_parameters_take_part_where_a_pooler_is_dropped(self, folder_of):
        backbone = image_backbone(folder_of("vit", transformers.AutoModelForImageClassification))
        backbone(images()).square().sum().backward()
        assert all(parameter.grad is not None for parameter in backbone.parameters())

    @pytest.mark.parametrize(
        ("forge", "says"),
        [
            (lambda config: config.clear(), "must have the keys image_size, mean, network, pooling, std"),
            (lambda config: config.update(pooling="eval"), "must be 'pooler' or 'mean'"),
            (lambda config: config.update(std=[1, 1, 0]), "invalid std of an image network"),
            (lambda config: config.update(std=[1, 1, float("nan")]), "invalid std of an image network"),
            (lambda config: config.update(mean=[10**400, 0, 0]), "invalid mean of an image network"),
            (lambda config: config.update(mean=[True, 0, 0]), "invalid mean of an image network"),
            (lambda config: config.update(image_size=[1.5, 2]), "invalid image_size of an image network"),
            (lambda config: config.update(image_size="ab"), "invalid image_size of an image network"),
            (lambda config: config.update(network=[]), "has an unsupported model type"),
            (lambda config: config["network"].update(model_type="bert"), "has an unsupported model type"),
            (lambda config: config["network"].update(model_type="timm_wrapper"), "has an unsupported model type"),
            (lambda config: config["network"].update(auto_map={"AutoModel": "a.B"}), "could execute code"),
            (lambda config: config["network"].update(_name_or_path="a"), "could execute code"),
            (lambda config: config["network"].update(sub=[{"attn_implementation": "a/b"}]), "could execute code"),
            (lambda config: config["network"].update(layer_type="other"), "is not a valid 'resnet'"),
            (lambda config: config["network"].update(hidden_act="other"), "a 'resnet' cannot be built"),
            (lambda config: config["network"].update(depths=[10**9, 1]), "depths is .* for .* tensors"),
            (lambda config: config["network"].update(hidden_sizes=[4, 10**7]), "does not fit the network"),
            (lambda config: config["network"].update(depths=[1, 2]), "is not in the file"),
            (lambda config: config["network"].update(num_channels=2), "of torch.float32 in the file"),
        ],
    )
    def test_a_forged_configuration_is_refused(self, tiny_state, forge, says):
        config, tensors = json.loads(tiny_state[0]), tiny_state[1]
        forge(config)
        with pytest.raises(InputError, match=says):
            backbone_from_state(config, tensors)

    def test_a_network_that_takes_no_images_is_refused(self, tiny_state):
        """Of two channels throughout: its tensors fit, but images have three."""
        config, tensors = json.loads(tiny_state[0]), tiny_state[1]
        config["network"]["num_channels"] = 2
        name = "embedder.embedder.convolution.weight"
        with pytest.raises(InputError, match="'resnet' cannot be used on images"):
            backbone_from_state(config, {**tensors, name: tensors[name][:, :2]})

    def test_other_tensors_are_refused(self, tiny_state):
        config, tensors = json.loads(tiny_state[0]), tiny_state[1]
        with pytest.raises(InputError, match="'more' is not in the network"):
            backbone_from_state(config, {**tensors, "more": torch.zeros(1)})

    def test_tensors_of_another_precision_are_refused(self, tiny_state):
        config, tensors = json.loads(tiny_state[0]), tiny_state[1]
        with pytest.raises(InputError, match=r"of torch\.float64 in the file"):
            backbone_from_state(config, {**tensors, "embedder.embedder.convolution.weight": torch.zeros(1).double()})

    def test_a_configuration_that_is_no_mapping_is_refused(self):
        with pytest.raises(InputError, match="has an unsupported model type"):
            config_from_data("resnet", {"resnet"})
