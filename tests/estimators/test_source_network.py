"""Classifiers on images and texts: frozen features and whole networks, from files and from memory."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from domaincover import (
    ConformalSetClassifier,
    ERMClassifier,
    ImageNetwork,
    InputError,
    SetCoverClassifier,
    TextNetwork,
    TrainingRun,
    assess,
    load,
)
from tests.tiny_models import tiny_bert_folder, tiny_resnet_folder

PIL = pytest.importorskip("PIL.Image")
pytest.importorskip("transformers")

N, N_DOMAINS = 120, 6
RNG = np.random.default_rng(0)
LABELS, DOMAINS = np.arange(N) % 2, np.arange(N) // 2 % N_DOMAINS
# Bright on the left or on the right, and darker or lighter as a whole, by domain
PIXELS = RNG.integers(0, 80, (N, 12, 12, 3)).astype(np.uint8) + (10 * DOMAINS[:, None, None, None]).astype(np.uint8)
PIXELS[LABELS == 0, :, :6] += 100
PIXELS[LABELS == 1, :, 6:] += 100
WORDS = ["good", "fine", "bad", "poor", "the", "a", "book", "film", "toy"]
TEXTS = [
    " ".join(RNG.choice(WORDS[:2] if label else WORDS[2:4], 3).tolist() + RNG.choice(WORDS[4:], 4).tolist())
    for label in LABELS
]
QUICK = {"epochs": 2, "batch_size": 16, "random_state": 0}


def conv(n_labels):
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, n_labels))


def halves():
    """A backbone that needs no training: the mean of the left and of the right half."""
    return nn.Sequential(nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images on disk, a tiny ResNet and a tiny BERT."""
    folder = tmp_path_factory.mktemp("sources")
    for k, image in enumerate(PIXELS):
        PIL.fromarray(image).save(folder / f"{k}.png")
    tiny_resnet_folder(folder / "resnet")
    tiny_bert_folder(folder / "bert", WORDS)
    return folder


@pytest.fixture
def networks(folder):
    """Every kind of network, what it is fitted on, and whether load needs a function."""
    paths = [str(folder / f"{k}.png") for k in range(N)]
    cache = {"cache": str(folder / "cache")}
    return {
        "own module": (ImageNetwork(module=conv, workers=0), PIXELS, conv),
        "own backbone": (ImageNetwork(backbone=halves, image_size=12, workers=0, **cache), PIXELS, halves),
        "own backbone, tuned": (ImageNetwork(backbone=halves, learn="all", image_size=12, workers=0), PIXELS, halves),
        "frozen images": (ImageNetwork(model=folder / "resnet", image_size=16, workers=0, **cache), paths, None),
        "tuned images": (
            ImageNetwork(model=folder / "resnet", learn="all", image_size=(12, 12), workers=1),
            paths,
            None,
        ),
        "frozen words": (TextNetwork(model=folder / "bert", hidden=(4,), **cache), TEXTS, None),
        "frozen encoder": (TextNetwork(model=folder / "bert", features="encoder", **cache), TEXTS, None),
        "tuned encoder": (TextNetwork(model=folder / "bert", features="encoder", learn="all"), TEXTS, None),
        "own text module": (TextNetwork(model=folder / "bert", module=bag_of_words), TEXTS, bag_of_words),
    }


def bag_of_words(n_labels):
    return nn.EmbeddingBag(20, n_labels)


KINDS = [
    *("own module", "own backbone", "own backbone, tuned", "frozen images", "tuned images"),
    *("frozen words", "frozen encoder", "tuned encoder", "own text module"),
]


