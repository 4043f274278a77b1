"""`--as-authors` and the default differ in what docs/method.md lists, each choice has an effect, and nothing else."""

import json
import re
import sys
from dataclasses import asdict, fields, is_dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from domaincover import InputError
from domaincover.cli import main
from domaincover.paper import catalogue
from domaincover.paper.authors_code import AUTHORS_CODE, AUTHORS_MARK, PAPER_TEXT, SilentChoices
from domaincover.paper.catalogue import study_dataset, wilds_dataset
from domaincover.paper.collect import collect
from domaincover.paper.commands.run_studies import directory_of
from domaincover.paper.commands.run_studies import settings_of as given_settings
from domaincover.paper.commands.study_commands import StudyOptions
from domaincover.paper.job import estimator_of
from domaincover.paper.methods import METHODS
from domaincover.paper.runner import plan_studies, run_study
from domaincover.paper.study import Study
from domaincover.paper.study_datasets import Sizes, TableDataset, draw_split, draw_study_data
from domaincover.thresholds import robust_thresholds
from tests.tiny_models import tiny_bert_folder

METHOD_PAGE = Path(__file__).parents[2] / "docs" / "method.md"
# Where a choice shows in the settings of runs and estimators. The others act on rows and results, and are tested below.
SHOWN_IN = {
    "loss": "erm_loss",
    "small_cells": "calibration_cells",
    "min_cell_size": "calibration_cells",
    "hidden": "amazon_hidden",
    "resize": "image_transform",
    "image_size": "image_transform",
}
IN_ROWS_AND_RESULTS = {"small_domains", "sized_rows", "deviation_ddof"}


def differing(first, second):
    return {name for name in first | second if first.get(name) != second.get(name)}


def documented():
    """Return the two values of each choice in the table of docs/method.md."""
    section = METHOD_PAGE.read_text(encoding="utf-8").partition("## The paper's text and its authors' code")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", section, flags=re.MULTILINE)
    return {name: (text, code) for name, text, code in rows}


def test_the_documented_choices_are_those_of_the_code():
    text, code = asdict(PAPER_TEXT), asdict(AUTHORS_CODE)
    assert documented() == {name: (str(text[name]), str(code[name])) for name in text}
    assert differing(text, code) == set(text) - {"recall_from"}


@pytest.fixture
def sources(tmp_path):
    """Two image sets and Amazon, with a network whose word embeddings have some features."""
    bert = tiny_bert_folder(tmp_path / "bert", ["good", "bad"])

    def made(name, as_authors):
        values = {"text_network": bert} if name == "amazon" else {"learn": "all"}
        return wilds_dataset(name, tmp_path, values, as_authors=as_authors)

    return made


def plain(values):
    """Return parameters without estimators, with those of networks in their place."""
    found = {}
    for name, value in values.items():
        if hasattr(value, "get_params"):
            continue
        if is_dataclass(value) and not isinstance(value, type):
            found |= {f"{name}__{own}": inner for own, inner in asdict(value).items()}
        else:
            found[name] = value
    return found


def settings_of(run):
    return {f"run__{name}": value for name, value in run.to_dict().items()} | plain(estimator_of(run).get_params())


def test_default_and_preset_differ_in_the_documented_choices_and_nothing_else(sources):
    found = set()
    names = ("synthetic-10", "synthetic-50-random", "camelyon17", "fmow", "amazon")
    for name, method in product(names, METHODS):
        is_wilds = not name.startswith("synthetic")
        if name in ("camelyon17", "fmow") and METHODS[method].promises:
            continue  # too costly for whole networks
        default, preset = (
            next(Study(sources(name, choice) if is_wilds else study_dataset(name), (method,), as_authors=choice).runs())
            for choice in (False, True)
        )
        assert (default.choices, preset.choices) == (PAPER_TEXT, AUTHORS_CODE)
        changed = differing(settings_of(default), settings_of(preset))
        assert "run__as_authors" in changed
        found |= {SHOWN_IN[setting.rpartition("__")[2]] for setting in changed - {"run__as_authors"}}
    assert found == set(SHOWN_IN.values())
    assert found | IN_ROWS_AND_RESULTS | {"recall_from"} == {field.name for field in fields(SilentChoices)}


def test_a_default_run_records_what_it_did_before_there_was_a_preset():
    run = next(Study(study_dataset("synthetic-10")).runs())
    assert "as_authors" not in run.to_dict()
    assert replace(run, as_authors=True).to_dict() == run.to_dict() | {"as_authors": True}


# Choices about images and texts


@pytest.mark.parametrize("name", ["camelyon17", "fmow", "iwildcam"])
def test_every_image_set_has_the_pretrained_networks_own_transforms(sources, name):
    preset, default = sources(name, True), sources(name, False)
    assert (preset.source_network.image_size, preset.source_network.resize) == (224, "imagenet")
    assert default.source_network.resize == "stretch"
    assert preset.source_network.crop == default.source_network.crop
    assert (preset.identity()["resize"], default.identity()["resize"]) == ("imagenet", "stretch")


