"""Classifiers on images and texts: frozen features and whole networks, from files and from memory."""

import sys
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
    PromisedSetClassifier,
    SetCoverClassifier,
    TextNetwork,
    TrainingRun,
    assess,
    load,
)
from domaincover.training.listeners import Listener
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
    again = fit(SetCoverClassifier(network=network, **QUICK), X)
    for other in (loaded, again):  # from a folder, and from the same seed
        if kind == "frozen encoder":  # its features come from the cache or from batches of other sizes, rounded there
            np.testing.assert_allclose(other.label_scores(X), model.label_scores(X), rtol=1e-4, atol=1e-4)
        else:
            assert np.array_equal(other.label_scores(X), model.label_scores(X))
            assert np.array_equal(other.predict_set(X), sets)


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
    first = encoder.features(X)
    module = encoder.backbone_.module
    monkeypatch.setattr(module, "forward", lambda _: pytest.fail("these features are known"))
    assert np.array_equal(encoder.features(X), first)
    monkeypatch.undo()
    PIL.fromarray(PIXELS[7]).save(paths[2])
    changed = (encoder.features(X) != first).any(axis=1)
    assert changed.tolist() == [False, False, True, False]


def test_a_table_of_one_column_gives_its_name(networks):
    network, X, _ = networks["frozen words"]
    model = fit(ERMClassifier(network=network, **QUICK), pd.DataFrame({"review": X}))
    assert model.feature_names_in_.tolist() == ["review"]
    assert model.encoder_.kinds_ == {"review": "text"}
    with pytest.raises(InputError, match="texts must be one column of a table, got 2: a, b"):
        model.predict_set(pd.DataFrame({"a": X, "b": X}))


def test_networks_on_images_are_judged_calibrated_and_assessed_like_any_other(networks):
    network, X, _ = networks["own backbone"]
    conformal = ConformalSetClassifier(ERMClassifier(network=network, **QUICK), "robust", min_cell_size=5)
    assert fit(conformal, X).predict_set(X).shape == (N, 2)
    promised = PromisedSetClassifier(
        SetCoverClassifier(network=network, min_cell_size=5, **QUICK), domain_confidence=0.5, folds=3, min_cell_size=5
    )
    assert fit(promised, X).promise is not None
    assert assess(
        SetCoverClassifier(network=network, **QUICK), X, LABELS, DOMAINS, min_cell_size=1, random_state=0
    ).unseen


def with_tanh(n_labels):
    return nn.Sequential(nn.Flatten(), nn.Linear(432, 8), nn.Tanh(), nn.Linear(8, n_labels))


def with_relu(n_labels):
    return nn.Sequential(nn.Flatten(), nn.Linear(432, 8), nn.ReLU(), nn.Linear(8, n_labels))