def fit(model, X):
    return model.fit(X, LABELS, domains=DOMAINS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_network_is_fitted_saved_and_loaded(networks, kind, tmp_path):
    network, X, function = networks[kind]
    model = fit(SetCoverClassifier(network=network, **QUICK), X)
    sets = model.predict_set(X)
    assert sets.shape == (N, 2)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model", network=function)
    assert np.array_equal(loaded.label_scores(X), model.label_scores(X))
    assert np.array_equal(loaded.predict_set(X), sets)
    again = fit(SetCoverClassifier(network=network, **QUICK), X)
    assert np.array_equal(again.label_scores(X), model.label_scores(X)), "the same seed gives the same model"


@pytest.mark.parametrize("kind", ["own backbone", "frozen words"])
def test_frozen_features_are_learned_from(networks, kind):
    network, X, _ = networks[kind]
    model = fit(ERMClassifier(network=network, epochs=60, random_state=0), X)
    assert (model.predict(X) == LABELS).mean() > 0.9
    assert not model.encoder_.is_lazy


def test_a_whole_network_is_learned(networks):
    model = fit(ERMClassifier(network=networks["own module"][0], epochs=15, batch_size=16, random_state=0), PIXELS)
    assert model.encoder_.is_lazy
    assert (model.predict(PIXELS) == LABELS).mean() > 0.9


def test_a_saved_model_needs_nothing_of_the_folder_that_its_network_came_from(tmp_path):
    tiny_bert_folder(tmp_path / "bert", WORDS)
    network = TextNetwork(model=tmp_path / "bert", features="encoder", cache=None)
    model = fit(SetCoverClassifier(network=network, **QUICK), TEXTS)
    model.save(tmp_path / "model")
    (tmp_path / "bert").rename(tmp_path / "gone")
    assert np.array_equal(load(tmp_path / "model").label_scores(TEXTS), model.label_scores(TEXTS))


def test_features_are_computed_once_and_a_changed_file_is_noticed(folder, tmp_path, monkeypatch):
    paths = [tmp_path / f"{k}.png" for k in range(4)]
    for path, image in zip(paths, PIXELS, strict=False):
        PIL.fromarray(image).save(path)
    network = ImageNetwork(model=folder / "resnet", image_size=12, workers=0, cache=str(tmp_path / "cache"))
    model = ERMClassifier(network=network)
    X = network.checked(model, paths, reset=True)
    encoder = network.fitted_encoder(X, "cpu")
    first = encoder._features(X)
    module = encoder.backbone_.module
    monkeypatch.setattr(module, "forward", lambda _: pytest.fail("these features are known"))
    assert np.array_equal(encoder._features(X), first)
    monkeypatch.undo()
    PIL.fromarray(PIXELS[7]).save(paths[2])
    changed = (encoder._features(X) != first).any(axis=1)
    assert changed.tolist() == [False, False, True, False]


def test_a_table_of_one_column_gives_its_name(networks):
    network, X, _ = networks["frozen words"]
    model = fit(ERMClassifier(network=network, **QUICK), pd.DataFrame({"review": X}))
    assert model.feature_names_in_.tolist() == ["review"]
    assert model.encoder_.kinds_ == {"review": "text"}
    with pytest.raises(InputError, match="texts are one column of a table, got 2: a, b"):
        model.predict_set(pd.DataFrame({"a": X, "b": X}))


def test_networks_on_images_are_judged_calibrated_and_assessed_like_any_other(networks):
    network, X, _ = networks["own backbone"]
    conformal = ConformalSetClassifier(ERMClassifier(network=network, **QUICK), "robust", min_cell_size=5)
    assert fit(conformal, X).predict_set(X).shape == (N, 2)
    promised = SetCoverClassifier(network=network, domain_confidence=0.5, folds=3, min_cell_size=5, **QUICK)
    assert fit(promised, X).promise is not None
    assert assess(SetCoverClassifier(network=network, **QUICK), X, LABELS, DOMAINS, random_state=0).unseen


class TestUnreadable:
    @pytest.fixture
    def paths(self, folder, tmp_path):
        paths = [str(folder / f"{k}.png") for k in range(N)]
        (tmp_path / "empty.png").touch()
        (tmp_path / "torn.png").write_bytes((folder / "1.png").read_bytes()[:60])
        paths[10], paths[21] = str(tmp_path / "empty.png"), str(tmp_path / "torn.png")
        return paths

    @pytest.mark.parametrize("kind", ["frozen images", "tuned images"])
    def test_a_few_are_named_and_left_out(self, networks, kind, paths):
        from dataclasses import replace

        network = replace(networks[kind][0], max_unreadable=0.05)
        with pytest.warns(UserWarning, match=r"2 of 120 images .* left out: .*empty.png .*0 bytes.*torn.png"):
            model = fit(SetCoverClassifier(network=network, **QUICK), paths)
        with pytest.warns(UserWarning, match=r"2 of 120 images cannot be read .* their sets hold every label"):
            sets = model.predict_set(paths)
        assert sets[[10, 21]].all()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict_set(paths[:5])

    def test_too_many_stop_before_training(self, networks, paths):
        with pytest.raises(InputError, match=r"2 of 120 images \(1.67%\) cannot be read, more than the 1.00%"):
            fit(SetCoverClassifier(network=networks["tuned images"][0], **QUICK), paths)

    def test_a_label_that_cannot_be_read_at_all_is_named(self, networks, paths, tmp_path):
        from dataclasses import replace

        network = replace(networks["tuned images"][0], max_unreadable=1.0)
        lost = [str(tmp_path / "no.png") if label else path for path, label in zip(paths, LABELS, strict=True)]
        with (
            pytest.warns(UserWarning, match="left out"),
            pytest.raises(InputError, match="no training example of label 1 can be read"),
        ):
            fit(SetCoverClassifier(network=network, **QUICK), lost)


@pytest.mark.parametrize(
    ("network", "X", "message"),
    [
        (ImageNetwork(learn="head"), PIXELS, "learn='head' keeps the network as it is, but nothing has trained it"),
        (ImageNetwork(learn="some"), PIXELS, "learn must be one of 'auto', 'head', 'all', got 'some'"),
        (ImageNetwork(model="google/vit"), PIXELS, r"'google/vit' is not a folder here; .*--download"),
        (ImageNetwork(weights="no.pth"), PIXELS, "there is no file no.pth"),
        (ImageNetwork(crop=0.7), PIXELS, "crop is the share cut off each side"),
        (ImageNetwork(module=conv, backbone=halves), PIXELS, "module and backbone are two networks"),
        (ImageNetwork(workers=-1), PIXELS, "workers must be 0 or more, got -1"),
        (ImageNetwork(max_unreadable=2), PIXELS, "max_unreadable is a share from 0 to 1, got 2"),
        (ImageNetwork(hidden=(0,)), PIXELS, "hidden must be widths, whole numbers from 1"),
        (ImageNetwork(module=conv), PIXELS.astype(float), "images in an array must be uint8"),
        (ImageNetwork(module=conv), [None] * N, "120 of 120 paths in 'image' are missing, first at row 0"),
        (ImageNetwork(module=conv), [], "there are no images"),
        (ImageNetwork(module=lambda n: n), PIXELS, "network must make a torch.nn.Module, got int"),
        (ImageNetwork(backbone=lambda: nn.Identity()), PIXELS, r"gives \(image, feature\), got \(1, 3, 224, 224\)"),
        (TextNetwork(), TEXTS, "a TextNetwork needs a model"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(network, X, message):
    with pytest.raises(InputError, match=message):
        fit(SetCoverClassifier(network=network, **QUICK), X)


def test_null_texts_are_refused_with_their_row(networks):
    texts = [*TEXTS[:5], None, *TEXTS[6:]]
    with pytest.raises(InputError, match="1 of 120 values of column 'text' are missing, first at row 5"):
        fit(SetCoverClassifier(network=networks["frozen words"][0], **QUICK), texts)


def test_a_forged_network_in_a_model_is_refused():
    from domaincover.estimators.saved_parts import PartsReader

    parts = [
        {"kind": "SetCoverClassifier", "params": {"network": {"source_network": ["os.system", {}]}}, "learned": {}}
    ]
    with pytest.raises(InputError, match=r"'os.system' with .* is nothing that it can hold"):
        PartsReader({}, None, ()).read(parts)


def test_checkpoints_of_a_fit_are_refused_unless_it_is_to_go_on(networks, tmp_path):
    network, X, _ = networks["own module"]
    run = TrainingRun(checkpoints=tmp_path / "kept")
    first = fit(ERMClassifier(network=network, run=run, **QUICK), X)
    with pytest.raises(InputError, match=r"holds checkpoints of this very training; give resume=True"):
        fit(ERMClassifier(network=network, run=run, **QUICK), X)
    resumed = fit(ERMClassifier(network=network, run=TrainingRun(tmp_path / "kept", resume=True), **QUICK), X)
    assert np.array_equal(first.label_scores(X), resumed.label_scores(X))


def test_trackers_hear_of_a_fit(networks, tmp_path):
    network, X, _ = networks["own backbone"]
    fit(SetCoverClassifier(network=network, run=TrainingRun(trackers=("csv",), tracking=tmp_path), **QUICK), X)
    table = pd.read_csv(tmp_path / "SetCoverClassifier-1.csv")
    assert table["epoch"].max() == 2
    assert table["set_size"].between(0, 2).all()


def test_the_words_say_what_learns_and_why(folder):
    frozen = ImageNetwork(model=folder / "resnet")
    if not torch.cuda.is_available():
        assert frozen.in_words("auto").startswith("No GPU was found: the network stays as it is")
    assert "trains the whole network" in ImageNetwork(model=folder / "resnet", learn="head").in_words("cpu")
    assert ImageNetwork(model=folder / "resnet", learn="all").in_words("cpu") == "The whole network is trained, on cpu."
    assert "takes long without a GPU" in ImageNetwork().in_words("cpu")
