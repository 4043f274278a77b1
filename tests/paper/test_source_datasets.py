"""Images and texts in studies: registered by a function, or described in a TOML file."""

import importlib
from functools import partial, wraps
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from domaincover import ERMClassifier, ImageNetwork, InputError, TextNetwork
from domaincover.paper import catalogue
from domaincover.paper.catalogue import study_dataset
from domaincover.paper.collect import collect
from domaincover.paper.experiment import read_experiment
from domaincover.paper.experiment_file import data_sets
from domaincover.paper.plugins import register_dataset
from domaincover.paper.runner import plan_studies, run_study
from domaincover.paper.source_datasets import SourceDataset, code_digest, digest_of
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import draw_study_data
from domaincover.terminal.processes import one_thread
from tests.tiny_models import tiny_bert_folder

SMALL = {"n_train_domains": 10, "n_unseen_domains": 2, "max_train_rows": 12, "max_test_rows": 12}
SMALL |= {"min_cell_size": 2, "epochs": 1, "batch_size": 16}
WORDS = ("good", "bad", "book", "film")


@pytest.fixture(autouse=True)
def no_data_set_stays(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "REGISTERED", dict(catalogue.REGISTERED))
    monkeypatch.setenv("DOMAINCOVER_CACHE", str(tmp_path / "cache"))


def labels_and_domains(n=288):
    return np.where(np.arange(n) % 2, "bright", "dark"), np.arange(n) // 2 % 12


def pixels(seed=0):
    labels, domains = labels_and_domains()
    noise = np.random.default_rng(seed).integers(100, size=(len(labels), 8, 8))
    return (noise + 100 * (labels == "bright")[:, None, None]).astype(np.uint8), labels, domains


def two_layers(n_labels):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(36, n_labels)
    )


def texts():
    labels, domains = labels_and_domains()
    words = np.where(labels == "bright", "good", "bad")
    found = [f"{word} {('book', 'film')[domain % 2]}" for word, domain in zip(words, domains, strict=True)]
    return np.array(found, dtype=object), labels, domains


def do(study, out):
    return run_study(plan_studies([study], out), out)


def sets_of(out, run):
    table = pd.read_parquet(out / run.folder / "predictions.parquet")
    return table[[name for name in table if name.startswith("in_set")]].to_numpy()


@pytest.mark.parametrize(
    ("network", "by_hand"),
    [(None, ImageNetwork(model="small-conv")), (two_layers, ImageNetwork(module=two_layers))],
)
def test_sets_of_a_run_on_images_are_those_of_the_public_estimator(tmp_path, network, by_hand):
    register_dataset("shades", kind="image", network=network, **SMALL)(pixels)
    study = Study(study_dataset("shades"), ("erm", "set-cover"), seeds=(0,))
    assert not do(study, tmp_path).failures
    run = next(study.runs())
    data = draw_study_data(run.setting, 0, run.min_cell_size)
    X, y, domains = data.training
    assert X.shape == (120, 8, 8)
    model = ERMClassifier(
        network=by_hand,
        epochs=1,
        batch_size=16,
        learning_rate_decay=False,
        validation_domains=0.0,
        patience=None,
        random_state=0,
    )
    with one_thread():
        expected = model.fit(X, y, domains=domains).predict_set(data.X)
    np.testing.assert_array_equal(sets_of(tmp_path, run), expected)


def test_promises_and_training_times_include_small_networks_on_images(tmp_path):
    from domaincover.paper.training_times import read_times

    register_dataset("shades", kind="image", **SMALL)(pixels)
    methods = ("erm", "set-cover", "erm-joint", "erm-adapted")
    assert not do(Study(study_dataset("shades"), methods, seeds=(0,), domain_confidence=0.5), tmp_path).failures
    assert set(collect(tmp_path).results["method"]) == set(methods)
    assert read_times(tmp_path)["dataset"].tolist() == ["shades"]


def test_large_networks_are_too_costly_for_promises():
    register_dataset("shades", kind="image", network="resnet-18", **SMALL)(pixels)
    with pytest.raises(InputError, match="erm-joint cannot be run on shades: it trains 5 networks"):
        Study(study_dataset("shades"), ("erm-joint",))