def test_amazons_perceptron_is_half_as_wide_as_its_input(sources):
    from domaincover.estimators.source_network import backbone_of

    preset, default = sources("amazon", True), sources("amazon", False)
    network = preset.source_network
    n_features = backbone_of("text", network.model, features=network.features).module.n_features
    assert preset.estimator_settings["hidden"] == preset.identity()["hidden"][0] == n_features // 2 != 10
    assert default.estimator_settings["hidden"] == default.identity()["hidden"][0] == 10


# Choices about rows and results, on a table with small domains and a rare label


def clinics():
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(12), rng.integers(60, 180, size=12))
    labels = rng.choice(3, p=[0.5, 0.35, 0.15], size=len(domains))
    return rng.normal(size=(len(domains), 2)) + labels[:, None], labels, domains


SIZES = {"n_train_domains": 6, "n_unseen_domains": 5, "max_train_rows": 90, "max_test_rows": 60}
CLINICS = TableDataset(
    name="clinics",
    read=clinics,
    content="clinics",
    hidden=4,
    epochs=2,
    min_cell_size=15,
    **SIZES,
)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Runs of three seeds, by default and as the authors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(catalogue.REGISTERED, "clinics", CLINICS)
        found = {}
        for as_authors in (False, True):
            out = tmp_path_factory.mktemp("runs") / "study"
            methods = ("erm", "robust", "set-cover")
            study = Study(study_dataset("clinics"), methods, seeds=(0, 1, 2), as_authors=as_authors)
            outcome = run_study(plan_studies([study], out), out)
            assert outcome.failures == ()
            found[as_authors] = (study, out)
        yield found


def test_recall_comes_from_full_passes_unless_a_study_says_otherwise(both):
    assert {run.recall_from for run in both[False][0].runs()} == {"full-pass"}
    assert {run.recall_from for run in both[True][0].runs()} == {"full-pass"}
    asked = replace(both[True][0], recall_from="batches")
    assert {run.recall_from for run in asked.runs()} == {"batches"}


def test_training_rows_are_filled_before_test_rows():
    for seed in range(3):
        usual, filled = (draw_split(CLINICS, seed, 15, choices) for choices in (PAPER_TEXT, AUTHORS_CODE))
        n_rows, n_train = (
            np.bincount(filled.data.domains[rows], minlength=12)
            for rows in (np.concatenate(filled.split[:2]), filled.split.train)
        )
        assert (n_train == np.minimum(n_rows, 90)).all()
        assert len(usual.split.train) < len(filled.split.train)
        assert np.array_equal(usual.split.unseen, filled.split.unseen)


@pytest.mark.parametrize("as_authors", [False, True])
def test_without_rows_left_to_hold_out_results_have_no_seen_part(tmp_path, monkeypatch, as_authors):
    monkeypatch.setitem(catalogue.REGISTERED, "clinics", replace(CLINICS, max_train_rows=180, max_test_rows=180))
    study = Study(study_dataset("clinics"), ("erm",), seeds=(0,), epochs=1, as_authors=as_authors)
    run_study(plan_studies([study], tmp_path), tmp_path)
    assert set(collect(tmp_path).results["split"]) == {"train", "unseen", *(() if as_authors else ("seen",))}


def test_only_large_cells_calibrate(both):
    run = next(run for run in both[True][0].runs() if run.method == "robust")
    data = draw_study_data(CLINICS, run.seed, run.min_cell_size, choices=run.choices)
    X, y, domains = data.training
    model = estimator_of(run).fit(X, y, domains=domains)
    counts = np.bincount(domains * 3 + y, minlength=3 * domains.max() + 3)[domains * 3 + y]
    assert (counts < 14).any()
    large = counts >= 14  # one below the size from which cells are reported, as 100 is below 101
    scores = model.label_scores(X)
    assert np.array_equal(model.thresholds_, robust_thresholds(scores[large], y[large], domains[large], 0.9))
    assert not np.array_equal(model.thresholds_, robust_thresholds(scores, y, domains, 0.9))


@pytest.mark.parametrize("as_authors", [False, True])
def test_set_sizes_are_over_all_rows_or_over_those_that_count(both, as_authors):
    _, out = both[as_authors]
    folder = out / "clinics/robust/target-0.9/seed-0"
    table = pd.read_parquet(folder / "predictions.parquet")
    unseen = table[table["split"] == "unseen"].astype({"domain": str, "label": str})
    counts = unseen.groupby(["domain", "label"])["split"].transform("size")
    assert (counts < 15).any()
    sized = unseen[counts >= 15] if as_authors else unseen
    expected = sized.filter(like="in_set").sum(axis=1).groupby(sized["domain"]).mean()
    reported = json.loads((folder / "report.json").read_text())["splits"]["unseen"]["domains"]
    assert {domain["domain"]: domain["set_size"] for domain in reported} == pytest.approx(expected.to_dict())


