"""The paper's five methods on small folders in the layout of the four WILDS releases, by the command line."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from domaincover import InputError
from domaincover.cli import main
from domaincover.paper.catalogue import CATALOGUE, DATASET_GROUPS, wilds_dataset
from domaincover.paper.collect import collect
from domaincover.paper.job import plan_jobs, threads_for
from domaincover.paper.source_datasets import digest_of
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import Sizes
from domaincover.paper.study_report.style import dataset_label
from domaincover.training import loop
from tests.deep import deep
from tests.paper.wilds_folders import BUILDERS, COMMON_WORDS, WORDS
from tests.processes import held_command
from tests.tiny_models import draw_weights, tiny_bert_folder

WILDS = DATASET_GROUPS["wilds"]
FIVE = {"erm", "pooled-train", "pooled-held-out", "robust", "set-cover"}
N_TRAIN, N_UNSEEN, PER_CELL = 3, 2, 12
SIZES = {"camelyon17": {"size": 16}, "fmow": {"size": 16}, "iwildcam": {}, "amazon": {}}


def keys(**values):
    """Options that set keys of the experiment."""
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


FEW = ["--seeds", 1, "--jobs", 1, *keys(n_train_domains=N_TRAIN, n_unseen_domains=N_UNSEEN, min_cell_size=3)]
FEW += keys(epochs=2, batch_size=16, device="cpu", figures="[]")
IMAGES = keys(image_size=16, workers=0)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("wilds")


@pytest.fixture(scope="module", autouse=True)
def own_cache(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOMAINCOVER_CACHE", str(place / "cache"))
        yield


@pytest.fixture(scope="module")
def folders(place):
    """The four releases, small."""
    return {
        name: build(place, np.random.default_rng(k), n_domains=N_TRAIN + N_UNSEEN + 1, per_cell=PER_CELL, **SIZES[name])
        for k, (name, build) in enumerate(BUILDERS.items())
    }


@pytest.fixture(scope="module")
def resnet(place):
    """A tiny ResNet in a folder that save_pretrained wrote."""
    from transformers import ResNetConfig, ResNetModel

    model = ResNetModel(ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic"))
    draw_weights(model, 0)
    model.save_pretrained(place / "resnet")
    return place / "resnet"


@pytest.fixture(scope="module")
def options(place, resnet):
    """What each data set is run with: whole networks, heads on features, a perceptron on word embeddings."""
    bert = tiny_bert_folder(place / "bert", [*sum(WORDS, ()), *COMMON_WORDS])
    return {
        "camelyon17": [*keys(image_network=resnet, learn="all"), *IMAGES, *FEW],
        "fmow": [*keys(image_network=resnet), *IMAGES, *FEW],
        "iwildcam": [*keys(image_network=resnet, learn="head"), *IMAGES, *FEW],
        "amazon": [*keys(text_network=bert), *FEW],
    }


def paper(name, folder, out, *options):
    """Call the command line in this process."""
    arguments = ["paper", name, "--wilds", folder, "--format", "svg", "--out", out, *options]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["domaincover", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
    return left.value.code


@pytest.fixture(scope="module")
def finished(place, folders, options):
    """A small study of each data set, all in one directory."""
    for name, built in folders.items():
        assert paper(name, built.folder, place / "runs", *options[name]) == 0
    return place / "runs"


def predictions(out, name, method="erm", seed=0):
    return pd.read_parquet(out / f"{name}/{method}/target-0.9/seed-{seed}/predictions.parquet")


def test_the_five_methods_run_on_all_four_data_sets(finished):
    results = collect(finished).results
    unseen = results[results["split"] == "unseen"]
    assert {(row.dataset, row.method) for row in unseen.itertuples()} == {(n, m) for n in WILDS for m in FIVE}
    assert len(results) == 4 * 5 * 3
    assert (unseen["n_domains"] == N_UNSEEN).all()


@pytest.mark.parametrize("name", ["iwildcam", *deep("amazon")])
def test_as_the_authors_small_domains_only_train_and_networks_are_those_of_the_code(
    place, folders, options, finished, name
):
    out = place / "as-authors"
    assert paper(name, folders[name].folder, out, "--as-authors", *options[name]) == 0
    results = collect(out).results
    own = results[results["dataset"] == name]
    assert {(row.method, row.split) for row in own.itertuples()} == {(m, s) for m in FIVE for s in ("train", "unseen")}
    config, usual = (
        json.loads((folder / f"{name}/robust/target-0.9/seed-0/config.json").read_text()) for folder in (out, finished)
    )
    changed = {"iwildcam": {"resize": "imagenet"}, "amazon": {"hidden": [16]}}[name]  # the size of images is given here
    assert config == usual | changed | {"as_authors": True}
    domains = predictions(out, name)
    assert set(domains["split"]) == {"train", "unseen"}


def test_every_example_of_the_drawn_domains_is_judged_once_under_its_own_label(finished, folders):
    for name, built in folders.items():
        table = predictions(finished, name)
        known = pd.Series(built.labels).groupby([list(map(str, built.domains)), built.labels]).size()
        judged = table.astype(str).groupby(["domain", "label"]).size()
        assert judged.groupby("domain").size().size == N_TRAIN + N_UNSEEN
        assert all(judged[cell] == known[cell] for cell in judged.index)


def test_unseen_domains_have_no_example_in_training(finished):
    for name in WILDS:
        table = predictions(finished, name).astype({"domain": str})
        by_split = {split: set(rows["domain"]) for split, rows in table.groupby("split", observed=True)}
        assert by_split["train"] == by_split["seen"]
        assert not by_split["train"] & by_split["unseen"]


def test_sets_are_what_the_methods_say(finished):
    for name in WILDS:
        single = predictions(finished, name).filter(like="in_set")
        assert (single.sum(axis=1) == 1).all()
        cover = predictions(finished, name, "set-cover")
        assert ((cover.filter(like="score").to_numpy() >= 0) == cover.filter(like="in_set").to_numpy()).all()


def test_robust_sets_are_at_target_in_every_training_cell(finished):
    for name in WILDS:
        table = predictions(finished, name, "robust")
        train = table[table["split"] == "train"]
        hit = [train[f"in_set[{label}]"].iloc[row] for row, label in enumerate(train["label"])]
        recall = pd.Series(hit).groupby([train["domain"].astype(str).array, train["label"].astype(str).array]).mean()
        assert (recall >= 0.9).all()


def test_a_run_says_what_it_was_made_with(finished, folders, resnet):
    config = json.loads((finished / "fmow/erm/target-0.9/seed-0/config.json").read_text())
    assert (config["data"], config["learn"]) == (str(folders["fmow"].folder), "head")
    assert config["model"] == ["resnet", digest_of(resnet)]
    assert (config["image_size"], config["batch_size"], config["recall_from"]) == (16, 16, "full-pass")
    assert not {"device", "workers", "cache", "execution", "source", "name"} & set(config)


def test_no_checkpoint_is_left_when_all_runs_are_written(finished):
    assert not (finished / ".checkpoints").exists()


@pytest.mark.slow
def test_results_and_report_take_such_a_study(finished, here, tmp_path):
    code, printed, _ = here("results", finished)
    assert code == 0
    assert all(dataset_label(name) in printed for name in WILDS)
    assert here("report", finished, "--out", tmp_path / "page.html")[0] == 0
    assert "image_size" in (tmp_path / "page.html").read_text()


def test_finished_runs_are_kept_and_other_settings_refused_by_name(finished, folders, options, capsys):
    assert paper("fmow", folders["fmow"].folder, finished, *options["fmow"]) == 0
    assert re.search("0 runs finished in .*, 5 were finished before", capsys.readouterr().err)
    assert paper("fmow", folders["fmow"].folder, finished, *options["fmow"], *keys(image_size=8)) == 2
    assert "was made with other settings (image_size 16)" in capsys.readouterr().err


def test_what_is_trained_and_where_it_starts_is_said(folders, options, resnet, tmp_path, capsys):
    few = [*FEW, *IMAGES, *keys(methods="erm", epochs=1)]
    assert paper("fmow", folders["fmow"].folder, tmp_path / "a", *keys(image_network=resnet), *few) == 0
    assert "No GPU was found: training a head on the frozen network's features" in capsys.readouterr().err
    assert paper("amazon", folders["amazon"].folder, tmp_path / "b", *options["amazon"], *keys(methods="erm")) == 0
    assert "are unseen. Training a head on the frozen network's features" in capsys.readouterr().err


def test_resnet_18_without_weights_starts_at_random_and_says_so(folders, tmp_path, capsys):
    few = [*FEW, *IMAGES, *keys(methods="erm", epochs=1, max_train_rows=6, max_test_rows=6)]
    few += keys(batch_size=3 * 6 - 1)  # a last batch of one image of one pixel would be too little for BatchNorm
    assert paper("camelyon17", folders["camelyon17"].folder, tmp_path / "runs", *few) == 0
    told = capsys.readouterr().err
    assert "Training the entire network on cpu." in told
    assert "starts from random weights, and the paper's from ImageNet weights; give --set image_network=FOLDER" in told


def test_a_seed_on_features_gives_the_same_alone_and_beside_other_seeds_and_targets(
    finished, folders, options, tmp_path
):
    more = ["--seeds", 2, *keys(methods="erm,set-cover", target_recalls="0.8,0.9")]
    assert paper("iwildcam", folders["iwildcam"].folder, tmp_path / "runs", *options["iwildcam"], *more) == 0
    assert len(collect(tmp_path / "runs").results) == 2 * 2 * 3
    for method in ("erm", "set-cover"):
        alone, together = (predictions(out, "iwildcam", method) for out in (finished, tmp_path / "runs"))
        scores = [table.filter(like="score").to_numpy() for table in (alone, together)]
        assert np.abs(scores[0] - scores[1]).max() < 1e-4


def test_what_a_worker_process_is_given_arrives_there(folders, resnet):
    source = wilds_dataset("fmow", folders["fmow"].folder, {"image_network": resnet, "workers": 3})
    (job,) = plan_jobs(Study(source, ("erm",), seeds=(0,)).runs())
    here, there = multiprocessing.Pipe()
    here.send(replace(job, unreadable=frozenset({"a.png"})))
    arrived = there.recv()
    assert (arrived.runs, arrived.unreadable) == (job.runs, {"a.png"})
    assert arrived.runs[0].source.source_network == source.source_network


def test_methods_with_a_promise_run_on_features(folders, options, tmp_path):
    more = keys(methods="erm-joint", domain_confidence=0.7)
    assert paper("iwildcam", folders["iwildcam"].folder, tmp_path / "runs", *options["iwildcam"], *more) == 0
    report = json.loads((tmp_path / "runs/iwildcam/erm-joint/target-0.9/seed-0/report.json").read_text())
    assert report["config"]["domain_confidence"] == 0.7
    assert len(report["thresholds"]) == 3
    assert all(np.isfinite(report["thresholds"]))


@pytest.mark.parametrize("name", ["amazon", *deep("camelyon17")])
def test_single_label_methods_run_on_whole_networks_and_on_perceptrons(name, folders, options, tmp_path):
    # Whole networks one at a time, BatchNorm and all; perceptrons as a stack.
    more = keys(methods="single-label", epochs=1)
    assert paper(name, folders[name].folder, tmp_path / "runs", *options[name], *more) == 0
    found = collect(tmp_path / "runs").results
    assert set(found["method"]) == {"erm", "irm", "vrex", "mmd", "coral", "set-cover"}
    for method in ("irm", "mmd"):
        assert np.isfinite(predictions(tmp_path / "runs", name, method).filter(like="score")).all(axis=None)


def test_an_encoder_of_texts_can_learn_as_a_whole(folders, options, tmp_path):
    more = keys(text_features="encoder", learn="all", max_tokens=8, methods="erm", epochs=1)
    assert paper("amazon", folders["amazon"].folder, tmp_path / "runs", *options["amazon"], *more) == 0
    assert np.isfinite(predictions(tmp_path / "runs", "amazon").filter(like="score")).all(axis=None)


@pytest.fixture
def spoiled(resnet, tmp_path):
    """A release of which one image is no image; in it all domains are drawn."""
    built = BUILDERS["camelyon17"](tmp_path, np.random.default_rng(9), n_domains=5, per_cell=PER_CELL, size=16)
    with open(built.sources[7], "wb"):
        pass
    return built, [*keys(image_network=resnet), *IMAGES, *FEW, *keys(methods="erm")]


def test_an_image_that_cannot_be_read_is_named_and_left_out(spoiled, tmp_path, capsys):
    built, options = spoiled
    for learn in ("head", "all"):
        out = tmp_path / learn
        assert paper("camelyon17", built.folder, out, *options, *keys(learn=learn, max_unreadable=0.05)) == 0
        told = capsys.readouterr().err
        assert f"1 of {len(built.sources)} images" in told
        assert built.sources[7] in told
        assert len(predictions(out, "camelyon17")) == len(built.sources) - 1


def test_too_many_images_that_cannot_be_read_stop_before_training(spoiled, tmp_path, capsys):
    built, options = spoiled
    assert paper("camelyon17", built.folder, tmp_path / "runs", *options, *keys(max_unreadable=0)) == 2
    assert "more than the 0.00% that may be left out" in capsys.readouterr().err
    assert not list((tmp_path / "runs").glob("**/DONE"))


def count_epochs(monkeypatch):
    """Return a list that grows with every epoch trained in this process."""
    epochs, epoch = [], loop._Training._epoch
    monkeypatch.setattr(loop._Training, "_epoch", lambda self, number: (epochs.append(number), epoch(self, number))[1])
    return epochs


@pytest.mark.slow
@pytest.mark.deep
def test_a_killed_training_of_a_whole_network_goes_on_and_gives_what_it_would_have(
    folders, options, tmp_path, monkeypatch, held
):
    settings, holds = [*options["camelyon17"], *keys(methods="set-cover", epochs=20)], held("state-000004")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = ["paper", "camelyon17", "--format", "svg", "--wilds", folders["camelyon17"].folder, *settings]
    program = held_command(*arguments, "--out", killed)
    process = subprocess.Popen(program, stderr=subprocess.DEVNULL, env=os.environ | holds.environment)
    holds.wait(process)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not list(killed.glob("**/DONE"))
    epochs = count_epochs(monkeypatch)
    assert paper("camelyon17", folders["camelyon17"].folder, killed, *settings) == 0
    assert epochs == list(range(epochs[0], 20))
    assert epochs[0] >= 3
    assert not (killed / ".checkpoints").exists()
    assert paper("camelyon17", folders["camelyon17"].folder, whole, *settings) == 0
    pd.testing.assert_frame_equal(
        *(predictions(out, "camelyon17", "set-cover") for out in (whole, killed)), check_exact=True
    )


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("camelyon17", keys(n_train_domains=20), "has 6 domains with 3 or more examples of a label, but 20 training"),
        ("camelyon17", keys(n_train_domains=0), "n_train_domains must be at least 1, got 0"),
        ("camelyon17", keys(image_size=0), "image_size must be at least 1, got 0"),
        ("camelyon17", keys(batch_size=0), "batch_size must be at least 1, got 0"),
        ("camelyon17", keys(learning_rate=0), "learning_rate must be above 0 and finite, got 0"),
        ("camelyon17", keys(min_cell_size=0), "min_cell_size must be at least 1, got 0"),
        (
            "camelyon17",
            keys(methods="erm-joint"),
            "nothing is left to run. erm-joint is left out on camelyon17: it trains",
        ),
        (
            "iwildcam",
            keys(methods="mmd"),
            "nothing is left to run. mmd is left out on iwildcam: it compares learned features",
        ),
        ("camelyon17", keys(device="cuda:99"), "device 'cuda:99' is not available"),
        ("camelyon17", ["--seeds", 0], "--seeds is the number of seeds and must be at least 1"),
        ("camelyon17", keys(image_network="resnet-18", learn="head"), "this one has random weights"),
        ("camelyon17", keys(image_network="microsoft/resnet-50"), "microsoft/resnet-50"),
        ("camelyon17", keys(learn="some"), "learn must be one of 'auto', 'head', 'all', got 'some'"),
        ("amazon", keys(max_tokens=0), "max_tokens must be at least 1, got 0"),
        ("amazon", ["--jobs", 0], "--jobs must be at least 1, got 0"),
    ],
)
def test_bad_options_get_one_line_and_nothing_is_written(name, changes, message, folders, options, tmp_path, capsys):
    assert paper(name, folders[name].folder, tmp_path / "runs", *options[name], *changes) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_folder_without_the_release_is_refused_with_what_is_expected(options, tmp_path, capsys):
    assert paper("fmow", tmp_path, tmp_path / "runs", *options["fmow"]) == 2
    told = capsys.readouterr().err
    assert "fmow_v1.1: expected rgb_metadata.csv" in told
    assert told.count("\n") == 1


def test_amazon_without_a_model_says_what_to_give(folders, tmp_path, capsys):
    assert paper("amazon", folders["amazon"].folder, tmp_path / "runs", *FEW) == 2
    assert "amazon: it needs text_network: the folder of a BERT-like model with its" in capsys.readouterr().err


def test_a_split_of_which_nothing_would_count_is_refused_before_training(folders, options, tmp_path, capsys):
    few = [*options["fmow"], *keys(max_test_rows=2)]
    assert paper("fmow", folders["fmow"].folder, tmp_path / "runs", *few) == 2
    assert "no label of a domain has 3 or more seen examples; raise" in capsys.readouterr().err


def fmow(folder="data", **values):
    return wilds_dataset("fmow", folder, values)


def test_the_settings_are_the_papers():
    source = wilds_dataset("iwildcam", "data")
    assert (source.n_train_domains, source.max_train_rows, source.max_test_rows) == (80, 3_000, 1_000)
    assert (source.source_network.crop, source.source_network.image_size) == (0.05, 224)
    assert {name for name in CATALOGUE if CATALOGUE[name].crop} == {"iwildcam"}


def test_where_recall_comes_from_is_checked():
    with pytest.raises(InputError, match="recall_from must be one of 'full-pass', 'batches', got 'memory'"):
        Study(fmow(), recall_from="memory")


def test_means_do_not_make_another_run():
    source, other = fmow(learn="all"), fmow(learn="all", device="cpu", workers=7, cache="elsewhere", download=True)
    assert source.identity() == other.identity() == other.in_processes(3).identity()


def test_whole_networks_train_one_seed_at_a_time_and_features_as_memory_allows():
    def n_jobs(sizes, **values):
        source = fmow(**values).with_sizes(sizes)
        return len(plan_jobs(Study(source, ("erm",), seeds=(0, 1, 2, 3)).runs()))

    small = Sizes(20, 18, 100, 100)
    assert n_jobs(small, learn="all") == 4
    assert n_jobs(small, learn="head") == 1
    assert n_jobs(None, learn="head") == 4


def test_a_job_of_whole_networks_has_its_share_of_the_threads():
    before = torch.get_num_threads()
    with threads_for(fmow(learn="all"), before + 1):
        assert torch.get_num_threads() == before + 1
    with threads_for(fmow(learn="all")):
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


def test_another_network_in_the_same_place_makes_another_run(resnet, tmp_path):
    model = shutil.copytree(resnet, tmp_path / "resnet")
    before, again = (fmow(image_network=model).identity() for _ in range(2))
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    assert before == again != fmow(image_network=model).identity()