class TestCheckpoints:
    """A checkpoint belongs to one training: its network, its start, its images, and the domains that judge it."""

    def resumed(self, folder, X, module=with_relu):
        run = TrainingRun(checkpoints=folder, resume=True)
        return fit(SetCoverClassifier(network=ImageNetwork(module=module, workers=0), run=run, **QUICK), X)

    def fresh(self, X, module=with_relu):
        return fit(SetCoverClassifier(network=ImageNetwork(module=module, workers=0), **QUICK), X)

    def test_another_network_of_the_same_shapes_is_trained_itself(self, tmp_path):
        self.resumed(tmp_path, PIXELS)
        other = self.resumed(tmp_path, PIXELS, with_tanh)
        assert np.array_equal(other.label_scores(PIXELS), self.fresh(PIXELS, with_tanh).label_scores(PIXELS))

    def test_changed_images_are_learned_anew(self, tmp_path):
        paths = [tmp_path / f"{k}.png" for k in range(N)]
        for path, image in zip(paths, PIXELS, strict=True):
            PIL.fromarray(image).save(path)
        self.resumed(tmp_path / "kept", paths)
        for path, image in zip(paths, 255 - PIXELS, strict=True):
            PIL.fromarray(image).save(path)
        again = self.resumed(tmp_path / "kept", paths)
        assert np.array_equal(again.label_scores(paths), self.fresh(paths).label_scores(paths))

    @pytest.mark.parametrize("seed", [1, 3])
    def test_folds_that_differ_in_their_judges_alone_do_not_share_one(self, tmp_path, seed):
        promise = {"domain_confidence": 0.5, "calibration": "jackknife-minmax", "min_cell_size": 5}
        network = SetCoverClassifier(network=ImageNetwork(module=with_relu, workers=0), min_cell_size=5, **QUICK)
        model = PromisedSetClassifier(network.set_params(random_state=seed), random_state=seed, **promise)
        whole = fit(model, PIXELS).label_scores(PIXELS)
        model.set_params(estimator__run=TrainingRun(checkpoints=tmp_path))
        assert np.array_equal(fit(model, PIXELS).label_scores(PIXELS), whole)
        assert len(list(tmp_path.iterdir())) == len(model.estimators_)


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
        with pytest.warns(UserWarning, match=r"2 of 120 images cannot be read .* their sets contain every label"):
            sets = model.predict_set(paths)
        assert sets[[10, 21]].all()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict_set(paths[:5])

    @pytest.mark.parametrize("kind", ["frozen images", "tuned images"])
    @pytest.mark.parametrize(
        ("rule", "settings"),
        [("robust", {}), ("pooled", {}), ("order", {"domain_confidence": 0.5, "calibration": "cross-fit", "folds": 3})],
    )
    @pytest.mark.filterwarnings("ignore:.* images .*cannot be read")
    def test_conformal_sets_of_them_hold_every_label(self, networks, kind, paths, rule, settings):
        from dataclasses import replace

        scorer = ERMClassifier(network=replace(networks[kind][0], max_unreadable=0.05, workers=0), **QUICK)
        model = fit(ConformalSetClassifier(scorer, rule, min_cell_size=5, random_state=0, **settings), paths)
        sets = model.predict_set(paths)
        assert sets[[10, 21]].all()

    @pytest.mark.filterwarnings("ignore:.* images .*cannot be read")
    def test_one_label_gives_no_odds_on_them(self, networks, paths):
        from dataclasses import replace

        model = ERMClassifier(network=replace(networks["frozen images"][0], max_unreadable=0.05), **QUICK)
        probabilities = fit(model, paths).predict_proba(paths)
        assert (probabilities[[10, 21]] == 0.5).all()
        assert np.allclose(probabilities.sum(axis=1), 1)
        assert model.decision_function(paths)[10] == 0
        assert model.predict_set(paths)[[10, 21]].all()

    def test_one_alone_is_told_also_where_images_keep_their_own_size(self, networks):
        model = fit(SetCoverClassifier(network=networks["own module"][0], **QUICK), PIXELS)
        with pytest.warns(UserWarning, match="1 of 1 images cannot be read"):
            assert model.predict_set(["nowhere.png"]).all()

    def test_one_that_vanishes_while_it_judges_is_named(self, paths):
        from domaincover.data.dataset import DomainDataset
        from domaincover.data.examples import LazyExamples
        from domaincover.data.readers import ImageReader
        from domaincover.estimators.stacked_fit import HeldOutDomains

        examples = LazyExamples(np.array(paths, dtype=object), ImageReader((12, 12)))
        held_out = HeldOutDomains(DomainDataset(examples, LABELS, DOMAINS, (0, 1), tuple(range(N_DOMAINS))))
        with pytest.raises(InputError, match=r"empty.png was readable when training began, but is not any more"):
            held_out.scores(lambda images: images.float().mean((2, 3))[:, :2])

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
        (ImageNetwork(learn="head"), PIXELS, "learn='head' needs a pretrained network"),
        (ImageNetwork(learn="some"), PIXELS, "learn must be one of 'auto', 'head', 'all', got 'some'"),
        (ImageNetwork(model="google/vit"), PIXELS, r"'google/vit' is not a folder; .*--download"),
        (ImageNetwork(crop=0.7), PIXELS, "crop is the share cut off each side"),
        (ImageNetwork(module=conv, backbone=halves), PIXELS, "module and backbone cannot be combined"),
        (ImageNetwork(workers=-1), PIXELS, "workers must be 0 or more, got -1"),
        (ImageNetwork(max_unreadable=2), PIXELS, "max_unreadable must be from 0 to 1, got 2"),
        (
            ImageNetwork(hidden=0),
            PIXELS,
            "hidden must be one or several positive integers, got 0",
        ),
        (ImageNetwork(module=lambda n: conv(n + 1)), PIXELS, r"score per label, 2; for two images it returns \(2, 3\)"),
        (ImageNetwork(module=conv(2)), PIXELS, "network must be a function that returns a new torch.nn.Module"),
        (ImageNetwork(module=conv), list(range(N)), "'image' contains 0 at row 0, which is not a path"),
        (ImageNetwork(module=conv), PIXELS.astype(float), "images in an array must be uint8"),
        (ImageNetwork(module=conv), [None] * N, "120 of 120 paths in 'image' are missing, first at row 0"),
        (ImageNetwork(module=conv), [], "there are no images"),
        (ImageNetwork(module=lambda n: n), PIXELS, "network must return a torch.nn.Module, got int"),
        (ImageNetwork(backbone=lambda: nn.Identity()), PIXELS, r"of shape \(image, feature\), got \(1, 3, 224, 224\)"),
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


def test_a_model_of_a_gpu_predicts_without_one(networks, tmp_path):
    network, X, _ = networks["frozen words"]
    model = fit(SetCoverClassifier(network=network, **QUICK), X)
    expected = model.label_scores(X)
    model.set_params(device="cuda").save(tmp_path / "model")
    if not torch.cuda.is_available():
        assert np.array_equal(load(tmp_path / "model").label_scores(X), expected)


