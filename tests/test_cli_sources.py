"""The commands on images and texts; kills are real."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from domaincover import ImageNetwork, SetCoverClassifier, load
from domaincover.cli.network_options import EFFECTS
from tests.processes import held_command
from tests.tiny_models import tiny_bert_folder, tiny_resnet_folder

PIL = pytest.importorskip("PIL.Image")
pytest.importorskip("transformers")


def flags(names):
    return [f"--{name.replace('_', '-')}" for name in names]


N, N_DOMAINS = 240, 6
WORDS = ["good", "fine", "bad", "poor", "the", "a", "book", "film", "toy"]
DOMAINCOVER = [sys.executable, "-m", "domaincover"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Images in folders and in a table, texts in a table, a tiny ResNet and a tiny BERT."""
    world, rng = tmp_path_factory.mktemp("world"), np.random.default_rng(0)
    label, domain = np.arange(N) % 2, np.arange(N) // 2 % N_DOMAINS
    images, texts = [], []
    for k in range(N):
        pixels = rng.integers(0, 80, (12, 12, 3)).astype(np.uint8) + np.uint8(10 * domain[k])
        pixels[:, 6 * label[k] : 6 * label[k] + 6] += 100
        path = world / "images" / f"site-{domain[k]}" / ("right" if label[k] else "left") / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.fromarray(pixels).save(path)
        images.append(str(path.relative_to(world)))
        texts.append(" ".join([*rng.choice(WORDS[:2] if label[k] else WORDS[2:4], 3), *rng.choice(WORDS[4:], 3)]))
    texts[7] = "NA"
    table = pd.DataFrame({"image": images, "review": texts, "side": label, "site": domain, "other": rng.random(N)})
    table.to_csv(world / "table.csv", index=False)
    tiny_resnet_folder(world / "resnet")
    tiny_bert_folder(world / "bert", WORDS)
    return world


@pytest.fixture(autouse=True)
def _cache(world, monkeypatch):
    monkeypatch.setenv("DOMAINCOVER_CACHE", str(world / "cache"))


ROLES = ["--label", "side", "--domain", "site"]


def test_texts_are_fitted_predicted_and_evaluated(here, world, tmp_path):
    source = ["--text-column", "review", "--network", world / "bert"]
    code, printed, told = here("fit", world / "table.csv", *ROLES, *source, "--epochs", 20, "--out", tmp_path / "model")
    assert code == 0
    assert "training a head on the frozen network's features" in told
    assert "SET-COVER" in printed
    code, _, told = here("predict", tmp_path / "model", world / "table.csv", "--out", tmp_path / "sets.csv")
    assert code == 0
    assert told.startswith(f"240 sets are in {tmp_path / 'sets.csv'}.\n")
    assert len(pd.read_csv(tmp_path / "sets.csv")) == N
    code, printed, _ = here("evaluate", tmp_path / "model", world / "table.csv", "--format", "json")
    assert (code, json.loads(printed)["summary"]["n_domains"]) == (0, N_DOMAINS)


def test_a_folder_of_images_is_a_table(here, world, tmp_path):
    source = ["--network", world / "resnet", "--image-size", 12, "--workers", 0, "--epochs", 3]
    code, printed, told = here("fit", world / "images", *source, "--out", tmp_path / "model", "--min-cell-size", 1)
    assert code == 0
    assert "site-" in printed
    model = load(tmp_path / "model")
    assert model.classes_.tolist() == ["left", "right"]
    code, _, told = here("predict", tmp_path / "model", world / "images", "--out", tmp_path / "sets.csv")
    assert code == 0
    assert told.startswith(f"240 sets are in {tmp_path / 'sets.csv'}.\n")