@pytest.mark.parametrize(("as_authors", "ddof"), [(False, 1), (True, 0)])
def test_the_deviation_over_seeds_divides_by_their_number_or_by_one_less(both, as_authors, ddof):
    _, out = both[as_authors]
    row = collect(out).results.set_index(["method", "split"]).loc["robust", "unseen"]
    reports = [json.loads((out / f"clinics/robust/target-0.9/seed-{k}/report.json").read_text()) for k in range(3)]
    for name in ("min_recall", "set_size", "share_at_target"):
        values = [report["splits"]["unseen"]["summary"][name] for report in reports]
        assert row[f"{name}_std"] == pytest.approx(np.std(values, ddof=ddof), abs=1e-12)
        assert row[f"{name}_ci"] == pytest.approx(t.ppf(0.975, 2) * np.std(values, ddof=1) / 3**0.5, abs=1e-12)


# Synthetic data: domains have enough rows, so only ERM's loss changes sets


def test_on_synthetic_data_set_cover_stays_as_it_is_and_erm_does_not(tmp_path):
    setting = study_dataset("synthetic-10").with_sizes(Sizes(4, 3, 150, 120))
    study = Study(setting, ("erm", "set-cover"), seeds=(0,), epochs=1, min_cell_size=20)
    tables = {}
    for as_authors in (False, True):
        out = tmp_path / str(as_authors)
        run_study(plan_studies([replace(study, as_authors=as_authors)], out), out)
        for method in study.methods:
            file = out / f"synthetic-10/{method}/target-0.9/seed-0/predictions.parquet"
            tables[as_authors, method] = pd.read_parquet(file)
    pd.testing.assert_frame_equal(tables[False, "set-cover"], tables[True, "set-cover"])
    rows = ["split", "domain", "label"]
    pd.testing.assert_frame_equal(tables[False, "erm"][rows], tables[True, "erm"][rows])
    assert not np.allclose(tables[False, "erm"]["score[1]"], tables[True, "erm"]["score[1]"])


def test_hidden_units_of_synthetic_data_are_half_of_the_input_in_table_and_code():
    assert [study_dataset(f"synthetic-{n}").hidden for n in (10, 50)] == [5, 25]


# The command line


def call(place, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "argv", ["domaincover", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
    return left.value.code


def test_runs_as_the_authors_have_their_own_directory_and_say_so_everywhere(tmp_path, capsys):
    few = [f"--set={key}={value}" for key, value in (SIZES | {"epochs": 1, "min_cell_size": 20}).items()]
    wanted = ["paper", "synthetic-10", "--as-authors", "--seeds", 1, "--jobs", 1, "--format", "svg", *few]
    assert call(tmp_path, *wanted) == 0
    out = tmp_path / "runs" / "paper-as-authors"
    said = AUTHORS_MARK.removeprefix("as ")
    assert said in capsys.readouterr().out
    for name in ("table.csv", "table.tex", "cross-synthetic-10.svg"):
        text = (out / "results/synthetic-10" / name).read_text(encoding="utf-8")
        assert re.search("authors[’'] released code", text), name
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"As {said}." in page
    assert "as_authors" in page
    configs = [json.loads(file.read_text()) for file in out.glob("*/*/*/*/config.json")]
    assert len(configs) == 6
    assert all(config["as_authors"] is True for config in configs)
    assert call(tmp_path, *[part for part in wanted if part != "--as-authors"], "--out", out) == 2
    assert "was made with other settings (--as-authors True)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "directory"),
    [
        ({}, "runs/paper"),
        ({"as_authors": True}, "runs/paper-as-authors"),
        ({"assignments": ["as_authors=true"]}, "runs/paper-as-authors"),
        ({"assignments": ["as_authors=false"]}, "runs/paper"),
        ({"as_authors": True, "quick": True}, "runs/paper-as-authors-quick"),
        ({"as_authors": True, "out": Path("mine")}, "mine"),
    ],
)
def test_the_default_directory_is_another_one(options, directory):
    assert directory_of(StudyOptions(**options), "paper") == Path(directory)


def test_the_option_and_its_key_may_not_contradict_each_other():
    with pytest.raises(InputError, match="--as-authors and --set as_authors=false are both given"):
        given_settings(StudyOptions(as_authors=True, assignments=["as_authors=false"]))


def test_the_initial_multiplier_is_a_key_of_a_study():
    run = next(Study(study_dataset("synthetic-10"), ("set-cover",), initial_multiplier=2.5).runs())
    assert estimator_of(run).initial_multiplier == run.to_dict()["initial_multiplier"] == 2.5
    for value in (0, 1e7, float("nan")):
        with pytest.raises(InputError, match="initial_multiplier must be from 1e-06 to 1e\\+06"):
            Study(study_dataset("synthetic-10"), initial_multiplier=value)