def test_a_saved_model_does_not_say_where_to_write(networks, tmp_path):
    network, X, _ = networks["frozen words"]
    model = fit(SetCoverClassifier(network=TextNetwork(model=network.model, cache=tmp_path / "kept"), **QUICK), X)
    model.save(tmp_path / "model")
    assert "kept" not in (tmp_path / "model" / "model.json").read_text()
    assert load(tmp_path / "model").network.cache == "auto"


def test_two_backbones_with_the_same_weights_have_features_of_their_own(tmp_path):
    def features(activation):
        def backbone():
            return nn.Sequential(nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten(), activation)

        network = ImageNetwork(backbone=backbone, image_size=12, workers=0, cache=str(tmp_path))
        return network.fitted_encoder(PIXELS[:4], "cpu").features(PIXELS[:4])

    halved, squashed = features(nn.ReLU()), features(nn.Tanh())
    assert not np.array_equal(halved, squashed)
    assert np.array_equal(features(nn.ReLU()), halved)


def test_a_forged_network_in_a_model_is_refused():
    from domaincover.saving.parts import PartsReader

    parts = [{"kind": "SetCoverClassifier", "params": {"network": {"settings": ["os.system", {}]}}, "learned": {}}]
    with pytest.raises(InputError, match=r"unknown type or fields: 'os.system'"):
        PartsReader({}, None, ()).read(parts)


def test_checkpoints_of_a_fit_are_refused_unless_it_is_to_go_on(networks, tmp_path):
    network, X, _ = networks["own module"]
    run = TrainingRun(checkpoints=tmp_path / "kept")
    first = fit(ERMClassifier(network=network, run=run, **QUICK), X)
    again = fit(ERMClassifier(network=network, run=run, **QUICK), X)  # what is finished is taken as it is
    assert np.array_equal(first.label_scores(X), again.label_scores(X))
    max((tmp_path / "kept").glob("*/state-*")).unlink()  # as if it had been stopped before its end
    with pytest.raises(InputError, match=r"contains checkpoints of this training; pass resume=True"):
        fit(ERMClassifier(network=network, run=run, **QUICK), X)
    resumed = fit(ERMClassifier(network=network, run=TrainingRun(tmp_path / "kept", resume=True), **QUICK), X)
    assert np.array_equal(first.label_scores(X), resumed.label_scores(X))


class Steps(Listener):
    def __init__(self):
        self.steps, self.ends = [], []

    def step(self, step):
        self.steps.append(step)

    def finish(self, end=None):
        self.ends.append(end)


def test_listeners_hear_of_a_fit(networks):
    network, X, _ = networks["own backbone"]
    heard = Steps()
    fit(SetCoverClassifier(network=network, run=TrainingRun(listeners=(heard,)), **QUICK), X)
    assert max(step.epoch for step in heard.steps) == 1
    assert all(0 <= step.set_size <= 2 for step in heard.steps)
    assert len(heard.ends) == 1


def test_the_words_say_what_learns_and_why(folder):
    frozen = ImageNetwork(model=folder / "resnet")
    if not torch.cuda.is_available():
        assert frozen.in_words("auto").startswith("No GPU was found: training a head")
    assert "trains the entire network" in ImageNetwork(model=folder / "resnet", learn="head").in_words("cpu")
    assert ImageNetwork(model=folder / "resnet", learn="all").in_words("cpu") == "Training the entire network on cpu."
    assert "slow without a GPU" in ImageNetwork().in_words("cpu")


@pytest.mark.parametrize(
    ("package", "network", "message"),
    [
        ("transformers", ImageNetwork(), r"networks on images need transformers, .*\[images\]"),
        ("transformers", TextNetwork(model="bert"), r"networks on texts need transformers, .*\[text\]"),
    ],
)
def test_a_package_that_is_missing_is_told_before_anything_is_read(monkeypatch, package, network, message):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    with pytest.raises(InputError, match=message):
        network.check()


class TestWithoutPillow:
    @pytest.fixture(autouse=True)
    def without_pillow(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "PIL", None)

    def test_images_in_an_array_are_learned(self):
        model = ERMClassifier(network=ImageNetwork(model="small-conv"), **QUICK).fit(PIXELS, LABELS, domains=DOMAINS)
        assert model.predict_set(PIXELS).shape == (N, 2)

    def test_image_files_name_the_extra(self):
        model = ERMClassifier(network=ImageNetwork(model="small-conv", max_unreadable=None), **QUICK)
        with pytest.raises(InputError, match=r"image files need PIL.*pip install 'domaincover\[images\]'"):
            model.fit([f"{k}.png" for k in range(N)], LABELS, domains=DOMAINS)