def test_paths_in_a_table_start_from_its_folder(here, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = ["--image-column", "image", "--network", world / "resnet", "--image-size", 12, "--workers", 0]
    code, _, _ = here("fit", world / "table.csv", *ROLES, *source, "--hold-out-domains", 0, "--out", "model")
    assert code == 0
    assert here("predict", "model", world / "table.csv", "--id", "image", "--out", "sets.csv")[0] == 0


OTHER_THAN_DEFAULT = {
    "--network": ["--network", "bert"],
    "--learn": ["--learn", "all"],
    "--download": ["--download"],
    "--cache": ["--cache", "kept"],
    "--workers": ["--workers", 0],
    "--image-size": ["--image-size", 12],
    "--crop": ["--crop", 0.1],
    "--max-unreadable": ["--max-unreadable", 0.5],
    "--text-features": ["--text-features", "encoder"],
    "--max-tokens": ["--max-tokens", 9],
}


@pytest.fixture(scope="module")
def image_model(world, tmp_path_factory):
    """A model of images, fitted on the first four domains."""
    table = pd.read_csv(world / "table.csv")
    seen = table[table["site"] < 4].assign(image=[str(world / path) for path in table["image"][table["site"] < 4]])
    network = ImageNetwork(model=str(world / "resnet"), image_size=12, workers=0, cache=None)
    model = SetCoverClassifier(network=network, epochs=2, random_state=0)
    model.fit(seen[["image"]], seen["side"], domains=seen["site"])
    folder = tmp_path_factory.mktemp("images") / "model"
    model.save(folder)
    return folder


@pytest.mark.parametrize("command", ["predict", "evaluate", "certify"])
def test_an_image_that_cannot_be_read_is_told_in_a_line(here, world, image_model, tmp_path, command):
    table = pd.read_csv(world / "table.csv")
    new = table[table["site"] >= 4].assign(image=[str(world / path) for path in table["image"][table["site"] >= 4]])
    new.iloc[3, 0] = str(tmp_path / "gone.png")
    new.to_csv(tmp_path / "new.csv", index=False)
    roles = ["--out", tmp_path / "sets.csv"] if command == "predict" else ROLES
    code, _, told = here(command, image_model, tmp_path / "new.csv", *roles)
    (line,) = [line for line in told.splitlines() if "gone.png" in line]
    assert (code, line[:6], told.count("Warning")) == (0, "Note: ", 0)


class TestRefusals:
    @pytest.fixture
    def fit_refused(self, refused, world, tmp_path):
        def check(message, *arguments, table=world / "table.csv"):
            refused(message, "fit", table, *arguments, "--out", tmp_path / "model")

        return check

    def test_sources(self, fit_refused, world):
        wrong = [*ROLES, "--image-column", "imagee"]
        fit_refused("no column 'imagee' (--image-column); did you mean 'image'?", *wrong)
        fit_refused("two kinds of network; give one", *ROLES, "--image-column", "image", "--text-column", "review")
        fit_refused("--text-column needs --network", *ROLES, "--text-column", "review")
        fit_refused("--network is for images and texts", *ROLES, "--network", "bert")
        hub = ["--text-column", "review", "--network", "bert-base-uncased"]
        fit_refused("'bert-base-uncased' is not a folder", *ROLES, *hub)
        boosting = ["--image-column", "image", "--base", "boosting", "--method", "erm"]
        fit_refused("boosting is for tables", *ROLES, *boosting)
        fit_refused("--text-column needs a table", "--text-column", "path", table=world / "images")
        fit_refused("--label is missing: name its column of", "--domain", "site")

    @pytest.mark.parametrize("option", [option for names in EFFECTS.values() for option in flags(names)])
    def test_an_option_on_images_or_texts_for_a_table_of_numbers(self, fit_refused, option):
        fit_refused(f"{option} is for ", *ROLES, "--drop", "image", "--drop", "review", *OTHER_THAN_DEFAULT[option])

    @pytest.mark.parametrize("option", flags(EFFECTS["texts"]))
    def test_an_option_on_texts_for_images(self, fit_refused, option, world):
        given = OTHER_THAN_DEFAULT[option]
        says = f"{option} is for texts; it has no effect on images, leave it out."
        fit_refused(says, *ROLES, "--image-column", "image", *given)
        fit_refused(says, *given, table=world / "images")

    @pytest.mark.parametrize("option", flags(EFFECTS["images"]))
    def test_an_option_on_images_for_texts(self, fit_refused, option, world):
        source = ["--text-column", "review", "--network", world / "bert"]
        says = f"{option} is for images; it has no effect on texts, leave it out."
        fit_refused(says, *ROLES, *source, *OTHER_THAN_DEFAULT[option])

    @pytest.mark.parametrize("option", ["--text-column", "--image-column"])
    def test_a_source_that_is_the_label_or_the_domain(self, fit_refused, option):
        fit_refused(f"{option} and --label are both 'side'; they must be two columns.", *ROLES, option, "side")
        fit_refused(f"{option} and --domain are both 'site'; they must be two columns.", *ROLES, option, "site")

    def test_training(self, fit_refused):
        fit_refused("--resume continues from checkpoints; name their folder", *ROLES, "--resume")

    def test_an_empty_label_folder(self, fit_refused, tmp_path):
        (tmp_path / "images" / "site" / "left").mkdir(parents=True)
        fit_refused("site/left contains no images", table=tmp_path / "images")

    def test_null_text(self, fit_refused, world, tmp_path):
        table = pd.read_csv(world / "table.csv", keep_default_na=False)
        table.loc[3, "review"] = None
        table.to_parquet(tmp_path / "null.parquet")
        source = [*ROLES, "--text-column", "review", "--network", world / "bert"]
        message = "column 'review' (--text-column) is empty in 1 of 240 rows, first in row 4"
        fit_refused(message, *source, table=tmp_path / "null.parquet")


FIT = ["--hold-out-domains", "0", "--image-size", "12", "--workers", "0", "--batch-size", "8", "--method", "set-cover"]


def command(world, *more):
    source = ["--image-column", "image", "--network", str(world / "resnet"), "--learn", "all"]
    return ["fit", str(world / "table.csv"), *ROLES, *source, *FIT, *map(str, more)]


def tensors(model):
    return {name: value.numpy() for name, value in load(model).network_.state_dict().items()}


@pytest.mark.slow
def test_a_fit_that_was_killed_goes_on_and_ends_as_one_that_was_not(here, refused, world, tmp_path, held):
    at_every_batch = ["--checkpoint-minutes", 1e-9, "--checkpoints", tmp_path / "kept"]
    arguments, holds = command(world, "--epochs", 2, *at_every_batch), held("state-000017")  # within an epoch
    fit = held_command(*arguments, "--out", tmp_path / "model")
    process = subprocess.Popen(fit, stderr=subprocess.DEVNULL, env=os.environ | holds.environment)
    holds.wait(process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    states = sorted(path.name[:12] for path in (tmp_path / "kept").glob("*/state-*"))
    assert states == ["state-000015", "state-000016"], "the last two are kept"
    (tmp_path / "kept" / ".lock").unlink()  # left by the process, and removed by the next
    refused("contains checkpoints of an interrupted fit; add --resume", *arguments, "--out", tmp_path / "model")
    assert here(*arguments, "--resume", "--out", tmp_path / "model")[0] == 0
    assert not (tmp_path / "kept").exists(), "the model is there, so checkpoints are of no more use"
    assert here(*command(world, "--epochs", 2), "--out", tmp_path / "whole")[0] == 0
    resumed, whole = tensors(tmp_path / "model"), tensors(tmp_path / "whole")
    assert all(np.array_equal(resumed[name], whole[name]) for name in whole)
    assert load(tmp_path / "model").history_.equals(load(tmp_path / "whole").history_)


def stop(*_, **__):
    raise KeyboardInterrupt


@pytest.fixture
def interrupted(here, world, tmp_path, monkeypatch):
    """Stop a fit as its training begins; returns the arguments with which it goes on, and what was said."""
    source = ["--network", world / "resnet", "--learn", "all", *FIT, "--epochs", 1, "--out", tmp_path / "model"]

    def run(*table):
        arguments = ["fit", *table, *source, "--checkpoints", tmp_path / "kept"]
        with monkeypatch.context() as patched:
            patched.setattr("domaincover.estimators.stacked_fit.train", stop)
            code, _, told = here(*arguments)
        assert code == 130
        return [*arguments, "--resume"], told

    return run


def test_a_fit_of_whole_networks_says_how_many_it_trains_and_how_long_they_take(here, world, tmp_path):
    kept = ["--epochs", 1, "--hold-out-domains", 0.4, "--out", tmp_path / "model"]
    code, _, told = here(*command(world, *kept))
    assert code == 0, told
    said = "3 networks are trained one after the other, each for 1 epoch or until held-out domains no longer improve: "
    assert told.count(said) == 1
    assert told.index("Training the entire network") < told.index(said) < told.index("Fitting the final model")
    assert told.count("1 of 3 networks are trained; about ") == told.count("2 of 3 networks are trained; about ") == 1


def test_a_fit_goes_on_with_other_options_that_change_nothing(here, interrupted, world, tmp_path):
    arguments, _ = interrupted(world / "table.csv", *ROLES, "--image-column", "image")
    free = ["--workers", 1, "--cache", tmp_path / "cache", "--download", "--max-unreadable", 0.5]
    code, _, told = here(*arguments, *free)
    assert (code, "The model is in" in told) == (0, True), told


def test_a_fit_that_is_stopped_says_that_its_checkpoints_are_kept(interrupted, world, tmp_path):
    _, told = interrupted(world / "images")
    says = "domaincover: stopped; its checkpoints are kept, and the same command with --resume continues from them.\n"
    assert told.endswith(says)
    assert (tmp_path / "kept").exists()


def test_a_fit_without_checkpoints_that_is_stopped_says_that_no_model_was_written(here, world, tmp_path, monkeypatch):
    monkeypatch.setattr("domaincover.cli.inputs.read_training", stop)
    arguments = ["fit", world / "table.csv", *ROLES, "--checkpoint-minutes", 5, "--out", tmp_path / "model"]
    assert here(*arguments) == (130, "", "domaincover: stopped; no model was written.\n")