def test_texts_are_learned_by_a_perceptron_on_mean_word_embeddings(tmp_path):
    folder = tiny_bert_folder(tmp_path / "bert", WORDS)
    register_dataset("opinions", kind="text", network=str(folder), **SMALL)(texts)
    study = Study(study_dataset("opinions"), ("erm",), seeds=(0,), epochs=30)
    assert not do(study, tmp_path / "runs").failures
    setting = study_dataset("opinions")
    assert (setting.hidden, setting.trains_whole_networks) == (10, False)
    data = draw_study_data(setting, 0, 2)
    given = texts()[0][setting.load(np.random.default_rng(0)).examples]
    embedded = TextNetwork(model=folder).frozen_features(given, "cpu")
    np.testing.assert_array_equal(setting.inputs(np.arange(len(given))), embedded)
    unseen = data.split.unseen
    sets = sets_of(tmp_path / "runs", next(study.runs()))[unseen]
    assert sets[np.arange(len(unseen)), data.labels[unseen]].all()  # one word decides


def test_a_run_is_identified_by_its_data_and_its_network():
    def identity(**changes):
        return SourceDataset(**({"name": "shades", "read": pixels} | changes)).identity()

    assert identity() == identity()
    assert identity(read=lambda: pixels(seed=1))["data"] != identity()["data"]
    assert identity(network="small-conv") == identity()
    network = {"model": "resnet-18", "module": [f"{__name__}:two_layers", code_digest(two_layers)]}
    assert network.items() <= identity(network=two_layers).items()
    assert identity(image_size=4) != identity()


def test_an_edited_network_or_image_is_not_the_one_of_before(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    source, image = tmp_path / "made_up_networks.py", tmp_path / "0.png"
    source.write_text("import torch\n\n\ndef network(n_labels):\n    return torch.nn.Linear(4, n_labels)\n")
    Image.new("L", (8, 8), 1).save(image)
    paths = np.array([str(image), str(image)], dtype=object)

    network = importlib.import_module("made_up_networks").network

    def identity():
        found = lambda: (paths, ["dark", "bright"], [0, 1])  # noqa: E731 - another function is read anew
        return SourceDataset(name="shades", read=found, network=network).identity()

    before, size = identity(), image.stat().st_size
    assert identity() == before
    Image.new("L", (8, 8), 2).save(image)
    assert image.stat().st_size == size
    assert identity()["data"] != before["data"]
    source.write_text(source.read_text().replace("(4,", "(5,"))
    assert identity()["module"] != before["module"]


@pytest.mark.parametrize("kind", ["function", "partial", "wrapped", "class", "object"])
def test_code_is_that_of_the_file_that_defines_it(kind):
    class Network:
        def __call__(self, n_labels):
            return n_labels

    made = {"function": two_layers, "partial": partial(two_layers), "class": Network, "object": Network()}
    made["wrapped"] = wraps(two_layers)(made["partial"])
    assert code_digest(made[kind]) == digest_of(Path(__file__))


def test_unreadable_images_of_a_folder_are_left_out(tmp_path):
    images, labels, domains = pixels()
    for number, (image, label, domain) in enumerate(zip(images, labels, domains, strict=True)):
        place = tmp_path / "images" / f"d{domain}" / label
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number}.png")
    (place / "broken.png").write_bytes(b"no image")
    sizes = "".join(
        f"{key} = {value}\n" for key, value in (SMALL | {"max_train_rows": 25, "max_test_rows": 25}).items()
    )
    file = tmp_path / "shades.toml"
    file.write_text(f'methods = ["erm"]\nseeds = 1\n[data.shades]\nfolder = "images"\n{sizes}')
    experiment = read_experiment(file)
    (study,) = experiment.studies({}, quick=False, note=print)
    with pytest.warns(UserWarning, match="broken.png"):
        plan = plan_studies([study], tmp_path / "runs")
    assert len(plan.jobs[0].unreadable) == 1
    assert not run_study(plan, tmp_path / "runs").failures


@pytest.fixture
def place(tmp_path):
    """A folder with images in one file, and texts in a table."""
    X, labels, domains = pixels()
    np.savez(tmp_path / "shades.npz", X=X, label=labels, domain=domains)
    np.savez(tmp_path / "floats.npz", X=X / 255, label=labels, domain=domains)
    words, labels, domains = texts()
    table = pd.DataFrame({"text": words, "label": labels, "domain": domains, "length": 3})
    table.to_csv(tmp_path / "texts.csv", index=False)
    table.assign(label=[*labels[:-1], None]).to_csv(tmp_path / "gaps.csv", index=False)
    return tmp_path


def test_a_toml_file_describes_images_texts_and_tables(place):
    described = {
        "shades": {"file": "shades.npz", "network": "small-conv", "epochs": 3},
        "opinions": {"table": "texts.csv", "text": "text", "n_train_domains": 6},
        "lengths": {"table": "texts.csv", "features": ["length"]},
    }
    shades, opinions, lengths = data_sets(described, place, "my.toml")
    assert (shades.epochs, shades.source_network.model) == (3, "small-conv")
    assert shades.inputs(np.arange(2)).shape == (2, 8, 8)
    assert (opinions.kind, opinions.n_train_domains) == ("text", 6)
    assert opinions.sources(np.array([1])).tolist() == ["good book"]
    assert list(lengths.inputs(np.arange(2)).columns) == ["length"]


def test_domains_and_texts_of_a_table_are_read_as_they_are_written(tmp_path):
    rows = {"text": ["NA", "good"], "label": ["0", "1"], "domain": ["001", "1"]}
    pd.DataFrame(rows).to_csv(tmp_path / "texts.csv", index=False)
    (dataset,) = data_sets({"opinions": {"table": "texts.csv", "text": "text"}}, tmp_path, "my.toml")
    data = dataset.load(np.random.default_rng(0))
    assert (data.label_names, data.domain_names) == ((0, 1), ("001", "1"))
    assert dataset.sources(np.arange(2)).tolist() == ["NA", "good"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fil": "shades.npz"}, "unknown key 'fil'; did you mean file?"),
        ({"kind": "image"}, "give one of file"),
        ({"file": "shades.npz", "folder": "x"}, "give one of file"),
        ({"file": 3}, "file must be a string, got 3"),
        ({"file": "shades.npz", "epochs": 0}, "epochs must be at least 1, got 0"),
        ({"file": "shades.npz", "label": "label"}, "label names a column of a table"),
        ({"file": "shades.npz", "kind": "text"}, "file has images"),
        ({"table": "texts.csv", "kind": "image"}, "images are read from a file or folder"),
        ({"table": "texts.csv", "kind": "texts"}, "kind 'texts'; did you mean text?"),
        ({"table": "texts.csv", "text": "text", "features": ["length"]}, "texts are learned from one column"),
        ({"table": "texts.csv", "network": "small-conv"}, "a table's network is a perceptron"),
    ],
)
def test_what_a_description_may_not_say_is_named(place, values, message):
    with pytest.raises(InputError) as refused:
        data_sets({"mine": values}, place, "my.toml")
    assert str(refused.value).startswith("my.toml: [data.mine]")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"file": "nothing.npz"}, "nothing.npz"),
        ({"file": "texts.csv"}, "corrupt or not an .npz file"),
        ({"file": "floats.npz"}, "floats.npz: images in an array must be uint8"),
        ({"table": "texts.csv", "label": "lable"}, "lable"),
        ({"table": "gaps.csv"}, "1 of 288 rows have no label, first row 288"),
    ],
)
def test_data_that_cannot_be_read_are_named_with_their_place(place, values, message):
    (dataset,) = data_sets({"mine": values}, place, "my.toml")
    with pytest.raises(InputError) as refused:
        dataset.load(np.random.default_rng(0))
    assert message in str(refused.value)


def test_a_name_of_another_data_set_is_refused(place):
    with pytest.raises(InputError, match="'audiomnist' already exists"):
        data_sets({"audiomnist": {"file": "shades.npz"}}, place, "my.toml")
